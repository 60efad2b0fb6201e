//! Orders on the store as a whole that need several operators.
//!
//! The store's operators say how many of them must sign an order: on tokens, on the operators themselves, on the end of a pause of everything. The
//! signatures gather in the record that the order changes. Assumes that the operators' keys are in different hands. Guarantees that fewer than the
//! quorum change nothing that needs it, that an operator counts once however it signs, that an order is carried out once, and that
//! one operator can neither lower the quorum nor change the list of operators. Does not guarantee that signatures last: they are void once the quorum or the
//! list of operators has changed, and a day after the first one by the wall clock of whoever carries out the order. That expiry is a convenience; what keeps
//! an old order from counting again is its number. The first signature uses the number up, so that an order that became void cannot begin again.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::command::MAX_TEXT_BYTES;
use crate::id::ContentHash;
use crate::operator::{MAX_OPERATORS, OperatorKey, PublicKey};
use crate::order::{Order, Signed};
use crate::quorum::Cosignature;
use crate::refusal::Refusal;
use crate::store_info::StoreInfo;
use crate::time::{Span, WallTime};

/// How long an order waits for signatures.
pub const WAITS: Span = Span::secs(24 * 60 * 60);
/// The most orders that one operator may have begun and that wait, in one record.
pub const MAX_OF_ONE: usize = 4;

/// The kinds of orders on the store as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OrderKind {
    /// Everything pauses.
    Pause,
    /// Everything resumes.
    Resume,
    /// An access token is made.
    CreateToken,
    /// An access token is revoked.
    RevokeToken,
    /// The list of operators changes.
    Operators,
    /// The quorum changes.
    Quorum,
}

impl OrderKind {
    /// All of them, with their names.
    pub const ALL: [(OrderKind, &'static str); 6] = [
        (OrderKind::Pause, "pause"),
        (OrderKind::Resume, "resume"),
        (OrderKind::CreateToken, "create-token"),
        (OrderKind::RevokeToken, "revoke-token"),
        (OrderKind::Operators, "operators"),
        (OrderKind::Quorum, "quorum"),
    ];

    /// Whether it could undo the quorum itself.
    fn guards_the_quorum(self) -> bool {
        match self {
            OrderKind::Operators | OrderKind::Quorum => true,
            OrderKind::Pause | OrderKind::Resume | OrderKind::CreateToken | OrderKind::RevokeToken => false,
        }
    }

    /// Whether it only takes power away: an emergency stop, which one operator can give unless the operators say otherwise.
    fn only_stops(self) -> bool {
        match self {
            OrderKind::Pause | OrderKind::RevokeToken => true,
            OrderKind::Resume | OrderKind::CreateToken | OrderKind::Operators | OrderKind::Quorum => false,
        }
    }
}

impl fmt::Display for OrderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(OrderKind::ALL.iter().find(|(kind, _)| kind == self).map_or("?", |(_, name)| name))
    }
}

impl FromStr for OrderKind {
    type Err = String;
    fn from_str(text: &str) -> Result<OrderKind, String> {
        OrderKind::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind).ok_or_else(|| {
            let names = OrderKind::ALL.map(|(_, name)| name);
            format!("`{text}` is not an order on the store; use {}", names.join(", "))
        })
    }
}

/// How many operators an order on the store takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StoreQuorum {
    /// How many operators must sign the same order.
    pub quorum: u8,
    /// Which orders; none named means all but `pause` and `revoke-token`. `operators` and `quorum` always need the quorum.
    pub orders: Vec<OrderKind>,
    /// Whether one operator may act at once, with a reason that is kept.
    pub break_glass: bool,
}

impl Default for StoreQuorum {
    fn default() -> StoreQuorum {
        StoreQuorum { quorum: 1, orders: Vec::new(), break_glass: false }
    }
}

impl StoreQuorum {
    /// Whether it is as if nobody had said anything.
    pub(crate) fn is_usual(&self) -> bool {
        *self == StoreQuorum::default()
    }

    /// Refuses a quorum that so many operators cannot fulfil.
    pub(crate) fn check(&self, operators: usize) -> Result<(), Refusal> {
        if self.quorum == 0 || self.orders.len() > OrderKind::ALL.len() {
            return Err(Refusal::invalid(
                format!("a quorum is between 1 and {MAX_OPERATORS} operators"),
                "2 suits most teams: baton operator quorum 2",
            ));
        }
        if usize::from(self.quorum) > operators.max(1) {
            return Err(Refusal::invalid(
                format!("the store asks for {} operators and would have {operators}", self.quorum),
                "add operators first (baton operator add KEY), or ask for fewer: baton operator quorum N",
            ));
        }
        Ok(())
    }

    /// How many operators an order of this kind takes.
    pub fn needed(&self, kind: OrderKind) -> usize {
        let named = if self.orders.is_empty() { !kind.only_stops() } else { self.orders.contains(&kind) };
        if named || kind.guards_the_quorum() { usize::from(self.quorum) } else { 1 }
    }
}

/// What came of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum OrderOutcome {
    /// It was carried out.
    Done,
    /// It waits: more operators must sign it.
    Signed {
        /// How many have signed it.
        have: u64,
        /// How many it takes.
        need: u64,
    },
}

/// An order that can gather signatures.
pub trait Gathers: Order + Clone + PartialEq {
    /// Its kind.
    fn kind(&self) -> OrderKind;
    /// The number that it was signed for.
    fn number(&self) -> u64;
    /// Why it does not wait for other operators.
    fn break_glass(&self) -> Option<&str>;
}

