//! The leader: phase 2 over and over, one instance for each renewal of its lease.
//!
//! *Paxos Made Simple* §3: phase 1 is done once for all instances, and each command costs one round of phase 2. Here the command is "the lease goes on".

use baton_election::Moment;

use super::proposer::{Canvass, send_prepares};
use super::saved::Vote;
use super::{Message, Out, Paxos, Phase, say};
use crate::members::{self, Spread};
use crate::{Group, GroupStamp, Member, NodeId, Notice, Tally, Term, Timing, Why};

/// Phase 2, from the first instance until the leadership ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Leadership {
    /// The ballot under which it began.
    pub(super) token: Term,
    /// The instance that is being decided, or was decided last.
    pub(super) vote: Vote,
    /// When that was first asked; a lease counts from here.
    sent: Moment,
    is_chosen: bool,
    /// It was asked more than once: the lease that it grants is a short one.
    again: bool,
    accepted: Tally,
    refused: Tally,
    /// Who had accepted the instance before.
    before: Tally,
    spread: Spread,
    /// An instance was chosen since the list of members was written, so that it may be changed.
    is_settled: bool,
    /// An instance was chosen under this ballot, so that it may be raised.
    is_steady: bool,
    beat_at: Moment,
    /// The end of the lease; none before the first.
    pub(super) until: Option<Moment>,
    ending: Option<Ending>,
    raise: Option<Canvass>,
}

/// The work is being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Ending {
    to: Option<NodeId>,
    why: Why,
}

impl Leadership {
    /// When it ends, if nothing more is heard.
    pub(super) fn ends(&self, timing: &Timing) -> Moment {
        self.until.unwrap_or_else(|| timing.lease_until(self.sent))
    }

    /// When something is to be sent.
    pub(super) fn next(&self) -> Moment {
        self.raise.as_ref().map_or(self.beat_at, |raise| raise.again_at)
    }

    pub(super) fn ballot(&self) -> Term {
        self.vote.ballot
    }

    fn send(&self, me: NodeId, group: &Group, out: &mut Out) {
        for other in group.others(me).filter(|id| !self.accepted.has(group, *id)) {
            let list = (!self.spread.has(group, other)).then(|| group.clone());
            say(other, Message::Accept { vote: self.vote, token: self.token, group: list }, out);
        }
    }

    fn has_answered_lately(&self, group: &Group, id: NodeId) -> bool {
        self.accepted.has(group, id) || self.before.has(group, id)
    }
}

impl Paxos {
    /// A majority has promised. What the latest of them accepted last may be chosen already, so it is proposed first (P2c).
    pub(super) fn begin_leadership(&mut self, now: Moment, token: Term, last: Option<Vote>, out: &mut Out) {
        self.saved.group = members::taken_over(&self.saved.group, token);
        self.unsaved = true;
        let (instance, value) = last.map_or((1, token), |last| (last.instance, last.value));
        self.phase = Phase::Proposing(Leadership {
            token,
            vote: Vote { instance, ballot: token, value },
            sent: now,
            is_chosen: false,
            again: false,
            accepted: Tally::NONE,
            refused: Tally::NONE,
            before: Tally::NONE,
            spread: Spread::begun(&self.saved.group, self.id),
            is_settled: false,
            is_steady: false,
            beat_at: now,
            until: None,
            ending: None,
            raise: None,
        });
        self.open(now, Vote { instance, ballot: token, value }, out);
    }

