//! A follower: hears the leader, and stays true to it for a while.

use baton_election::Moment;

use super::{Message, Out, Promise, Raft, State, Vote};
use crate::{Group, GroupStamp, LossCause, NodeId, Notice, Term};

/// A heartbeat, without the list that may come with it.
pub(super) struct Heartbeat {
    pub(super) term: Term,
    pub(super) round: u64,
    pub(super) stamp: GroupStamp,
}

impl Raft {
    /// A heartbeat came.
    pub(super) fn append(
        &mut self,
        now: Moment,
        from: NodeId,
        beat: Heartbeat,
        group: Option<Group>,
        out: &mut Out,
    ) {
        let newer = group.filter(|group| group.stamp() > self.group.stamp());
        let is_known = self.group.may_lead(from)
            || newer.as_ref().is_some_and(|group| group.may_lead(from))
            || (beat.term == self.term && self.led_by == Some(from));
        // A stranger is not followed, but asked for its list if it has a newer one.
        let is_followed = is_known && beat.term >= self.term;
        if is_followed && !self.follow(now, from, &beat, newer, out) {
            return;
        }
        if is_known || beat.stamp > self.group.stamp() {
            let (term, stamp) = (self.term, self.group.stamp());
            let answer = Message::AppendAnswer { term, round: beat.round, stamp, followed: is_followed };
            out.send(from, answer);
        }
    }

    /// Follows the leader of the present or a later term; false if the present one has another leader.
    fn follow(
        &mut self,
        now: Moment,
        from: NodeId,
        beat: &Heartbeat,
        newer: Option<Group>,
        out: &mut Out,
    ) -> bool {
        if beat.term > self.term {
            self.give_up(LossCause::HigherTerm(beat.term), out);
            self.enter(beat.term, Vote::Free, out);
            self.hears_leader = false;
        } else if self.led_by.is_some_and(|leader| leader != from) {
            // §5.2: a term has one leader. The second one is somebody's fault, and gets no lease from here.
            return false;
        }
        if let Some(group) = newer {
            self.adopt(group, out);
        }
        if !self.hears_leader {
            out.notify(Notice::Follows { leader: from, term: self.term });
        }
        self.led_by = Some(from);
        self.hears_leader = true;
        self.read_only = false;
        if !matches!(self.state, State::Follower(_)) {
            self.state = State::Follower(None);
        }
        // A late or doubled heartbeat shows no life; it is answered all the same, since the first answer may be lost.
        if beat.round > self.round {
            self.round = beat.round;
            let until = now + self.timing.timeout_min;
            self.promise = Some(Promise { to: from, term: self.term, until });
            self.election_at = now + self.patience();
        }
        true
    }
}