/// An order that some operators have signed, and more must sign.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Waiting{O}"))]
pub struct PendingOrder<O> {
    /// What is ordered.
    pub order: O,
    /// Who signed it, the first one first.
    pub signed: Vec<Cosignature>,
    /// When the first one signed it, by the clock of whoever wrote that down.
    pub begun: WallTime,
    /// The order by which the quorum and the operators were then as they were.
    pub rules: u64,
}

impl<O: Gathers> PendingOrder<O> {
    /// Whether more signatures count: the rules are those of when it began, and its time is not over.
    pub fn is_live(&self, info: &StoreInfo, at: WallTime) -> bool {
        self.rules == info.rules && at < self.begun + WAITS
    }

    /// How many signatures it takes.
    pub fn needed(&self, info: &StoreInfo) -> usize {
        info.quorum.needed(self.order.kind())
    }

    /// Its name for people: the first digits of its hash.
    pub fn id(&self) -> String {
        let text = serde_json::to_string(&self.order).unwrap_or_default();
        format!("{:.8}", ContentHash::of(text.as_bytes()).to_string())
    }

    /// Whether this operator has signed it.
    pub fn is_signed_by(&self, key: PublicKey) -> bool {
        self.signed.iter().any(|one| one.operator() == key)
    }

    /// Refuses an order that nobody should sign beside others, whatever the record says: one for another store, one with a number that is to come,
    /// or one that would count alone. `next` is the number of the next order on the record.
    pub fn check(&self, info: &StoreInfo, next: u64, at: WallTime) -> Result<(), Refusal> {
        let wrong = |why: String| Err(Refusal::WrongKey { why });
        let (store, number) = (self.order.store(), self.order.number());
        if store != info.id {
            return wrong(format!("the order that waits for signatures is for the store {store}"));
        }
        if number > next {
            return wrong(format!(
                "the order that waits for signatures has number {number}, and the next is {next}"
            ));
        }
        if self.order.break_glass().is_some() {
            return wrong("the order that waits for signatures would need no other".to_string());
        }
        if !self.is_live(info, at) {
            return Err(Refusal::invalid(
                "the order waited for too long, or the quorum or the operators have changed since",
                "give the order again",
            ));
        }
        Ok(())
    }
}

impl OperatorKey {
    /// Signs the same order as those who have signed it.
    pub fn cosign_order<O: Gathers>(&self, waiting: &PendingOrder<O>) -> Signed<O> {
        self.sign_order(waiting.order.clone())
    }
}

/// What comes of one more signature.
pub(crate) enum Weighed<O> {
    /// It takes more. The orders that wait then.
    Waits(Vec<PendingOrder<O>>, OrderOutcome),
    /// It is enough; these signed it before. The orders that still wait.
    Enough(Vec<Cosignature>, Vec<PendingOrder<O>>),
}

/// Weighs a signature that was verified. An order begins with the number `next`, and uses it up; one that waits keeps the number that it began with.
pub(crate) fn weigh<O: Gathers>(
    signed: &Signed<O>,
    waiting: &[PendingOrder<O>],
    info: &StoreInfo,
    next: u64,
    at: WallTime,
) -> Result<Weighed<O>, Refusal> {
    let (order, by) = (&signed.order, signed.operator());
    let mut live: Vec<PendingOrder<O>> =
        waiting.iter().filter(|one| one.is_live(info, at)).cloned().collect();
    let place = live.iter().position(|one| one.order == *order);
    if place.is_none() && order.number() != next {
        return Err(Refusal::invalid(
            "another order was carried out since this one was signed, or it waited for too long",
            "try again",
        ));
    }
    // The first operator of a store is nobody's colleague.
    let need = if info.operator_keys.is_empty() { 1 } else { info.quorum.needed(order.kind()) };
    if let Some(why) = order.break_glass() {
        check_alone(why, need, info)?;
        return Ok(Weighed::Enough(Vec::new(), live));
    }
    let others = place.map_or(&[][..], |place| live[place].signed.as_slice());
    let outcome = |have: usize| OrderOutcome::Signed { have: have as u64, need: need as u64 };
    if others.iter().any(|other| other.operator() == by) {
        let have = others.len();
        return Ok(Weighed::Waits(live, outcome(have)));
    }
    if others.len() + 1 >= need {
        let with = others.to_vec();
        live.retain(|one| one.order != *order);
        return Ok(Weighed::Enough(with, live));
    }
    let have = others.len() + 1;
    let own = Cosignature { by: signed.by, signature: signed.signature, via: signed.via.clone() };
    match place {
        Some(place) => live[place].signed.push(own),
        None => {
            let begun =
                |one: &&PendingOrder<O>| one.signed.first().is_some_and(|first| first.operator() == by);
            if live.iter().filter(begun).count() >= MAX_OF_ONE {
                return Err(Refusal::invalid(
                    format!("{MAX_OF_ONE} orders of this operator wait for signatures"),
                    "let others sign them: baton cosign --list",
                ));
            }
            live.push(PendingOrder {
                order: order.clone(),
                signed: Vec::from([own]),
                begun: at,
                rules: info.rules,
            });
        }
    }
    Ok(Weighed::Waits(live, outcome(have)))
}

fn check_alone(why: &str, need: usize, info: &StoreInfo) -> Result<(), Refusal> {
    if why.len() > MAX_TEXT_BYTES {
        return Err(Refusal::invalid("the reason is too long", "say it shorter"));
    }
    if why.trim().is_empty() {
        return Err(Refusal::invalid("to break the glass takes a reason", "say why: --reason TEXT"));
    }
    if need > 1 && !info.quorum.break_glass {
        return Err(Refusal::invalid(
            format!("the store asks for {need} operators, and does not let one act alone"),
            "give the order without --break-glass, and others sign it: baton cosign",
        ));
    }
    Ok(())
}
