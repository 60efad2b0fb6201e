//! Nodes that want to join, as the shell sees them: whether it heard a member that is to be taken in.
//!
//! A member that has forgotten everything can vote at once if the leader heard it ask before it was taken in
//! ([`baton_peer::pending_members`]); else it must hear from enough others, and if one of those dies meanwhile the group may be without a leader until that one is back. So whoever is to join is
//! waited for. **Does not** wait for ever: a member that remembers, or is not there at all, says nothing, and is taken in after a while.

use baton_election::{Moment, Span};
use baton_peer::{NodeId, Timing};

/// Those who are remembered; of more, whoever was silent longest is forgotten.
const GUESTS_MAX: usize = 64;

/// The nodes that are no members and were heard, and the node that the shell waits for.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    heard: Vec<(NodeId, Moment)>,
    /// The node that is to be taken in, and since when.
    wanted: Option<(NodeId, Moment)>,
}

impl Arrivals {
    /// Somebody who is no member says something.
    pub(super) fn note(&mut self, now: Moment, from: NodeId) {
        self.heard.retain(|(id, _)| *id != from);
        if self.heard.len() >= GUESTS_MAX {
            self.heard.remove(0);
        }
        self.heard.push((from, now));
    }

    /// Whether this one can be taken in: it was heard lately, or was waited for long enough.
    pub(super) fn may_join(&mut self, now: Moment, id: NodeId, timing: &Timing) -> bool {
        let since = match self.wanted {
            Some((wanted, since)) if wanted == id => since,
            Some(_) | None => now,
        };
        self.wanted = Some((id, since));
        self.is_here(now, id, timing) || now.since(since) >= patience(timing)
    }

    /// Whether this one was heard lately.
    pub(super) fn is_here(&self, now: Moment, id: NodeId, timing: &Timing) -> bool {
        let lately = |(from, at): &(NodeId, Moment)| *from == id && now.since(*at) <= timing.timeout_min;
        self.heard.iter().any(lately)
    }
}

/// A member that has just started asks after its quarantine, at every heartbeat; some of that may get lost.
fn patience(timing: &Timing) -> Span {
    timing.quarantine().plus(timing.heartbeat.scaled(4, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn who_was_heard_may_join_and_who_was_not_is_waited_for_and_not_for_ever() {
        let (mut arrivals, timing) = (Arrivals::default(), Timing::LAN);
        assert!(!arrivals.may_join(at(0), id(4), &timing));
        arrivals.note(at(10), id(5));
        assert!(!arrivals.may_join(at(20), id(4), &timing));
        arrivals.note(at(30), id(4));
        assert!(arrivals.may_join(at(40), id(4), &timing));
        assert!(!arrivals.may_join(at(400), id(4), &timing), "it has gone again");
        assert!(arrivals.may_join(at(600), id(4), &timing), "it was waited for");
        assert!(!arrivals.may_join(at(600), id(6), &timing), "another one was not");
        for number in 1..=1_000 {
            arrivals.note(at(700), id(number));
        }
        assert_eq!(arrivals.heard.len(), GUESTS_MAX);
    }
}
