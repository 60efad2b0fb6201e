//! A fence: the highest token that a resource has seen, and who may touch the resource.
//!
//! Assumes that every writer of the resource asks its fence first. Guarantees that accepted tokens never go back, that
//! a token of a leadership that was ended is refused as soon as the end is written, and, for a command that runs under a
//! hold, that no other is admitted until it has ended or its hold has lapsed: only the holder's key keeps or ends a running hold. Does not
//! guarantee anything about a write that is made after the check without a hold, or that does not ask.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bindings::SignedFenceOrder;
use crate::document::{Document, Pulse, State};
use crate::id::{Credential, Epoch, Incarnation, KeyHash, StoreId};
use crate::lease::MIN_TTL;
use crate::log::Numbered;
use crate::name::{AgentName, ElectionName, ResourceName};
use crate::refusal::{FORGOTTEN, GOES_ON, Refusal};
use crate::time::{Span, WallTime, as_millis, as_optional_millis};

/// The accepted entries that the fence itself carries; older ones are moved to the log beside it.
pub const MAX_TAIL: usize = 64;
/// The entries of one part of that log.
pub const LOG_PART: u64 = 256;
/// The parts of that log. A later part takes the place of the one before it by so many, so that nobody fills a store by tokens that are accepted.
pub const LOG_PARTS: u64 = 64;
/// The most elections that a resource was bound to before. Their marks are kept, so that none goes back.
pub const MAX_FORMER: usize = 32;
/// The longest hold. It is kept by beats while its command runs, so that one whose command died does not close the resource for long.
pub const MAX_HOLD: Span = Span::secs(3_600);
/// The longest hold for an agent that does not show the credential of the lease, however often it is kept: everybody can see the number of a token.
pub const MAX_HOLD_WITHOUT_LEASE: Span = Span::secs(60);
/// Which part of its length a keeping costs such a hold at the least: one in so many. An observed store may show no age to a server that sees each beat once.
const LEAST_COST: u64 = 4;

/// That a token was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accepted {
    /// Its number, from 1 on.
    pub seq: u64,
    /// The token.
    pub token: Epoch,
    /// Who showed it, if it said so.
    pub agent: Option<AgentName>,
    /// What for, in words.
    pub note: String,
    /// When, for people.
    pub at: WallTime,
}

impl Numbered for Accepted {
    fn number(&self) -> u64 {
        self.seq
    }
}

/// That a command runs on the resource. It lapses like a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hold {
    /// The run of the command.
    pub incarnation: Incarnation,
    /// The hash of the key that keeps and ends the hold.
    pub key_hash: KeyHash,
    /// The token that it was admitted with.
    pub token: Epoch,
    /// How long it lasts after its last beat.
    #[serde(rename = "ttl_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub ttl: Span,
    /// For how much longer it may be kept, counted from its last beat; none for a hold that was made with the credential of the lease, which is kept
    /// for as long as its token is current.
    #[serde(
        default,
        rename = "left_ms",
        with = "as_optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub left: Option<Span>,
    /// Nothing keeps it any longer: the resource was bound to another election meanwhile.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lapsing: bool,
}

/// An election that the resource was bound to before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormerBinding {
    /// The election.
    pub election: ElectionName,
    /// The store that it is of.
    pub store: StoreId,
    /// The highest token of it that was accepted.
    pub highest: Epoch,
}

/// The fence of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fence {
    /// The resource.
    pub resource: ResourceName,
    /// The store whose elections it trusts.
    pub store: StoreId,
    /// The election whose leader may touch it, bound at first use or by an operator.
    pub election: ElectionName,
    /// The highest token of that election that was accepted. It never goes back within a binding.
    pub highest: Epoch,
    /// How often it was bound to another election.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub binding: u64,
    /// An operator freed it: the next election that is named takes it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub free: bool,
    /// The elections that it was bound to before. Each goes on from its own mark if the resource is bound to it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<FormerBinding>,
    /// How many orders of operators were carried out on it; each is signed for its number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub orders: u64,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_order: Option<Box<SignedFenceOrder>>,
    /// The current hold, if there is one.
    pub hold: Option<Hold>,
    /// Counts the beats of its holds.
    pub beat: u64,
    /// The last entries of its log.
    pub tail: Vec<Accepted>,
}

