//! Hand-over: in what way a leadership changed hands, how long that took, and since when nobody leads.
//!
//! Assumes that a document's causes and times are what [`decide`](crate::decide()) wrote. Guarantees that each cause is of one kind, and that no moment of a
//! transition is counted twice in how long it took. Does not guarantee that every phase was measured: what nobody told is not there.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::document::{Cause, Document, Leader, PhaseTimes, State};
use crate::time::{Span, WallTime};

/// In what way a leadership changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Handover {
    /// There was no predecessor.
    First,
    /// The predecessor gave it up by itself.
    Voluntary,
    /// The predecessor is gone.
    Failover,
    /// The rules took it from a predecessor that was not useful, or had lost its region.
    Takeover,
    /// A person took it, or let it go on.
    Human,
}

impl Handover {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Handover::First => "first",
            Handover::Voluntary => "voluntary",
            Handover::Failover => "failover",
            Handover::Takeover => "takeover",
            Handover::Human => "human",
        }
    }
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Cause {
    /// The kind of hand-over that this is the cause of.
    pub fn handover(self) -> Handover {
        match self {
            Cause::First => Handover::First,
            Cause::Release | Cause::Finished | Cause::Pass => Handover::Voluntary,
            Cause::Failover => Handover::Failover,
            Cause::Budget
            | Cause::Stall
            | Cause::Validation
            | Cause::Dependency
            | Cause::Breaker
            | Cause::Region => Handover::Takeover,
            Cause::Depose | Cause::Appoint | Cause::Pause | Cause::Approval => Handover::Human,
        }
    }
}

impl PhaseTimes {
    /// Each phase by its name, in their order.
    pub fn named(&self) -> [(&'static str, Option<Span>); 5] {
        [
            ("detection", self.detection),
            ("election", self.election),
            ("promotion", self.promotion),
            ("synchronisation", self.synchronisation),
            ("notification", self.notification),
        ]
    }

    /// How long it took from the end of the former leadership until the leader worked and had taken on what was left, as far as that was
    /// measured. What follows the grant goes on at the same time: the longest of it counts. Those who are told do not hold the leader
    /// up.
    pub fn took(&self) -> Option<Span> {
        let PhaseTimes { detection, election, promotion, synchronisation, notification: _ } = *self;
        let after_grant = promotion.max(synchronisation);
        let parts = [detection, election, after_grant];
        let sum = |all: Span, part: Span| all.plus(part);
        parts.iter().any(Option::is_some).then(|| parts.into_iter().flatten().fold(Span::ZERO, sum))
    }
}

/// What a leader may do before it has acknowledged what its predecessor left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HandoverRule {
    /// Everything: that it is synchronising is shown, and hinders nothing.
    #[default]
    Open,
    /// Renew, read and acknowledge: guards and the toolbox refuse its token until it has.
    Acknowledge,
}

impl HandoverRule {
    /// Whether it is what every election has that nobody gave another.
    pub fn is_usual(&self) -> bool {
        *self == HandoverRule::Open
    }
}

impl fmt::Display for HandoverRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HandoverRule::Open => "open",
            HandoverRule::Acknowledge => "acknowledge",
        })
    }
}

impl FromStr for HandoverRule {
    type Err = String;
    fn from_str(text: &str) -> Result<HandoverRule, String> {
        match text {
            "open" => Ok(HandoverRule::Open),
            "acknowledge" => Ok(HandoverRule::Acknowledge),
            _ => Err(alloc::format!("`{text}` is no rule for a hand-over; use open or acknowledge")),
        }
    }
}

impl Document {
    /// Whether what a predecessor left stands there, and this holder of the lease has not acknowledged it.
    pub fn is_unread_by(&self, leader: &Leader) -> bool {
        let left = self.checkpoint.as_ref();
        left.is_some_and(|left| left.acknowledged_by.is_none() && left.epoch < leader.granted)
    }

    /// The leader that must acknowledge first, if the policy says that its token is refused until then.
    pub fn must_acknowledge(&self) -> Option<&Leader> {
        let barred = self.policy.handover == HandoverRule::Acknowledge;
        self.leader.as_ref().filter(|leader| barred && self.is_unread_by(leader))
    }

