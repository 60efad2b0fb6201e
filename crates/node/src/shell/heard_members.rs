//! Whom a member has heard, for people: nothing is decided by it.

use baton_election::{Moment, Span};
use baton_peer::{Group, NodeId, RecoveryRole, Timing};

/// So many longest timeouts without a word are silence, where answers are asked for.
const SILENCE_TIMEOUTS: u64 = 2;

/// Whom this member has heard, and what it has told of trouble.
#[derive(Debug, Default)]
pub(super) struct HeardMembers {
    /// When each member was last heard; at most one entry for each of the list.
    heard: Vec<(NodeId, Moment)>,
    /// When each was last heard to ask what it had forgotten.
    calls: Vec<(NodeId, Moment)>,
    /// The known leader, and since when it is known.
    pub(super) leader: Option<(Option<NodeId>, Moment)>,
    /// When to look again for trouble.
    pub(super) look_at: Option<Moment>,
    /// What is the matter, and since when.
    pub(super) found: Option<(String, Moment)>,
    /// What was told last.
    pub(super) told: Option<String>,
}

impl HeardMembers {
    /// A member of the list says something.
    pub(super) fn note(&mut self, now: Moment, group: &Group, from: NodeId, word: RecoveryRole) {
        let is_member = |id: NodeId| group.member(id).is_some();
        self.heard.retain(|(id, _)| *id != from && is_member(*id));
        // An answer says nothing of whether its sender remembers.
        self.calls.retain(|(id, _)| is_member(*id) && (*id != from || word == RecoveryRole::Answers));
        if is_member(from) {
            self.heard.push((from, now));
            self.calls.extend((word == RecoveryRole::Asks).then_some((from, now)));
        }
    }

    /// Since when the same is known to lead, or nobody.
    pub(super) fn leader_since(&mut self, now: Moment, leader: Option<NodeId>) {
        if self.leader.is_none_or(|(before, _)| before != leader) {
            self.leader = Some((leader, now));
        }
    }

    pub(super) fn heard(&self, id: NodeId) -> Option<Moment> {
        self.heard.iter().find(|(known, _)| *known == id).map(|(_, at)| *at)
    }

    pub(super) fn is_forgetful(&self, now: Moment, id: NodeId, timing: &Timing) -> bool {
        let lately = |(known, at): &(NodeId, Moment)| *known == id && now.since(*at) <= silence(timing);
        self.calls.iter().any(lately)
    }
}

pub(super) fn silence(timing: &Timing) -> Span {
    timing.timeout_max.scaled(SILENCE_TIMEOUTS, 1)
}

#[cfg(test)]
mod tests {
    use baton_peer::Member;

    use super::*;

    fn id(number: u16) -> NodeId {
        NodeId::new(number).unwrap()
    }

    #[test]
    fn ears_keep_members_only_and_forget_what_is_over() {
        let group = Group::founded((1..=3).map(|number| Member::plain(id(number))).collect()).unwrap();
        let (mut heard_members, three, timing) = (HeardMembers::default(), group, Timing::LAN);
        let at = |millis: u64| Moment::from_nanos(millis * 1_000_000);
        heard_members.note(at(1), &three, id(2), RecoveryRole::Asks);
        heard_members.note(at(2), &three, id(9), RecoveryRole::Asks);
        assert_eq!((heard_members.heard(id(2)), heard_members.heard(id(9))), (Some(at(1)), None));
        assert!(
            heard_members.is_forgetful(at(500), id(2), &timing)
                && !heard_members.is_forgetful(at(2_000), id(2), &timing)
        );
        heard_members.note(at(3), &three, id(2), RecoveryRole::Answers);
        assert!(
            heard_members.is_forgetful(at(4), id(2), &timing),
            "it has answered, as who has forgotten does too"
        );
        heard_members.note(at(5), &three, id(2), RecoveryRole::Apart);
        assert!(!heard_members.is_forgetful(at(6), id(2), &timing), "it remembers");
    }
}