impl Fence {
    /// The fence of a resource that nobody has touched.
    pub fn new(resource: ResourceName, store: StoreId, election: ElectionName) -> Fence {
        Fence {
            resource,
            store,
            election,
            highest: Epoch(0),
            binding: 0,
            free: false,
            former: Vec::new(),
            orders: 0,
            last_order: None,
            hold: None,
            beat: 0,
            tail: Vec::new(),
        }
    }

    /// How far it has come. A fence that stands before this was put back.
    pub fn position(&self) -> (u64, Epoch, u64) {
        (self.binding, self.highest, self.orders)
    }

    /// The same, bound to another election. Tokens of that one count from its own mark; a hold that runs is waited for, and no longer kept.
    pub(crate) fn bound_to(&self, election: &ElectionName, store: StoreId) -> Result<Fence, Refusal> {
        let mut next = self.clone();
        next.free = false;
        if (&self.election, self.store) == (election, store) {
            return Ok(next);
        }
        let known =
            next.former.iter().position(|former| former.election == *election && former.store == store);
        let highest = known.map_or(Epoch(0), |at| next.former.remove(at).highest);
        if self.highest > Epoch(0) {
            let (election, store, highest) = (self.election.clone(), self.store, self.highest);
            next.former.push(FormerBinding { election, store, highest });
        }
        if next.former.len() > MAX_FORMER {
            return Err(Refusal::invalid(
                format!("the resource `{}` was bound to {MAX_FORMER} elections before", self.resource),
                "their marks are kept, and there is no room for another; use another resource name",
            ));
        }
        (next.election, next.store, next.highest) = (election.clone(), store, highest);
        next.binding += 1;
        next.hold.iter_mut().for_each(|hold| hold.lapsing = true);
        Ok(next)
    }

    /// Puts an entry into the log. Entries of [`Fence::overflow`] stand in the log beside the fence already.
    pub(crate) fn note(&mut self, agent: Option<AgentName>, note: &str, at: WallTime) {
        let kept = self.overflow().len();
        let seq = self.tail.last().map_or(1, |last| last.seq + 1);
        self.tail.drain(..kept);
        let note = note.chars().take(200).collect();
        self.tail.push(Accepted { seq, token: self.highest, agent, note, at });
    }

    /// What the clock of a hold is told by.
    pub fn pulse(&self) -> Pulse {
        Pulse {
            holder: self.hold.as_ref().map(|hold| hold.incarnation),
            epoch: self.highest,
            beat: self.beat,
        }
    }

    /// Entries that must stand in the log beside the fence before it can accept another.
    pub fn overflow(&self) -> &[Accepted] {
        if self.tail.len() < MAX_TAIL { &[] } else { &self.tail[..MAX_TAIL / 2] }
    }
}

/// A request to touch a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The resource.
    pub resource: &'a ResourceName,
    /// The token shown.
    pub token: Epoch,
    /// The agent that shows the token.
    pub agent: Option<&'a AgentName>,
    /// What for.
    pub note: &'a str,
    /// To stay for the run of a command.
    pub hold: Option<HoldRequest>,
}

/// A hold that an entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldRequest {
    /// The run of the command, and the key that keeps and ends the hold.
    pub credential: Credential,
    /// How long the hold lasts after its last beat.
    pub ttl: Span,
    /// The credential of the leader's lease. A hold that lasts longer than [`MAX_HOLD_WITHOUT_LEASE`] in all needs it.
    pub lease: Option<Credential>,
}

impl HoldRequest {
    /// A short hold, which needs no lease. To go on after [`MAX_HOLD_WITHOUT_LEASE`] it is asked for anew, which is logged.
    pub fn short(credential: Credential, ttl: Span) -> HoldRequest {
        HoldRequest { credential, ttl, lease: None }
    }
}

/// What is known when a fence decides.
#[derive(Clone, Debug)]
pub struct Sight<'a> {
    /// The election as it stands.
    pub document: &'a Document,
    /// A lower bound on the time since its last beat.
    pub document_age: Span,
    /// A lower bound on the time since the fence's last beat.
    pub fence_age: Span,
    /// The wall clock, for people.
    pub wall: WallTime,
}

