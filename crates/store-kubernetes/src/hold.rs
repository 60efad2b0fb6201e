//! Which holder of a Lease a document names, and for how long others must keep away.

use baton_election::Span;
use baton_election::document::{Document, Leader, State};
use baton_election::id::KeyHash;

/// The key hash of a holder that is not Baton's: no lease key is known that has it.
pub(crate) const FOREIGN_KEY: KeyHash = KeyHash([0; 32]);

/// Holders that are no agents: no agent's name has a `/`.
const PAUSED: &str = "baton/paused";
const AWAITING_APPROVAL: &str = "baton/awaiting-approval";
const ENDING: &str = "baton/ending";

/// The longest duration that a Lease can have: about 68 years.
const FOR_GOOD: i32 = i32::MAX;
/// The duration of a released Lease, as client-go has it.
const RELEASED: i32 = 1;
/// client-go notices renewals by whole seconds of `renewTime`: one within the second of its forerunner passes unnoticed, so that its
/// candidates may count from up to a second before the last renewal.
const UNNOTICED: Span = Span::secs(1);

/// The holder of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The holder's identity; empty if anybody may take it.
    pub(crate) holder: String,
    /// How long others must keep away after the last renewal.
    pub(crate) seconds: i32,
}

impl Hold {
    /// By this document.
    pub(crate) fn of(document: &Document) -> Hold {
        let by = |holder: &str, seconds| Hold { holder: holder.to_string(), seconds };
        match (document.state, &document.leader, &document.outgoing) {
            (State::Paused, _, _) => by(PAUSED, FOR_GOOD),
            (State::AwaitingApproval, Some(leader), _) => by(&identity(leader), FOR_GOOD),
            (State::AwaitingApproval, None, _) => by(AWAITING_APPROVAL, FOR_GOOD),
            (State::Held | State::Vacant, Some(leader), _) => by(&identity(leader), seconds(leader.lease())),
            (State::Held | State::Vacant, None, Some(leader)) => by(ENDING, seconds(leader.lease())),
            (State::Held | State::Vacant, None, None) => by("", RELEASED),
        }
    }
}

/// Who a leader is to other clients: readable, and another for each life of an agent.
fn identity(leader: &Leader) -> String {
    format!("{}_{}", leader.agent, leader.incarnation)
}

/// A duration that client-go's candidates do not cut short.
fn seconds(lease: Span) -> i32 {
    let nanos = lease.plus(UNNOTICED).as_nanos();
    i32::try_from(nanos.div_ceil(1_000_000_000)).unwrap_or(FOR_GOOD)
}

/// Whether a leader is another client of the Lease.
pub(crate) fn is_foreign(leader: &Leader) -> bool {
    leader.key_hash == FOREIGN_KEY
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::tests::{document, leader};

    #[test]
    fn each_state_is_held_by_whom_it_should_be() {
        let mut doc = document(7);
        assert_eq!(Hold::of(&doc), Hold { holder: String::new(), seconds: 1 });
        doc.state = State::Held;
        doc.leader = Some(leader("agent-a", 7));
        assert_eq!(Hold::of(&doc), Hold { holder: "agent-a_0101010101010101".into(), seconds: 31 });
        doc.state = State::AwaitingApproval;
        assert_eq!(Hold::of(&doc), Hold { holder: "agent-a_0101010101010101".into(), seconds: i32::MAX });
        doc.leader = None;
        assert_eq!(Hold::of(&doc), Hold { holder: "baton/awaiting-approval".into(), seconds: i32::MAX });
        doc.outgoing = Some(leader("agent-a", 6));
        doc.state = State::Vacant;
        assert_eq!(Hold::of(&doc), Hold { holder: "baton/ending".into(), seconds: 31 });
        doc.state = State::Paused;
        assert_eq!(Hold::of(&doc), Hold { holder: "baton/paused".into(), seconds: i32::MAX });
    }

    #[test]
    fn durations_are_rounded_up_and_leave_room_for_a_second_that_client_go_does_not_see() {
        for (lease, wanted) in [
            (Span::secs(1), 2),
            (Span::millis(1_001), 3),
            (Span::millis(1_999), 3),
            (Span::secs(15), 16),
            (Span::MAX, i32::MAX),
        ] {
            assert_eq!(seconds(lease), wanted, "{lease}");
        }
        let mut offered = leader("agent-a", 1);
        offered.offered = true;
        let doc = Document { state: State::Held, leader: Some(offered), ..document(1) };
        assert_eq!(Hold::of(&doc).seconds, 5, "an offer lapses sooner");
    }
}
