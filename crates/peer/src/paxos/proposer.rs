//! The proposer on its way to a leadership: the query, and phase 1.
//!
//! *Paxos Made Simple* §2.4: progress needs one proposer that the others leave alone. Timeouts are drawn at random, a proposer that sees a
//! higher ballot stands back, and one that lost a duel waits longer each time.

use baton_election::{Moment, Span};

use super::saved::Vote;
use super::{Message, Out, Paxos, Phase, ballot, say};
use crate::{Group, NodeId, Notice, Tally, Term, memory_recovery};

/// After so many lost duels the wait does not grow any more.
const MOST_DUELS: u8 = 3;

/// The timeouts are not cut into more parts than this: within one, chance must keep candidates apart.
const MOST_TURNS: u64 = 4;

/// Asking whether a candidacy would be welcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    pub(super) ballot: Term,
    pub(super) open: Tally,
    pub(super) again_at: Moment,
    pub(super) ends: Moment,
}

/// Phase 1, of a candidate or of a leader that raises its ballot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PreparePhase {
    pub(super) ballot: Term,
    /// The leadership that was handed over.
    pub(super) released: Option<Term>,
    pub(super) promised: Tally,
    pub(super) refused: Tally,
    /// What the promises say about the past.
    pub(super) last: Option<Vote>,
    pub(super) again_at: Moment,
    /// Promises are not counted for longer than a lease: somebody who has forgotten its own relies on that.
    pub(super) ends: Moment,
}

impl PreparePhase {
    /// Counts a promise, and keeps what it says if that is the latest.
    pub(super) fn count(&mut self, group: &Group, from: NodeId, vote: Option<Vote>) {
        self.promised.add(group, from);
        let known = self.last.map_or((0, Term::ZERO), |last| last.rank());
        if let Some(vote) = vote.filter(|vote| vote.rank() > known) {
            self.last = Some(vote);
        }
    }
}

impl Paxos {
    /// The leader was silent for as long as this member bears it.
    pub(super) fn lose_patience(&mut self, now: Moment, out: &mut Out) {
        self.miss_leader(out);
        for other in memory_recovery::told_by_a_witness(self.id, &self.saved.group) {
            let answer = memory_recovery::list(&self.saved.group);
            say(other, Message::Told { answer, vote: None }, out);
        }
        if !self.saved.group.may_lead(self.id) || self.is_patient(now) {
            return self.stand_later(now);
        }
        let Some(ballot) = self.next_ballot() else { return self.stand_later(now) };
        let mut open = Tally::NONE;
        open.add(&self.saved.group, self.id);
        let ends = now + self.timing.timeout_min;
        self.phase = Phase::Asking(Asking { ballot, open, again_at: now, ends });
        self.go_on_asking(now, out);
    }

    /// Asks those that have not said yes, again with each heartbeat: a member that waits for a leader may not do so for long.
    pub(super) fn go_on_asking(&mut self, now: Moment, out: &mut Out) {
        let Phase::Asking(asking) = &mut self.phase else { return };
        if asking.open.is_majority(&self.saved.group) {
            return self.prepare(now, None, out);
        }
        if now < asking.again_at {
            return;
        }
        asking.again_at = now + self.timing.heartbeat;
        let (ballot, stamp) = (asking.ballot, self.saved.group.stamp());
        for other in self.saved.group.others(self.id).filter(|id| !asking.open.has(&self.saved.group, *id)) {
            say(other, Message::Query { ballot, stamp }, out);
        }
    }

    pub(super) fn hear_open(
        &mut self,
        now: Moment,
        from: NodeId,
        ballot: Term,
        promised: Term,
        out: &mut Out,
    ) {
        self.note(promised);
        let Phase::Asking(asking) = &mut self.phase else { return };
        if asking.ballot == ballot {
            asking.open.add(&self.saved.group, from);
            self.go_on_asking(now, out);
        }
    }

    /// Phase 1a.
    pub(super) fn prepare(&mut self, now: Moment, released: Option<Term>, out: &mut Out) {
        match self.canvass(now, released) {
            Some(canvass) => self.phase = Phase::Preparing(canvass),
            None => self.stand_back(now),
        }
        self.go_on_preparing(now, out);
    }

    /// The beginning of phase 1; the member's own promise is the first.
    pub(super) fn canvass(&mut self, now: Moment, released: Option<Term>) -> Option<PreparePhase> {
        let ballot = self.next_ballot()?;
        self.saved.promised = ballot;
        self.unsaved = true;
        let mut canvass = PreparePhase {
            ballot,
            released,
            promised: Tally::NONE,
            refused: Tally::NONE,
            last: None,
            again_at: now,
            ends: self.timing.lease_until(now),
        };
        canvass.count(&self.saved.group, self.id, self.saved.vote);
        Some(canvass)
    }

    pub(super) fn go_on_preparing(&mut self, now: Moment, out: &mut Out) {
        let Phase::Preparing(canvass) = &mut self.phase else { return };
        if canvass.promised.is_majority(&self.saved.group) {
            let (ballot, last) = (canvass.ballot, canvass.last);
            return self.begin_leadership(now, ballot, last, out);
        }
        send_prepares(self.id, &self.saved.group, canvass, now, self.timing.heartbeat, out);
    }

