//! What operators did: a chain of numbered entries, each with the hash of the one before.
//!
//! Every act on an election, every order on the store as a whole and every order on its access tokens is such an entry, with the signed order
//! itself. The record that was changed remembers the last one whole; the next change first puts it into the log beside the record. Assumes that the store
//! keeps what it was given. Guarantees that an entry that is changed, left out, moved or cut off afterwards is noticed by [`verify`], and where;
//! that nobody's act is put into anybody else's mouth, since the orders are signed. Does not guarantee that somebody who can write the
//! store, and holds an operator's key or rewrites the record and its whole log together, is noticed: note down the head that `verify` tells, and
//! compare.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{ContentHash, Epoch, StoreId};
use crate::log::{Log, Numbered};
use crate::name::{AgentName, ElectionName};
use crate::operator::{Act, PublicKey, SignedAct};
use crate::order::{Order, Signed};
use crate::quorum::Cosignature;
use crate::store_order::{SignedStoreOrder, StoreChange};
use crate::time::WallTime;
use crate::tokens::{SignedTokenOrder, TokenChange};

/// How many entries one part of a log has: as many of the largest as fit into a record of every store.
pub const AUDIT_PART: u64 = 32;
/// How far behind a full part the next one for the same numbers lies: further than any number gets.
const SPILL: u64 = 1 << 40;
/// How many parts there are at most for the same numbers. After so many the last one grows.
pub const MAX_SPILLED: u64 = 1_024;
/// The most faults that are told of one book.
pub const MAX_FAULTS: usize = 100;

/// Whose acts a chain has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Book {
    /// Orders on the store as a whole: who the operators of new elections are, whether everything is paused.
    Store,
    /// Orders on the access tokens of the store's server.
    Tokens,
    /// Acts on an election.
    Election(ElectionName),
}

impl fmt::Display for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Book::Store => f.pad("@store"),
            Book::Tokens => f.pad("@tokens"),
            Book::Election(election) => f.pad(election.as_str()),
        }
    }
}

/// What was ordered, as it was signed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ordered {
    /// An act on an election.
    Act(Box<SignedAct>),
    /// An order on the store as a whole.
    Store(Box<SignedStoreOrder>),
    /// A token is made or revoked.
    Tokens(Box<SignedTokenOrder>),
}

impl Ordered {
    /// The operator who signed it.
    pub fn by(&self) -> PublicKey {
        match self {
            Ordered::Act(signed) => signed.operator(),
            Ordered::Store(signed) => signed.operator(),
            Ordered::Tokens(signed) => signed.operator(),
        }
    }

    /// Where it belongs, and the number that it was signed for.
    fn place(&self) -> (StoreId, Book, u64) {
        match self {
            Ordered::Act(signed) => {
                let order = &signed.order;
                (order.store, Book::Election(order.election.clone()), order.number)
            }
            Ordered::Store(signed) => (signed.order.store, Book::Store, signed.order.number),
            Ordered::Tokens(signed) => (signed.order.store, Book::Tokens, signed.order.number),
        }
    }

    fn is_signed(&self) -> bool {
        match self {
            Ordered::Act(signed) => signed.check_signature().is_ok(),
            Ordered::Store(signed) => signed.check_signature().is_ok(),
            Ordered::Tokens(signed) => signed.check_signature().is_ok(),
        }
    }

    /// Whether this one signed the same beside the first.
    fn is_cosigned(&self, with: &Cosignature) -> bool {
        match self {
            Ordered::Act(signed) => is_cosigned(&signed.order, with),
            Ordered::Store(signed) => is_cosigned(&signed.order, with),
            Ordered::Tokens(signed) => is_cosigned(&signed.order, with),
        }
    }

    /// Whether it is the same order, whoever signed it.
    fn is_same(&self, other: &Ordered) -> bool {
        match (self, other) {
            (Ordered::Act(one), Ordered::Act(other)) => one.order == other.order,
            (Ordered::Store(one), Ordered::Store(other)) => one.order == other.order,
            (Ordered::Tokens(one), Ordered::Tokens(other)) => one.order == other.order,
            (Ordered::Act(_) | Ordered::Store(_) | Ordered::Tokens(_), _) => false,
        }
    }