/// Admits a token, or refuses it. The fence returned is to be swapped in; entries of [`Fence::overflow`] stand in the log already.
pub fn admit(fence: Option<&Fence>, entry: &Entry<'_>, sight: &Sight<'_>) -> Result<Fence, Refusal> {
    let document = sight.document;
    if let Some(asked) = &entry.hold {
        check_length(asked.ttl)?;
    }
    let mut next = match fence {
        None => Fence::new(entry.resource.clone(), document.store, document.election.clone()),
        Some(fence) if fence.free => fence.bound_to(&document.election, document.store)?,
        Some(fence) => {
            bound(fence, document)?;
            fence.clone()
        }
    };
    current(entry.token, next.highest, sight)?;
    let left = match &entry.hold {
        Some(asked) => left(asked, document)?,
        None => None,
    };
    if let Some(hold) = &next.hold {
        let remaining = hold.ttl.minus(sight.fence_age);
        let mine = entry.hold.filter(|asked| asked.credential.incarnation == hold.incarnation);
        match mine {
            _ if remaining == Span::ZERO => {}
            Some(asked) if !hold.lapsing => check_key(hold, &asked.credential)?,
            Some(_) | None => {
                return Err(Refusal::Held { by: None, epoch: hold.token, remaining, ending: None });
            }
        }
    }
    next.highest = entry.token;
    next.note(entry.agent.cloned(), entry.note, sight.wall);
    next.hold = entry.hold.map(|asked| Hold {
        incarnation: asked.credential.incarnation,
        key_hash: asked.credential.key.hash(),
        token: entry.token,
        ttl: asked.ttl,
        left,
        lapsing: false,
    });
    next.beat += 1;
    Ok(next)
}

/// Keeps a hold, as long as its token is current. A hold that was made without the credential of the lease ends after
/// [`MAX_HOLD_WITHOUT_LEASE`] in all.
pub fn keep(fence: &Fence, mine: &Credential, sight: &Sight<'_>) -> Result<Fence, Refusal> {
    let Some(hold) = hold_of(fence, mine.incarnation) else {
        return Err(lapsed(fence, fence.highest, "the hold on the resource is over"));
    };
    check_key(hold, mine)?;
    if hold.lapsing {
        return Err(lapsed(fence, hold.token, "an operator bound the resource to another election"));
    }
    bound(fence, sight.document)?;
    if sight.fence_age >= hold.ttl {
        return Err(lapsed(fence, hold.token, "the hold on the resource has lapsed"));
    }
    current(hold.token, fence.highest, sight)?;
    let cost = sight.fence_age.max(hold.ttl.scaled(1, LEAST_COST));
    let left = hold.left.map(|left| left.minus(cost).whole_millis());
    if left.is_some_and(|left| left < hold.ttl) {
        let why = format!(
            "a hold without the credential of the lease lasts {MAX_HOLD_WITHOUT_LEASE} in all, however often it is kept"
        );
        return Err(Refusal::WrongKey { why });
    }
    let hold = Some(Hold { left, ..hold.clone() });
    Ok(Fence { beat: fence.beat + 1, hold, ..fence.clone() })
}

/// Ends a hold; the command has ended. None if it had ended already.
pub fn leave(fence: &Fence, mine: &Credential) -> Result<Option<Fence>, Refusal> {
    let Some(hold) = hold_of(fence, mine.incarnation) else { return Ok(None) };
    check_key(hold, mine)?;
    Ok(Some(Fence { hold: None, beat: fence.beat + 1, ..fence.clone() }))
}

fn check_length(ttl: Span) -> Result<(), Refusal> {
    if ttl < MIN_TTL || ttl > MAX_HOLD || ttl != ttl.whole_millis() {
        return Err(Refusal::invalid(
            format!("a hold of {ttl}; it is {MIN_TTL} to {MAX_HOLD}, in whole milliseconds"),
            "a hold is kept by beats while its command runs; 5s suits most",
        ));
    }
    Ok(())
}