    /// When the work was done, for people, if the last leader said so: the election is idle, and nobody is missed.
    pub fn finished(&self) -> Option<WallTime> {
        // A pause keeps others from leading; it does not undo what was done.
        let idle = matches!(self.state, State::Vacant | State::Paused) && self.reserved_for.is_none();
        let departure = self.departure.as_ref().filter(|departure| departure.cause == Cause::Finished);
        departure.filter(|_| idle).map(|departure| departure.at)
    }

    /// Since when nobody leads, for people: none if somebody does, or ever will for the first time, or if the work is done. The moment is not
    /// known where a person must approve first.
    pub fn leaderless(&self, age: Span) -> Option<Leaderless> {
        if self.current_leader(age).is_some() || self.finished().is_some() {
            return None;
        }
        let led = self.last_transition.is_some() || self.departure.is_some();
        let since = match (self.state, &self.departure, &self.leader) {
            (State::AwaitingApproval, _, _) => None,
            (State::Paused, _, _) => self.paused.as_ref().map(|pause| pause.at),
            (State::Vacant | State::Held, Some(departure), _) => Some(departure.at),
            (State::Vacant | State::Held, None, Some(leader)) if leader.offered => Some(leader.acquired),
            (State::Vacant | State::Held, None, leader) => leader.as_ref().map(|leader| leader.expires),
        };
        led.then_some(Leaderless { since })
    }
}

/// That nobody leads what somebody led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaderless {
    /// Since when, for people.
    pub since: Option<WallTime>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_moment_of_a_transition_counts_twice() {
        let times = PhaseTimes {
            detection: Some(Span::secs(3)),
            election: Some(Span::secs(1)),
            promotion: Some(Span::secs(2)),
            synchronisation: Some(Span::secs(5)),
            notification: Some(Span::secs(60)),
        };
        assert_eq!(times.took(), Some(Span::secs(9)));
        let unsynchronised = PhaseTimes { synchronisation: None, ..times.clone() };
        assert_eq!(unsynchronised.took(), Some(Span::secs(6)));
        let told = PhaseTimes { notification: Some(Span::secs(1)), ..PhaseTimes::default() };
        assert_eq!((told.took(), PhaseTimes::default().took()), (None, None));
    }

    #[test]
    fn a_rule_survives_its_word() {
        for rule in [HandoverRule::Open, HandoverRule::Acknowledge] {
            assert_eq!(alloc::string::ToString::to_string(&rule).parse(), Ok(rule));
        }
        assert!("closed".parse::<HandoverRule>().is_err());
    }

    #[test]
    fn nobody_is_missed_where_the_work_is_done() {
        let election = crate::name::ElectionName::new("job").unwrap();
        let agent = crate::name::AgentName::new("a").unwrap();
        let mut document = Document::new(election, crate::id::StoreId([0; 8]), crate::id::Epoch(3), &[]);
        let mut ended = |cause| {
            document.departure = Some(alloc::sync::Arc::new(crate::document::Departure {
                cause,
                agent: agent.clone(),
                incarnation: crate::id::Incarnation([1; 8]),
                epoch: crate::id::Epoch(3),
                reason: alloc::string::String::new(),
                at: WallTime::from_unix_millis(7),
            }));
            document.clone()
        };
        let (released, mut finished) = (ended(Cause::Release), ended(Cause::Finished));
        assert!(released.finished().is_none() && released.leaderless(Span::secs(1)).is_some());
        assert_eq!(finished.finished(), Some(WallTime::from_unix_millis(7)));
        assert_eq!(finished.leaderless(Span::secs(1)), None);
        for (document, is_missed) in [(&released, true), (&finished, false)] {
            let paused = Document { state: State::Paused, ..document.clone() };
            assert_eq!(
                paused.leaderless(Span::secs(1)).is_some(),
                is_missed,
                "a pause changes nothing of that"
            );
        }
        // Somebody for whom it is kept is waited for.
        finished.reserved_for = Some(crate::document::Reservation { agent, lasts: None, by_operator: true });
        assert!(finished.finished().is_none() && finished.leaderless(Span::secs(1)).is_some());
    }
}