    /// Operators that it speaks of as such: those that it makes, and those that it ends.
    fn operators(&self) -> Vec<PublicKey> {
        match self {
            Ordered::Act(signed) => match &signed.order.act {
                Act::Dismiss { key } | Act::Enrol { key } => Vec::from([*key]),
                Act::Appoint { .. }
                | Act::Depose { .. }
                | Act::Pause { .. }
                | Act::Halt { .. }
                | Act::Resume
                | Act::Approve { .. }
                | Act::Reject { .. }
                | Act::SetPolicy { .. }
                | Act::Note { .. }
                | Act::Vote { .. }
                | Act::Forget { .. } => Vec::new(),
            },
            Ordered::Store(signed) => match &signed.order.change {
                StoreChange::Operators { after, .. } => after.clone(),
                StoreChange::Pause { .. } | StoreChange::Resume | StoreChange::Quorum { .. } => Vec::new(),
            },
            Ordered::Tokens(_) => Vec::new(),
        }
    }
}

fn is_cosigned<O: Order + Clone>(order: &O, with: &Cosignature) -> bool {
    let Cosignature { by, signature, via } = with.clone();
    Signed { order: order.clone(), by, signature, via }.check_signature().is_ok()
}

impl From<&SignedStoreOrder> for Ordered {
    fn from(signed: &SignedStoreOrder) -> Ordered {
        Ordered::Store(Box::new(signed.clone()))
    }
}

impl From<&SignedTokenOrder> for Ordered {
    fn from(signed: &SignedTokenOrder) -> Ordered {
        Ordered::Tokens(Box::new(signed.clone()))
    }
}

/// One act, as it is kept for ever.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AuditEntry"))]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number: one above that of the entry before.
    pub number: u64,
    /// When, for people.
    pub at: WallTime,
    /// The epoch of the election after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Whose leadership it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AgentName>,
    /// The order, as it was signed.
    pub ordered: Ordered,
    /// Who signed the same before, where it took several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<Cosignature>,
    /// The hash of the entry before; none if this is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<ContentHash>,
    /// The hash of all that.
    pub hash: ContentHash,
}

impl Numbered for Entry {
    fn number(&self) -> u64 {
        self.number
    }
}

/// What the hash of an entry covers.
#[derive(Serialize)]
struct Hashed<'a> {
    number: u64,
    at: WallTime,
    epoch: Option<Epoch>,
    ended: Option<&'a AgentName>,
    ordered: &'a Ordered,
    with: &'a [Cosignature],
    previous: Option<ContentHash>,
}

impl Entry {
    /// The entry of an order that is being carried out, after that of this hash.
    pub(crate) fn new(
        number: u64,
        at: WallTime,
        ordered: Ordered,
        (ended, epoch): (Option<AgentName>, Option<Epoch>),
        with: Vec<Cosignature>,
        previous: Option<ContentHash>,
    ) -> Entry {
        let hash = ContentHash([0; 32]);
        let entry = Entry { number, at, epoch, ended, ordered, with, previous, hash };
        Entry { hash: entry.computed(), ..entry }
    }

    fn computed(&self) -> ContentHash {
        let Entry { number, at, epoch, ended, ordered, with, previous, hash: _ } = self;
        let (number, at, epoch, ended, previous) = (*number, *at, *epoch, ended.as_ref(), *previous);
        let hashed = Hashed { number, at, epoch, ended, ordered, with, previous };
        let text = serde_json::to_string(&hashed).unwrap_or_default();
        assert!(!text.is_empty(), "an entry is always expressible");
        ContentHash::of(format!("baton audit 1\n{text}").as_bytes())
    }

    /// The same, to be shown: without the hash of a token. Its own hash and signature are those of the whole.
    #[must_use]
    pub fn shown(&self) -> Entry {
        let mut shown = self.clone();
        if let Ordered::Tokens(signed) = &mut shown.ordered
            && let TokenChange::Create { token } = &mut signed.order.change
        {
            token.proof = token.proof.shown();
        }
        shown
    }

    /// Whether it is the entry of this very order, and the operator who repeats it is one of those who signed it.
    pub(crate) fn is_repeated_by<O>(&self, signed: &Signed<O>) -> bool
    where
        for<'a> Ordered: From<&'a Signed<O>>,
    {
        let mut signers = self.with.iter().map(Cosignature::operator).chain([self.ordered.by()]);
        self.ordered.is_same(&Ordered::from(signed)) && signers.any(|by| by == signed.operator())
    }