/// How long a hold may last in all; none for as long as its token is current. A long hold closes the resource to the leader itself, so it takes
/// the leader's own word.
fn left(asked: &HoldRequest, document: &Document) -> Result<Option<Span>, Refusal> {
    let is_leaders = |shown: &Credential| {
        document.leader.as_ref().is_some_and(|leader| {
            leader.incarnation == shown.incarnation && shown.key.opens(&leader.key_hash)
        })
    };
    if asked.lease.as_ref().is_some_and(is_leaders) {
        return Ok(None);
    }
    if asked.ttl <= MAX_HOLD_WITHOUT_LEASE {
        return Ok(Some(MAX_HOLD_WITHOUT_LEASE));
    }
    Err(Refusal::WrongKey {
        why: format!("a hold longer than {MAX_HOLD_WITHOUT_LEASE} needs the credential of the lease"),
    })
}

fn hold_of(fence: &Fence, incarnation: Incarnation) -> Option<&Hold> {
    fence.hold.as_ref().filter(|hold| hold.incarnation == incarnation)
}

fn check_key(hold: &Hold, shown: &Credential) -> Result<(), Refusal> {
    if shown.key.opens(&hold.key_hash) {
        return Ok(());
    }
    Err(Refusal::WrongKey { why: "it is not the key of the hold on this resource".to_string() })
}

fn lapsed(fence: &Fence, shown: Epoch, why: &str) -> Refusal {
    Refusal::Stale { shown, current: fence.highest, leader: None, why: why.to_string() }
}

fn bound(fence: &Fence, document: &Document) -> Result<(), Refusal> {
    if fence.election != document.election {
        return Err(Refusal::invalid(
            format!("the resource `{}` belongs to the election `{}`", fence.resource, fence.election),
            format!("use --election {}", fence.election),
        ));
    }
    if fence.store != document.store {
        return Err(Refusal::invalid(
            format!(
                "the resource `{}` trusts the elections of store {}, and this one is of store {}",
                fence.resource, fence.store, document.store
            ),
            "the election's store was wiped and made anew; its tokens began again and cannot be trusted here",
        ));
    }
    Ok(())
}

/// Whether a token may act, judged by the election alone: what a guard without a fence asks.
pub fn check(token: Epoch, document: &Document, age: Span) -> Result<(), Refusal> {
    let stale = |why: String| Refusal::Stale {
        shown: token,
        current: document.epoch,
        leader: document.current_leader(age).map(|leader| leader.agent.clone()),
        why,
    };
    if token > document.epoch {
        return Err(stale("it was never given: it is of another election or store".to_string()));
    }
    if document.is_retired() {
        return Err(stale(FORGOTTEN.to_string()));
    }
    if token < document.epoch {
        let goes_on = document.current_leader(age).filter(|leader| leader.granted <= token);
        return Err(stale(match (&document.departure, goes_on) {
            (_, Some(leader)) => format!("{GOES_ON} {}", leader.epoch),
            (Some(departure), None) if departure.epoch == token => {
                format!("that leadership ended ({})", departure.cause)
            }
            (Some(_) | None, None) => "a later leadership has begun".to_string(),
        }));
    }
    match document.state {
        State::Paused => Err(stale("the election is paused".to_string())),
        State::Vacant => Err(stale("that leadership was released".to_string())),
        State::AwaitingApproval => {
            Err(Refusal::AwaitingApproval { question: document.approval.question.clone() })
        }
        State::Held if document.leader.as_ref().is_some_and(|leader| leader.offered) => {
            Err(stale("the offer of it has not been claimed".to_string()))
        }
        State::Held if document.current_leader(age).is_none() => {
            Err(stale("the lease has run out".to_string()))
        }
        State::Held => match document.must_acknowledge() {
            Some(leader) => Err(Refusal::out_of_turn(
                format!("{} has not yet taken on what its predecessor left", leader.agent),
                format!("it reads and acknowledges it with `baton handover {}`", document.election),
            )),
            None => Ok(()),
        },
    }
}

fn current(token: Epoch, highest: Epoch, sight: &Sight<'_>) -> Result<(), Refusal> {
    if token < highest {
        return Err(Refusal::Stale {
            shown: token,
            current: highest,
            leader: sight.document.current_leader(sight.document_age).map(|leader| leader.agent.clone()),
            why: format!("the resource has seen token {highest}"),
        });
    }
    check(token, sight.document, sight.document_age)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
