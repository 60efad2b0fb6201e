//! The acceptor: what it promises, what it accepts, and for whom it waits.
//!
//! *Paxos Made Simple* §2.2: P1a, "an acceptor can accept a proposal numbered n iff it has not responded to a prepare request
//! having a number greater than n". The lease is PaxosLease's: who accepted promises nobody else anything for `timeout_min`.

use baton_election::Moment;

use super::saved::Vote;
use super::{Message, Out, Paxos, Phase, ballot, say};
use crate::members::is_outdated;
use crate::{Group, GroupStamp, LossCause, NodeId, Notice, Term};

/// How far an instance may lie ahead of the last one that was accepted here; further on is nonsense.
const LONGEST_LEAP: u64 = 1 << 32;

/// That an acceptor promises nobody else anything. Lives in memory only: who restarts stays silent for longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Patience {
    /// Which leadership it waits for.
    pub(super) token: Term,
    /// For how long.
    pub(super) until: Moment,
}

impl Paxos {
    /// Would it promise? An answer that binds nobody.
    pub(super) fn hear_query(
        &self,
        now: Moment,
        from: NodeId,
        ballot: Term,
        stamp: GroupStamp,
        out: &mut Out,
    ) {
        if self.turns_away(from, ballot, stamp, out) || !self.takes_part(now) {
            return;
        }
        if self.is_patient(now) {
            self.refuse(from, ballot, None, out);
        } else {
            say(from, Message::Open { ballot, promised: self.saved.promised }, out);
        }
    }

    /// Phase 1b.
    pub(super) fn hear_prepare(
        &mut self,
        now: Moment,
        from: NodeId,
        ballot: Term,
        (released, stamp): (Option<Term>, GroupStamp),
        out: &mut Out,
    ) {
        if !self.is_request_of(from, ballot) || self.turns_away(from, ballot, stamp, out) {
            return;
        }
        // Who accepted since its start waits for nobody but that leader, and need not keep still towards it.
        let is_its_own = self.recovery.is_none() && self.waits_for_own(from);
        if !self.takes_part(now) && !is_its_own {
            return;
        }
        let is_free = is_its_own || (released.is_some() && released == self.waits_for());
        let waits = self.is_proposing() || (self.is_patient(now) && !is_free);
        if waits || ballot < self.saved.promised {
            return self.refuse(from, ballot, None, out);
        }
        if ballot > self.saved.promised {
            self.saved.promised = ballot;
            self.unsaved = true;
            // Who promised somebody else gives up its own candidacy, and lets the other one finish.
            self.stand_back(now);
        }
        say(from, Message::Promise { ballot, vote: self.saved.vote }, out);
    }

    /// Phase 2b.
    pub(super) fn hear_accept(
        &mut self,
        now: Moment,
        from: NodeId,
        vote: Vote,
        (token, beat, group): (Term, u64, Option<Group>),
        out: &mut Out,
    ) {
        if !self.is_request_of(from, vote.ballot) || !self.is_sound(&vote) || token > vote.ballot {
            return;
        }
        let newer = group.filter(|group| self.is_newer_list(group) && group.stamp().term <= vote.ballot);
        if !self.may_propose(from) && !newer.as_ref().is_some_and(|group| group.may_lead(from)) {
            return;
        }
        if vote.ballot < self.saved.promised {
            return self.refuse(from, vote.ballot, None, out);
        }
        // Another one has a higher ballot and a majority's promises: what is left of an own attempt ends.
        if self.phase.ballot().is_some() {
            self.end_phase(now, LossCause::HigherTerm(vote.ballot), out);
        }
        // Even who has forgotten needs the list.
        if let Some(group) = newer {
            self.take_over_list(now, group, out);
        }
        let is_past = |last: Vote| last.ballot == vote.ballot && last.instance > vote.instance;
        if self.recovery.is_some() || self.saved.vote.is_some_and(is_past) {
            return;
        }
        self.accept(now, vote, token);
        self.stand_later(now);
        self.duels = 0;
        if vote.value == token {
            self.follow(from, token, out);
        }
        let stamp = self.saved.group.stamp();
        say(from, Message::Accepted { ballot: vote.ballot, instance: vote.instance, beat, stamp }, out);
    }

    /// Accepts, for itself or for another; the caller has looked at the promise.
    pub(super) fn accept(&mut self, now: Moment, vote: Vote, token: Term) {
        self.patience = Some(Patience { token, until: now + self.timing.timeout_min });
        // An acceptor that is an instance ahead knows that this one is chosen, and keeps what it has: only
        // the last instance can still be undecided.
        if self.saved.vote.is_none_or(|last| last.rank() < vote.rank()) {
            self.saved.vote = Some(vote);
            self.unsaved = true;
        }
        if self.saved.promised != vote.ballot {
            self.saved.promised = vote.ballot;
            self.unsaved = true;
        }
    }

    /// Whether it waits for a leader: it accepted within the shortest timeout, or leads itself.
    pub(super) fn is_patient(&self, now: Moment) -> bool {
        self.patience.is_some_and(|patience| now < patience.until) || self.is_proposing()
    }

    /// The leadership that it waits for, or waited for last.
    pub(super) fn waits_for(&self) -> Option<Term> {
        self.patience.map(|patience| patience.token)
    }

    /// Whether that is the sender's, which raises its ballot.
    fn waits_for_own(&self, from: NodeId) -> bool {
        self.waits_for().and_then(ballot::owner) == Some(from)
    }

    fn is_proposing(&self) -> bool {
        matches!(self.phase, Phase::Proposing(_))
    }

    /// Whether the sender may make that request at all, and its number can be believed.
    fn is_request_of(&self, from: NodeId, ballot: Term) -> bool {
        ballot::owner(ballot) == Some(from) && ballot::is_believable(ballot, self.saved.promised)
    }

    /// Whether it may lead by the list that is known here, or wrote that list and is removing itself.
    fn may_propose(&self, from: NodeId) -> bool {
        let group = &self.saved.group;
        group.may_lead(from) || ballot::owner(group.stamp().term) == Some(from)
    }

    /// Whether an honest member could have accepted that.
    pub(super) fn is_sound(&self, vote: &Vote) -> bool {
        let last = self.saved.vote.map_or(0, |last| last.instance);
        let is_near = vote.instance > 0 && vote.instance <= last.saturating_add(LONGEST_LEAP);
        let is_granted = ballot::owner(vote.value).is_some() && vote.value <= vote.ballot;
        is_near && is_granted && ballot::owner(vote.ballot).is_some()
    }

    /// Refuses whoever has an outdated list, and tells it the newer one; does not answer strangers whose list is no newer.
    fn turns_away(&self, from: NodeId, ballot: Term, stamp: GroupStamp, out: &mut Out) -> bool {
        if is_outdated(stamp, self.saved.group.stamp()) {
            self.refuse(from, ballot, Some(self.saved.group.clone()), out);
            return true;
        }
        // A candidate with a newer list stands only if it may lead by that list, and counts only the promises
        // of its members.
        !is_outdated(self.saved.group.stamp(), stamp) && !self.saved.group.may_lead(from)
    }

    fn refuse(&self, from: NodeId, ballot: Term, group: Option<Group>, out: &mut Out) {
        say(from, Message::Refused { ballot, promised: self.saved.promised, group }, out);
    }

    fn follow(&mut self, leader: NodeId, term: Term, out: &mut Out) {
        self.read_only = false;
        if self.follows != Some((leader, term)) {
            self.follows = Some((leader, term));
            out.notify.push(Notice::Follows { leader, term });
        }
    }
}