    /// The part of the log in which an entry of this number stands.
    pub fn part(number: u64) -> u64 {
        number / AUDIT_PART
    }

    /// Where it stands if so many parts before were full. A record that was deleted and made anew begins to count again, and its acts meet those of before.
    pub fn spilled(part: u64, times: u64) -> u64 {
        part.saturating_add(times.saturating_mul(SPILL))
    }

    /// What is wrong with it by itself, given whose keys may have signed it, if that is known.
    fn fault(&self, book: &Book, store: StoreId, operators: Option<&BTreeSet<PublicKey>>) -> Option<String> {
        if self.computed() != self.hash {
            return Some("it was changed after it was written: its hash does not fit".to_string());
        }
        let (signed_for, of, number) = self.ordered.place();
        let numbered = match book {
            // What several must sign is signed for the number that it had when the first one did. The numbers of orders on the store and on
            // tokens run ahead of the entries: an order that became void has used one up, and a restore skips many.
            Book::Store | Book::Tokens => number >= self.number || !self.with.is_empty(),
            Book::Election(_) if !self.with.is_empty() => number <= self.number,
            Book::Election(_) => number == self.number,
        };
        if signed_for != store || of != *book || !numbered {
            return Some(format!("its order was signed for act {number} of {of} in store {signed_for}"));
        }
        if !self.ordered.is_signed() || !self.with.iter().all(|with| self.ordered.is_cosigned(with)) {
            return Some("a signature under its order does not fit".to_string());
        }
        let signers = self.with.iter().map(Cosignature::operator).chain([self.ordered.by()]);
        let stranger = signers.into_iter().find(|by| operators.is_some_and(|known| !known.contains(by)));
        stranger.map(|by| format!("it was signed by {by}, which was no operator's key here"))
    }
}

/// What a look at a whole book showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AuditVerdict"))]
pub struct Verdict {
    /// How many acts it has.
    pub acts: usize,
    /// The number of the first; above one if an older Baton carried out some before it, or if those before it cannot be read.
    pub first: Option<u64>,
    /// The hash of the last: whoever notes it down can tell later whether all that led to it is still there.
    pub head: Option<ContentHash>,
    /// What is wrong; nothing if it is whole.
    pub faults: Vec<Fault>,
}

/// Something that is wrong with a book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AuditFault"))]
pub struct Fault {
    /// The number of the act.
    pub number: Option<u64>,
    /// What.
    pub why: String,
}

/// What a server tells of the orders on its access tokens. It shows no hash of a token, so that it verifies the book itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokensAudit {
    /// The newest orders, without hashes of tokens.
    pub entries: Vec<Entry>,
    /// What the server found.
    pub verdict: Verdict,
}

/// What a record says of its own acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// How many there were.
    pub count: u64,
    /// The last of them; none if an older Baton carried it out, or if there was none.
    pub last: Option<Entry>,
    /// Whose keys are operators'.
    pub operators: Vec<PublicKey>,
}

/// Whose keys were operators' at some time, as far as a book tells.
pub fn operators(head: &Head, logged: &[Entry]) -> BTreeSet<PublicKey> {
    let told = logged.iter().chain(&head.last).flat_map(|entry| entry.ordered.operators());
    head.operators.iter().copied().chain(told).collect()
}

/// The number of the first act that a book tells of: above one if an older Baton, which kept no log, carried out some before.
pub fn first(head: &Head, logged: &[Entry]) -> Option<u64> {
    logged.iter().chain(&head.last).map(|entry| entry.number).min()
}

/// Leaves out what was done after the look at the record, up to this number: of a book that grows while it is read. What it leaves out leads on from
/// the record's last act, entry by entry.
pub fn without_later(head: &Head, logged: &mut Vec<Entry>, up_to: u64) {
    let Some(last) = &head.last else { return };
    let mut at = (last.number, last.hash);
    while at.0 < up_to {
        let follows =
            |entry: &Entry| Some(entry.number) == at.0.checked_add(1) && entry.previous == Some(at.1);
        let Some(place) = logged.iter().position(follows) else { return };
        let next = logged.swap_remove(place);
        at = (next.number, next.hash);
    }
}

