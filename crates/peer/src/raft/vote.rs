//! A voter: who gets its one vote of a term, and who would.

use baton_election::Moment;

use super::{Message, Out, Raft, State, Vote};
use crate::members::is_outdated;
use crate::{Group, GroupStamp, NodeId, Term};

/// A pre-vote that is asked for.
pub(super) struct PreVoteRequest {
    pub(super) poll: u64,
    pub(super) stamp: GroupStamp,
    pub(super) offered: Option<Term>,
}

/// A vote that is asked for.
pub(super) struct VoteRequest {
    pub(super) term: Term,
    pub(super) stamp: GroupStamp,
    pub(super) released: Option<Term>,
}

impl Raft {
    /// Would this member vote for that one, in a term above both of theirs? The answer binds nobody.
    pub(super) fn pre_vote(&mut self, now: Moment, from: NodeId, question: PreVoteRequest, out: &mut Out) {
        let PreVoteRequest { poll, stamp, offered } = question;
        let granted = match &self.state {
            State::Leader(leadership) => {
                offered == Some(self.term) && leadership.offers_to(from) && self.is_electable(from, stamp)
            }
            State::Follower(_) | State::PreCandidate(_) | State::Candidate(_) => {
                self.may_have_vote(now, from, stamp, offered)
            }
        };
        let group = self.list_for(stamp);
        if granted || group.is_some() || self.group.member(from).is_some() {
            out.send(from, Message::PreVoteAnswer { term: self.term, poll, granted, group });
        }
    }

    /// §5.2: each member votes for at most one candidate in a term, the first that asks. §6 and dissertation 4.2.3: not within the shortest
    /// timeout of hearing from a leader, in which case the candidate's term is not taken over either.
    pub(super) fn request_vote(&mut self, now: Moment, from: NodeId, request: VoteRequest, out: &mut Out) {
        let VoteRequest { term, stamp, released } = request;
        let is_leader = matches!(self.state, State::Leader(_));
        let is_open =
            term > self.term || (term == self.term && self.led_by.is_none() && self.vote.is_open_to(from));
        let granted = is_open && !is_leader && self.may_have_vote(now, from, stamp, released);
        if granted {
            if term > self.term || self.vote == Vote::Free {
                self.enter(term, Vote::For(from), out);
                self.miss_leader(out);
            }
            self.election_at = now + self.patience();
        }
        let group = self.list_for(stamp);
        if granted || group.is_some() || self.group.member(from).is_some() {
            out.send(from, Message::VoteAnswer { term: self.term, granted, group });
        }
    }

    /// Whether anything but the term speaks against voting for this member.
    fn may_have_vote(
        &self,
        now: Moment,
        candidate: NodeId,
        stamp: GroupStamp,
        released: Option<Term>,
    ) -> bool {
        let is_free = self.promise.is_none_or(|promise| {
            // The leader itself may be elected anew, and a leadership that was given up needs no patience.
            now >= promise.until || promise.to == candidate || released == Some(promise.term)
        });
        is_free && now >= self.quarantined_until && self.is_electable(candidate, stamp)
    }

    /// §6: who is not in the voter's list may be elected too, if its own is newer. It stands only if it may lead by that, and counts only votes of its members.
    fn is_electable(&self, candidate: NodeId, stamp: GroupStamp) -> bool {
        let own = self.group.stamp();
        is_outdated(own, stamp) || (!is_outdated(stamp, own) && self.group.may_lead(candidate))
    }

    /// This member's list, for one whose list is older: so a removed member finds out that it is none.
    fn list_for(&self, stamp: GroupStamp) -> Option<Group> {
        is_outdated(stamp, self.group.stamp()).then(|| self.group.clone())
    }
}