    /// Phase 2a. The member's own acceptance is the first.
    fn open(&mut self, now: Moment, vote: Vote, out: &mut Out) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        lead.vote = vote;
        lead.sent = now;
        lead.is_chosen = false;
        lead.again = false;
        lead.before = core::mem::take(&mut lead.accepted);
        lead.refused = Tally::NONE;
        lead.accepted.add(&self.saved.group, self.id);
        lead.beat_at = now + self.timing.heartbeat;
        lead.send(self.id, &self.saved.group, out);
        let token = lead.token;
        self.accept(now, vote, token);
        self.conclude(now, out);
    }

    /// The next instance, for the lease of this leadership.
    fn open_next(&mut self, now: Moment, out: &mut Out) {
        let Phase::Proposing(lead) = &self.phase else { return };
        match lead.vote.instance.checked_add(1) {
            Some(instance) => {
                let vote = Vote { instance, ballot: lead.ballot(), value: lead.token };
                self.open(now, vote, out);
            }
            None => self.end_phase(now, Why::NoMajority, out),
        }
    }

    /// Looks whether the instance is chosen.
    fn conclude(&mut self, now: Moment, out: &mut Out) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        if lead.is_chosen || !lead.accepted.is_majority(&self.saved.group) {
            return;
        }
        lead.is_chosen = true;
        lead.is_settled = true;
        lead.is_steady = true;
        if lead.vote.value != lead.token {
            return self.open_next(now, out);
        }
        let (term, until) = (lead.token, self.timing.lease_until(lead.sent));
        if until <= now {
            return self.end_phase(now, Why::NoMajority, out);
        }
        if lead.again {
            lead.beat_at = now;
        }
        let is_first = lead.until.replace(until).is_none();
        out.notify.push(match is_first {
            true => Notice::Leads { term, until: Some(until) },
            false => Notice::Extended { term, until },
        });
        self.read_only = false;
        self.duels = 0;
        if !self.saved.group.may_lead(self.id) {
            self.begin_ending(None, Why::Removed, out);
        }
    }

    /// Sends what is due: the next instance, or again what was not answered.
    pub(super) fn go_on_leading(&mut self, now: Moment, out: &mut Out) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        if let Some(raise) = &mut lead.raise {
            return send_prepares(self.id, &self.saved.group, raise, now, self.timing.heartbeat, out);
        }
        if now < lead.beat_at {
            return;
        }
        if lead.is_chosen {
            return self.open_next(now, out);
        }
        lead.again = true;
        lead.beat_at = now + self.timing.heartbeat;
        lead.send(self.id, &self.saved.group, out);
    }

    pub(super) fn hear_accepted(
        &mut self,
        now: Moment,
        from: NodeId,
        (ballot, instance): (Term, u64),
        stamp: GroupStamp,
        out: &mut Out,
    ) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        let is_answer = ballot == lead.vote.ballot && instance == lead.vote.instance;
        // Who raises its ballot has promised to accept nothing under the old one.
        if !is_answer || lead.raise.is_some() || stamp != self.saved.group.stamp() {
            return;
        }
        lead.spread.note(&self.saved.group, from, stamp);
        lead.accepted.add(&self.saved.group, from);
        self.conclude(now, out);
    }

    /// A member has promised a higher ballot to somebody who did not get a majority, and could not accept anything
    /// for as long as this leadership lasts. The leader raises its ballot above that, and goes on with the same token.
    pub(super) fn hear_refusal_of_lease(
        &mut self,
        now: Moment,
        from: NodeId,
        ballot: Term,
        promised: Term,
        out: &mut Out,
    ) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        if ballot != lead.vote.ballot || promised <= ballot {
            return;
        }
        lead.refused.add(&self.saved.group, from);
        let left = self.saved.group.size() - lead.refused.count();
        if lead.until.is_none() && left < self.saved.group.majority() {
            return self.lose_duel(now);
        }
        if !lead.is_steady || lead.raise.is_some() {
            return;
        }
        let raise = self.canvass(now, None);
        if let Phase::Proposing(lead) = &mut self.phase {
            lead.raise = raise;
        }
        self.go_on_leading(now, out);
    }

    pub(super) fn hear_promise_to_raise(
        &mut self,
        now: Moment,
        from: NodeId,
        ballot: Term,
        vote: Option<Vote>,
        out: &mut Out,
    ) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        let Some(raise) = lead.raise.as_mut().filter(|raise| raise.ballot == ballot) else { return };
        raise.count(&self.saved.group, from, vote);
        if !raise.promised.is_majority(&self.saved.group) {
            return;
        }
        let last = raise.last;
        lead.raise = None;
        lead.is_steady = false;
        let own = lead.vote;
        match last {
            Some(last) if last != own => self.end_phase(now, Why::HigherTerm(last.ballot), out),
            Some(_) | None if lead.is_chosen => {
                lead.vote.ballot = ballot;
                self.open_next(now, out);
            }
            Some(_) | None => self.open(now, Vote { ballot, ..own }, out),
        }
    }

    /// Stops the work, so that another one can lead.
    pub(super) fn transfer(&mut self, to: Option<NodeId>, out: &mut Out) {
        if let Err(why) = self.check_transfer(to) {
            return out.notify.push(Notice::Refused(why));
        }
        self.begin_ending(to, Why::HandedOver, out);
    }

    fn check_transfer(&self, to: Option<NodeId>) -> Result<(), &'static str> {
        let lead = self.led()?;
        let group = &self.saved.group;
        if lead.ending.is_some() {
            return Err("the leadership is being handed over already");
        }
        let Some(to) = to else {
            return self.successor().map(drop).ok_or("no other member that may lead has answered lately");
        };
        if to == self.id {
            return Err("that member leads already");
        }
        match group.member(to) {
            None => Err("that is no member of the group"),
            Some(member) if member.witness => Err("a witness never leads"),
            Some(_) if !lead.has_answered_lately(group, to) => Err("that member has not answered lately"),
            Some(_) => Ok(()),
        }
    }

    /// This member's leadership while it lasts, or what to say to those who want something of a leader.
    fn led(&self) -> Result<&Leadership, &'static str> {
        match &self.phase {
            Phase::Proposing(lead) if lead.until.is_some() => Ok(lead),
            Phase::Proposing(_) | Phase::Idle | Phase::Asking(_) | Phase::Preparing(_) => {
                Err("this member does not lead; ask the one that does")
            }
        }
    }

    /// The best of those that could take over at once.
    fn successor(&self) -> Option<NodeId> {
        let lead = self.led().ok()?;
        let group = &self.saved.group;
        let able = group.members().iter().filter(|member| {
            !member.witness && member.id != self.id && lead.has_answered_lately(group, member.id)
        });
        able.max_by_key(|member| member.rank()).map(|member| member.id)
    }

    fn begin_ending(&mut self, to: Option<NodeId>, why: Why, out: &mut Out) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        if lead.ending.is_none() {
            lead.ending = Some(Ending { to, why });
            out.notify.push(Notice::Stop { term: lead.token });
        }
    }

    /// The work has stopped: the leadership ends, and the successor may stand.
    pub(super) fn stopped(&mut self, now: Moment, out: &mut Out) {
        let best = self.successor();
        let Phase::Proposing(lead) = &mut self.phase else { return };
        let Some(ending) = lead.ending.take() else { return };
        let released = lead.token;
        if let Some(to) = ending.to.or(best) {
            say(to, Message::HandOver { released }, out);
        }
        self.end_phase(now, ending.why, out);
    }

    /// Changes the list of members by one.
    pub(super) fn reconfigure(&mut self, now: Moment, list: alloc::vec::Vec<Member>, out: &mut Out) {
        let next = self.led().and_then(|lead| {
            if lead.ending.is_some() {
                return Err("the leadership is being handed over; ask the next leader");
            }
            // Instances of the former list must be chosen under this one before the next step.
            let unsettled = Spread::default();
            let is_ready = lead.is_settled && lead.raise.is_none();
            let spread = if is_ready { &lead.spread } else { &unsettled };
            members::changed(&self.saved.group, spread, lead.token, list)
        });
        let next = match next {
            Ok(next) => next,
            Err(why) => return out.notify.push(Notice::Refused(why)),
        };
        out.notify.push(Notice::Members(next.clone()));
        self.saved.group = next;
        self.unsaved = true;
        let Phase::Proposing(lead) = &mut self.phase else { return };
        // Places in the list have moved, so nothing that was counted before means anything.
        lead.accepted = Tally::NONE;
        lead.spread = Spread::begun(&self.saved.group, self.id);
        lead.is_settled = false;
        match (lead.is_chosen, lead.vote) {
            (true, _) => self.open_next(now, out),
            (false, vote) => self.open(now, vote, out),
        }
    }

    /// Ends whatever this member is about, and tells so if it led.
    pub(super) fn end_phase(&mut self, now: Moment, why: Why, out: &mut Out) {
        let phase = core::mem::replace(&mut self.phase, Phase::Idle);
        self.stand_later(now);
        let Phase::Proposing(Leadership { token: term, until: Some(_), .. }) = phase else { return };
        out.notify.push(Notice::Lost { term, why });
        match why {
            Why::NoMajority => self.read_only = true,
            Why::HigherTerm(_) | Why::HandedOver | Why::Removed | Why::Outranked(_) => {}
        }
        out.notify.push(Notice::Leaderless { term: self.saved.promised });
    }
}