    pub(super) fn hear_promise(
        &mut self,
        now: Moment,
        from: NodeId,
        ballot: Term,
        vote: Option<Vote>,
        out: &mut Out,
    ) {
        let is_sound = vote.is_none_or(|vote| self.is_sound(&vote) && vote.ballot < ballot);
        if !is_sound {
            return;
        }
        match &mut self.phase {
            Phase::Preparing(canvass) if canvass.ballot == ballot => {
                canvass.count(&self.saved.group, from, vote);
                self.go_on_preparing(now, out);
            }
            Phase::Proposing(_) => self.hear_promise_to_raise(now, from, ballot, vote, out),
            Phase::Idle | Phase::Asking(_) | Phase::Preparing(_) => {}
        }
    }

    pub(super) fn hear_refused(
        &mut self,
        now: Moment,
        from: NodeId,
        (ballot, promised): (Term, Term),
        group: Option<Group>,
        out: &mut Out,
    ) {
        self.note(promised);
        if let Some(group) = group.filter(|group| self.is_newer_list(group)) {
            self.take_over_list(now, group, out);
        }
        match &mut self.phase {
            Phase::Preparing(canvass) if canvass.ballot == ballot => {
                canvass.refused.add(&self.saved.group, from);
                let left = self.saved.group.size() - canvass.refused.count();
                if left < self.saved.group.majority() {
                    self.lose_duel(now);
                }
            }
            Phase::Proposing(_) => self.hear_refusal_of_lease(now, from, ballot, promised),
            Phase::Idle | Phase::Asking(_) | Phase::Preparing(_) => {}
        }
    }

    /// Nobody is known to lead.
    fn miss_leader(&mut self, out: &mut Out) {
        if self.follows.take().is_some() {
            out.notify.push(Notice::Leaderless { term: self.saved.promised });
        }
    }

    /// The leader has stopped its work, and wants this member to stand.
    pub(super) fn hear_hand_over(&mut self, now: Moment, from: NodeId, released: Term, out: &mut Out) {
        let is_release = ballot::owner(released) == Some(from) && self.waits_for() == Some(released);
        let is_free = matches!(self.phase, Phase::Idle | Phase::Asking(_));
        if is_release && is_free && self.takes_part(now) && self.saved.group.may_lead(self.id) {
            self.miss_leader(out);
            self.prepare(now, Some(released), out);
        }
    }

    /// The lowest own ballot above all that was seen; none if they are used up.
    fn next_ballot(&self) -> Option<Term> {
        ballot::above(self.seen.max(self.saved.promised), self.id)
    }

    /// Remembers, as long as it runs, that somebody promised that ballot.
    fn note(&mut self, promised: Term) {
        if ballot::is_believable(promised, self.saved.promised) {
            self.seen = self.seen.max(promised);
        }
    }

    /// Others have promised more: waits longer than the last time.
    pub(super) fn lose_duel(&mut self, now: Moment) {
        self.duels = self.duels.saturating_add(1).min(MOST_DUELS);
        self.stand_back(now);
    }

    /// Leaves off standing, if it does, and waits.
    pub(super) fn stand_back(&mut self, now: Moment) {
        self.phase = Phase::Idle;
        self.stand_later(now);
    }

    /// Draws how long it bears silence from here on; the longer, the more duels it lost.
    pub(super) fn stand_later(&mut self, now: Moment) {
        let spread = self.timing.timeout_max.minus(self.timing.timeout_min);
        let longest = spread.scaled((1 << self.duels) - 1, 1);
        let back_off = Span::nanos(self.random.below(longest.as_nanos()));
        self.stands_at = now + self.patience().plus(back_off);
    }

    /// A length within the timeouts: the higher the priority, the shorter.
    pub(super) fn patience(&mut self) -> Span {
        let (which, of) = turn(&self.saved.group, self.id);
        let (low, high) = (self.timing.timeout_min.as_nanos(), self.timing.timeout_max.as_nanos());
        let share = high.saturating_sub(low) / of;
        let low = low + share * which;
        Span::nanos(self.random.between(low, low + share))
    }
}

/// Which part of the timeouts is a member's, and of how many: one for each priority, the highest first.
fn turn(group: &Group, id: NodeId) -> (u64, u64) {
    let mut there = [0_u128; 2];
    for member in group.members().iter().filter(|member| !member.witness) {
        there[usize::from(member.priority >> 7)] |= 1 << (member.priority & 127);
    }
    let own = group.member(id).map_or(0, |member| member.priority);
    let above = match own {
        0..128 => [there[0] & (u128::MAX << own & !(1 << own)), there[1]],
        128.. => [0, there[1] & (u128::MAX << (own - 128) & !(1 << (own - 128)))],
    };
    let count = |sets: [u128; 2]| u64::from(sets[0].count_ones() + sets[1].count_ones());
    let of = count(there).clamp(1, MOST_TURNS);
    (count(above).min(of - 1), of)
}

/// Sends the prepare request to all that have not answered, if it is time to.
pub(super) fn send_prepares(
    me: NodeId,
    group: &Group,
    canvass: &mut PreparePhase,
    now: Moment,
    heartbeat: Span,
    out: &mut Out,
) {
    if now < canvass.again_at {
        return;
    }
    canvass.again_at = now + heartbeat;
    let (ballot, released, stamp) = (canvass.ballot, canvass.released, group.stamp());
    for other in group.others(me).filter(|id| !canvass.promised.has(group, *id)) {
        say(other, Message::Prepare { ballot, released, stamp }, out);
    }
}
