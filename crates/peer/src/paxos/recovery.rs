//! The acceptor that has forgotten: it asks the others before it takes part, and learns what it may have accepted.
//!
//! What it is told of the last instance it takes over as its own vote. That is safe, since the vote was really cast under a ballot that it will
//! not go below; and it is needed, since its own lost vote may have been one of the majority by which a value is chosen.

use baton_election::Moment;

use super::saved::Vote;
use super::{Message, Out, Paxos, Phase, ballot, say};
use crate::memory_recovery::{self, Answer, Ask, Founding, MemoryRecovery, Verdict};
use crate::{Group, NodeId, Notice, Term};

/// A memory recovery under way, with the vote it brings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Recovery {
    pub(super) call: MemoryRecovery,
    /// When to ask again.
    pub(super) ask_at: Moment,
    /// The latest vote that it was told.
    pub(super) vote: Option<Vote>,
}

impl Paxos {
    /// Asks all others, as often as a leader sends heartbeats.
    pub(super) fn recover(&mut self, now: Moment, out: &mut Out) {
        let Some(recovery) = &mut self.recovery else { return };
        if now < self.waits_until || now < recovery.ask_at {
            return;
        }
        if let Some(founding) = recovery.call.alone(self.id, &self.saved.group) {
            return self.remember(now, Term::ZERO, None, Some(founding));
        }
        recovery.ask_at = now + self.timing.heartbeat;
        let ask = recovery.call.ask(self.saved.group.stamp());
        for other in self.saved.group.others(self.id) {
            say(other, Message::Ask(ask), out);
        }
    }

    /// Tells what it knows.
    pub(super) fn hear_ask(&mut self, now: Moment, from: NodeId, ask: &Ask, out: &mut Out) {
        if let Phase::Proposing(lead) = &mut self.phase {
            lead.pending_members.note(now, &self.saved.group, from, ask);
        }
        let saved = &self.saved;
        let (answer, vote) = match &self.recovery {
            Some(recovery) => (recovery.call.tell(ask, &saved.group), None),
            None => {
                let past = (&saved.founding, &saved.admitted);
                (memory_recovery::tell(from, ask, saved.promised, &saved.group, past), saved.vote)
            }
        };
        say(from, Message::Told { answer, vote }, out);
    }

    /// Takes an answer to its own question.
    pub(super) fn hear_told(
        &mut self,
        now: Moment,
        from: NodeId,
        mut answer: Answer,
        vote: Option<Vote>,
        out: &mut Out,
    ) {
        // Who remembers asked nothing: somebody that calls the roll puts it right.
        let is_told_a_list = self.recovery.is_some() || self.saved.group.member(from).is_some();
        if let Some(group) = answer.group.take().filter(|group| is_told_a_list && self.is_newer_list(group)) {
            self.take_over_list(now, group, out);
        }
        if let Some(recovery) = &self.recovery
            && let Some(answer) = recovery.call.put_right(&answer, &self.saved.group)
        {
            say(from, Message::Told { answer, vote: None }, out);
        }
        let is_sound = vote.is_none_or(|vote| self.is_sound(&vote));
        let Some(recovery) = self.recovery.as_mut().filter(|_| is_sound) else { return };
        let known = recovery.vote.map_or((0, Term::ZERO), |known| known.rank());
        if let Some(vote) = vote.filter(|vote| vote.rank() > known) {
            recovery.vote = Some(vote);
        }
        match recovery.call.hear(self.id, &self.saved.group, from, &answer) {
            Verdict::Unknown => {}
            Verdict::AskAgain => {
                recovery.ask_at = now;
                self.recover(now, out);
            }
            Verdict::Above(term) => {
                let vote = recovery.vote;
                self.remember(now, term, vote, None);
            }
            Verdict::Founded(founding) => self.remember(now, Term::ZERO, None, Some(founding)),
        }
    }

    /// Takes part from here on.
    fn remember(&mut self, now: Moment, term: Term, vote: Option<Vote>, founding: Option<Founding>) {
        self.recovery = None;
        self.saved.promised = vote.map_or(term, |vote| vote.ballot.max(term));
        self.saved.vote = vote;
        self.saved.founding = founding.unwrap_or_default();
        self.unsaved = true;
        self.stand_later(now);
    }

    /// Whether a list of members is to replace the one that is known; one from a term that cannot be believed is not.
    pub(super) fn is_newer_list(&self, group: &Group) -> bool {
        let term = group.stamp().term;
        let is_believable = term == Term::ZERO || ballot::is_believable(term, self.saved.promised);
        is_believable && group.stamp() > self.saved.group.stamp()
    }

    /// Takes over a newer list. A leader does not: it has the newest, or is about to hear that it does not lead.
    pub(super) fn take_over_list(&mut self, now: Moment, group: Group, out: &mut Out) {
        match self.phase {
            super::Phase::Proposing(_) => return,
            // What was counted belongs to the former list.
            super::Phase::Asking(_) | super::Phase::Preparing(_) => self.stand_back(now),
            super::Phase::Idle => {}
        }
        if group.members() != self.saved.group.members() {
            out.notify.push(Notice::Members(group.clone()));
        }
        self.saved.group = group;
        self.unsaved = true;
    }
}
