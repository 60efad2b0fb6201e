//! A candidate: loses patience, asks whether it would be elected, and stands.

use alloc::vec::Vec;

use baton_election::Moment;

use super::{MAX_TERM, Message, Out, Raft, State, Vote};
use crate::{Group, NodeId, Tally, Term, memory_recovery};

/// More shares of the timeouts than this would be too narrow for chance to keep candidates apart.
const MAX_SLOTS: usize = 4;

/// A pre-vote.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Poll {
    number: u64,
    granted: Tally,
    /// The highest term of those who granted it.
    highest: Term,
    /// The leader that asked for it, and its term; none if there is none.
    offered: Option<(NodeId, Term)>,
}

/// A candidacy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Candidacy {
    votes: Tally,
    /// When it gives up.
    pub(super) until: Moment,
}

/// An answer to a pre-vote.
pub(super) struct PreVoteAnswer {
    pub(super) term: Term,
    pub(super) poll: u64,
    pub(super) granted: bool,
}

/// Which share of the timeouts belongs to a member: the higher its priority, the earlier.
pub(super) fn slot(group: &Group, id: NodeId) -> (u64, u64) {
    let mut priorities: Vec<u8> =
        group.members().iter().filter(|member| !member.witness).map(|member| member.priority).collect();
    priorities.sort_unstable_by(|a, b| b.cmp(a));
    priorities.dedup();
    let of = priorities.len().clamp(1, MAX_SLOTS);
    let own = group.member(id).map_or(0, |member| member.priority);
    let which = priorities.iter().position(|&priority| priority == own).unwrap_or(of).min(of - 1);
    (which as u64, of as u64)
}

impl Raft {
    /// §5.2: a follower that hears nothing for an election timeout begins an election; here with a pre-vote (dissertation 9.6).
    pub(super) fn lose_patience(&mut self, now: Moment, out: &mut Out) {
        if now < self.election_at || now < self.quarantined_until {
            return;
        }
        self.election_at = now + self.retry();
        self.miss_leader(out);
        self.state = State::Follower(None);
        if self.may_stand(now) {
            let poll = self.poll(None, out);
            self.state = State::PreCandidate(poll);
            self.count_poll(now, out);
        }
        for other in memory_recovery::told_by_a_witness(self.id, &self.group) {
            out.send(other, Message::Answer(memory_recovery::list(&self.group)));
        }
    }

    /// Witnesses and those who are no members never stand.
    pub(super) fn may_stand(&self, now: Moment) -> bool {
        self.group.may_lead(self.id) && now >= self.quarantined_until && self.term < MAX_TERM
    }

    /// Asks everybody whether they would vote for this member.
    pub(super) fn poll(&mut self, offered: Option<(NodeId, Term)>, out: &mut Out) -> Poll {
        self.polls += 1;
        let mut granted = Tally::NONE;
        granted.add(&self.group, self.id);
        let (stamp, poll) = (self.group.stamp(), self.polls);
        for other in self.group.others(self.id) {
            let offered = offered.map(|(_, term)| term);
            out.send(other, Message::PreVote { poll, stamp, offered });
        }
        Poll { number: poll, granted, highest: self.term, offered }
    }

    pub(super) fn pre_vote_answer(
        &mut self,
        now: Moment,
        from: NodeId,
        voice: PreVoteAnswer,
        group: Option<Group>,
        out: &mut Out,
    ) {
        if self.adopt_from_voter(now, group, out) {
            return;
        }
        let poll = match &mut self.state {
            State::PreCandidate(poll) | State::Follower(Some(poll)) => poll,
            State::Follower(None) | State::Candidate(_) | State::Leader(_) => return,
        };
        if voice.granted && voice.poll == poll.number {
            poll.granted.add(&self.group, from);
            poll.highest = poll.highest.max(voice.term);
            self.count_poll(now, out);
        }
    }

    fn count_poll(&mut self, now: Moment, out: &mut Out) {
        let (poll, is_own) = match &self.state {
            State::PreCandidate(poll) => (poll, true),
            State::Follower(Some(poll)) => (poll, false),
            State::Follower(None) | State::Candidate(_) | State::Leader(_) => return,
        };
        if !poll.granted.is_majority(&self.group) {
            return;
        }
        let (highest, offered) = (poll.highest, poll.offered);
        match offered {
            None if is_own => self.stand(now, highest, None, out),
            None => {}
            Some((leader, term)) => {
                self.state = State::Follower(None);
                out.send(leader, Message::Ready { term });
            }
        }
    }

    /// Stands in the term after that one (§5.2): it votes for itself, and asks the others.
    pub(super) fn stand(&mut self, now: Moment, highest: Term, released: Option<Term>, out: &mut Out) {
        if highest >= MAX_TERM {
            return;
        }
        self.enter(highest.next(), Vote::For(self.id), out);
        self.miss_leader(out);
        let mut votes = Tally::NONE;
        votes.add(&self.group, self.id);
        let until = now + self.retry();
        self.state = State::Candidate(Candidacy { votes, until });
        self.election_at = until;
        let (term, stamp) = (self.term, self.group.stamp());
        for other in self.group.others(self.id) {
            out.send(other, Message::RequestVote { term, stamp, released });
        }
        self.count_votes(now, out);
    }

    pub(super) fn vote_answer(
        &mut self,
        now: Moment,
        from: NodeId,
        term: Term,
        granted: bool,
        group: Option<Group>,
        out: &mut Out,
    ) {
        if self.adopt_from_voter(now, group, out) {
            return;
        }
        let State::Candidate(standing) = &mut self.state else { return };
        if granted && term == self.term {
            standing.votes.add(&self.group, from);
            self.count_votes(now, out);
        }
    }

    /// §5.2: a candidate wins with the votes of a majority in the same term.
    fn count_votes(&mut self, now: Moment, out: &mut Out) {
        let State::Candidate(standing) = &self.state else { return };
        if standing.votes.is_majority(&self.group) {
            self.be_elected(now, out);
        }
    }

    /// A voter with a newer list sends it along with its refusal: with an older one nobody is elected. True if it was new here.
    fn adopt_from_voter(&mut self, now: Moment, group: Option<Group>, out: &mut Out) -> bool {
        let Some(group) = group.filter(|group| group.stamp() > self.group.stamp()) else { return false };
        match &self.state {
            State::PreCandidate(_) | State::Candidate(_) => {
                self.adopt(group, out);
                self.state = State::Follower(None);
                self.election_at = now;
                true
            }
            // A leader's list is the newest of its term, and a follower gets it from the leader.
            State::Follower(_) | State::Leader(_) => false,
        }
    }
}
