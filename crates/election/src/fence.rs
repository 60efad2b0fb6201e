//! A fence: the highest token that a resource has seen, and who may touch the resource.
//!
//! Assumes that every writer of the resource asks its fence first. Guarantees that accepted tokens never go back, that
//! a token of a leadership that was ended is refused as soon as the end is written, and, for a command that runs under a
//! hold, that no other is admitted until it has ended or its hold has lapsed. Does not guarantee anything about a write that is
//! made after the check without a hold, or that does not ask.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::document::{Document, Pulse, State};
use crate::id::{Epoch, Incarnation, StoreId};
use crate::lease::MIN_TTL;
use crate::log::Numbered;
use crate::name::{AgentName, ElectionName, ResourceName};
use crate::refusal::{GOES_ON, Refusal};
use crate::time::{Span, WallTime, as_millis};

/// The accepted entries that the fence itself carries; older ones are moved to the log beside it.
pub const MAX_TAIL: usize = 64;
/// The entries of one part of that log.
pub const LOG_PART: u64 = 256;
/// The longest hold. It is kept by beats while its command runs, so that one whose command died does not close the resource for long.
pub const MAX_HOLD: Span = Span::secs(3_600);

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
    /// The token that it was admitted with.
    pub token: Epoch,
    /// How long it lasts after its last beat.
    #[serde(rename = "ttl_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub ttl: Span,
}

/// The fence of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fence {
    /// The resource.
    pub resource: ResourceName,
    /// The store whose elections it trusts.
    pub store: StoreId,
    /// The election whose leader may touch it, bound at first use.
    pub election: ElectionName,
    /// The highest token accepted.
    pub highest: Epoch,
    /// Who is at it.
    pub hold: Option<Hold>,
    /// Counts the beats of its holds.
    pub beat: u64,
    /// The last entries of its log.
    pub tail: Vec<Accepted>,
}

impl Fence {
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

/// Who wants to touch a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The resource.
    pub resource: &'a ResourceName,
    /// The token shown.
    pub token: Epoch,
    /// Who shows it.
    pub agent: Option<&'a AgentName>,
    /// What for.
    pub note: &'a str,
    /// To stay for the run of a command: its incarnation and how long the hold lasts.
    pub hold: Option<(Incarnation, Span)>,
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
    if let Some((_, ttl)) = entry.hold {
        check_hold(ttl)?;
    }
    let mut next = match fence {
        None => Fence {
            resource: entry.resource.clone(),
            store: document.store,
            election: document.election.clone(),
            highest: Epoch(0),
            hold: None,
            beat: 0,
            tail: Vec::new(),
        },
        Some(fence) => {
            bound(fence, document)?;
            fence.clone()
        }
    };
    current(entry.token, next.highest, sight)?;
    if let Some(hold) = &next.hold {
        let remaining = hold.ttl.minus(sight.fence_age);
        if remaining > Span::ZERO && entry.hold.is_none_or(|(mine, _)| mine != hold.incarnation) {
            return Err(Refusal::Held { by: None, epoch: hold.token, remaining, ending: None });
        }
    }
    let kept = next.overflow().len();
    let seq = next.tail.last().map_or(1, |last| last.seq + 1);
    next.tail.drain(..kept);
    next.tail.push(Accepted {
        seq,
        token: entry.token,
        agent: entry.agent.cloned(),
        note: entry.note.chars().take(200).collect(),
        at: sight.wall,
    });
    next.highest = entry.token;
    next.hold = entry.hold.map(|(incarnation, ttl)| Hold { incarnation, token: entry.token, ttl });
    next.beat += 1;
    Ok(next)
}

/// Keeps a hold, as long as its token is current.
pub fn keep(fence: &Fence, mine: Incarnation, sight: &Sight<'_>) -> Result<Fence, Refusal> {
    let hold = own_hold(fence, mine)?;
    if sight.fence_age >= hold.ttl {
        return Err(lapsed(fence, hold.token, "the hold on the resource has lapsed"));
    }
    current(hold.token, fence.highest, sight)?;
    Ok(Fence { beat: fence.beat + 1, ..fence.clone() })
}

/// Ends a hold; the command has ended. None if it had ended already.
pub fn leave(fence: &Fence, mine: Incarnation) -> Option<Fence> {
    own_hold(fence, mine).ok()?;
    Some(Fence { hold: None, beat: fence.beat + 1, ..fence.clone() })
}

fn check_hold(ttl: Span) -> Result<(), Refusal> {
    if ttl < MIN_TTL || ttl > MAX_HOLD || ttl != ttl.whole_millis() {
        return Err(Refusal::invalid(
            format!("a hold of {ttl}; it is {MIN_TTL} to {MAX_HOLD}, in whole milliseconds"),
            "a hold is kept by beats while its command runs; 5s suits most",
        ));
    }
    Ok(())
}

fn own_hold(fence: &Fence, mine: Incarnation) -> Result<&Hold, Refusal> {
    match &fence.hold {
        Some(hold) if hold.incarnation == mine => Ok(hold),
        Some(_) | None => Err(lapsed(fence, fence.highest, "the hold on the resource is over")),
    }
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
    if token < document.epoch {
        let goes_on = document.current_leader(age).filter(|leader| leader.granted <= token);
        return Err(stale(match (&document.departure, goes_on) {
            (_, Some(leader)) => format!("{GOES_ON} {}", leader.epoch),
            (Some(departure), None) if departure.epoch == token => {
                format!("that leadership ended ({})", departure.cause)
            }
            (Some(_) | None, None) => "a later epoch has begun".to_string(),
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