/// Looks at a whole book: each entry by itself, and the chain from the record's last act back to the first. Without a list of operators it is not judged who
/// may have signed.
pub fn verify(
    book: &Book,
    store: StoreId,
    head: &Head,
    logged: &[Entry],
    operators: Option<&BTreeSet<PublicKey>>,
) -> Verdict {
    let mut faults = Vec::new();
    let mut fault = |number: Option<u64>, why: String| {
        if faults.len() < MAX_FAULTS {
            faults.push(Fault { number, why });
        }
    };
    for entry in logged.iter().chain(&head.last) {
        if let Some(why) = entry.fault(book, store, operators) {
            fault(Some(entry.number), why);
        }
    }
    for entry in done_again(logged.iter().chain(&head.last)) {
        fault(Some(entry.number), "the same order was carried out before".to_string());
    }
    match &head.last {
        Some(last) if last.number != head.count => {
            let why = format!("it is the last that the record shows, but {} were counted", head.count);
            fault(Some(last.number), why);
        }
        None if !logged.is_empty() => {
            let why = "the record shows no last act, but there are acts in the log: the record was replaced";
            fault(None, why.to_string());
        }
        Some(_) | None => {}
    }
    let chain = walk(head, logged, &mut fault);
    let stray = |entry: &&Entry| !chain.contains(&entry.hash);
    for entry in logged.iter().filter(stray).filter(|_| head.last.is_some()) {
        let why = "it is in the log, but not in the chain that leads to the record's last act: the record was deleted, put back \
                   or replaced, or this entry was put in";
        fault(Some(entry.number), why.to_string());
    }
    let all: BTreeSet<ContentHash> = logged.iter().chain(&head.last).map(|entry| entry.hash).collect();
    Verdict {
        acts: all.len(),
        first: first(head, logged),
        head: head.last.as_ref().map(|last| last.hash),
        faults,
    }
}

/// Those whose order, which several have signed, stands in another entry before: such an order counts once, whenever that is.
fn done_again<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<&'a Entry> {
    let mut orders: BTreeMap<u64, Vec<&Entry>> = BTreeMap::new();
    let mut again = Vec::new();
    for entry in entries.filter(|entry| !entry.with.is_empty()) {
        let (_, _, number) = entry.ordered.place();
        let known = orders.entry(number).or_default();
        if known.iter().any(|other| other.ordered.is_same(&entry.ordered) && other.hash != entry.hash) {
            again.push(entry);
        }
        known.push(entry);
    }
    again
}

/// Goes back from the last act, entry by entry. Returns those that it met.
fn walk(head: &Head, logged: &[Entry], fault: &mut impl FnMut(Option<u64>, String)) -> BTreeSet<ContentHash> {
    let by_hash: BTreeMap<ContentHash, &Entry> = logged.iter().map(|entry| (entry.hash, entry)).collect();
    let mut met = BTreeSet::new();
    let mut at = head.last.as_ref();
    while let Some(entry) = at {
        if !met.insert(entry.hash) {
            fault(Some(entry.number), "the chain comes back to itself".to_string());
            break;
        }
        let before = entry.number.wrapping_sub(1);
        at = match entry.previous {
            None => None,
            Some(hash) => match by_hash.get(&hash) {
                Some(found) if found.number == before => Some(*found),
                Some(found) => {
                    fault(Some(entry.number), format!("the act before it has the number {}", found.number));
                    Some(*found)
                }
                None => {
                    fault(Some(before), "it is missing, or is not the one that was there".to_string());
                    // Whatever stands in its place: so that what is before it is looked at too.
                    let last_below = logged.iter().filter(|other| other.number < entry.number);
                    last_below.max_by_key(|other| other.number).filter(|other| !met.contains(&other.hash))
                }
            },
        };
    }
    met
}

/// Whether a part of the log takes no more entries.
pub fn is_full(log: &Log<Entry>) -> bool {
    log.entries.len() as u64 >= AUDIT_PART
}

/// Puts an entry into a part of the log; none if it stands there. Nothing that stands there is changed or taken out.
pub fn appended(log: &Log<Entry>, entry: &Entry) -> Option<Log<Entry>> {
    if log.entries.contains(entry) {
        return None;
    }
    let mut entries = log.entries.clone();
    entries.push(entry.clone());
    Some(Log { entries })
}
