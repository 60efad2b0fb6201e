//! The leader: phase 2 over and over, one instance for each renewal of its lease.
//!
//! *Paxos Made Simple* §3: phase 1 is done once for all instances, and each command costs one round of phase 2. Here the command is "the lease goes on".

use baton_election::{Moment, Span};

use super::proposer::{PreparePhase, send_prepares};
use super::saved::Vote;
use super::{Message, Out, Paxos, Phase, say};
use crate::members::{self, Spread};
use crate::pending_members::PendingMembers;
use crate::rounds::Rounds;
use crate::{Group, GroupStamp, LossCause, NodeId, Notice, Tally, Term, Timing};

/// Phase 2, from the first instance until the leadership ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Leadership {
    /// The ballot under which it began.
    pub(super) token: Term,
    /// The instance that is being decided, or was decided last.
    pub(super) vote: Vote,
    /// When that was first asked.
    sent: Moment,
    pub(super) is_chosen: bool,
    /// An instance with this leadership's own token was chosen.
    is_granted: bool,
    pub(super) accepted: Tally,
    refused: Tally,
    /// The members that had accepted the previous proposal.
    before: Tally,
    pub(super) spread: Spread,
    /// The nodes that ask and are no members.
    pub(super) pending_members: PendingMembers,
    /// An instance was chosen since the list of members was written, so that it may be changed.
    pub(super) is_settled: bool,
    /// Somebody has promised a higher ballot.
    is_outbid: bool,
    /// The rounds of requests, which the lease is counted from.
    pub(super) rounds: Rounds,
    /// When the latest of them was sent that a majority of the present list has answered.
    pub(super) confirmed: Option<Moment>,
    beat_at: Moment,
    /// The end of the lease; none before the first.
    pub(super) until: Option<Moment>,
    pub(super) ending: Option<Ending>,
    pub(super) raise: Option<PreparePhase>,
}

/// The work is being stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ending {
    pub(super) to: Option<NodeId>,
    pub(super) why: LossCause,
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

    /// A new round of requests, also to those that have accepted: each answer makes the lease longer.
    fn send(&mut self, now: Moment, me: NodeId, timing: &Timing, group: &Group, out: &mut Out) {
        let beat = self.rounds.begin(now, timing, group, me);
        for other in group.others(me) {
            let list = (!self.spread.has(group, other)).then(|| group.clone());
            let (vote, token) = (self.vote, self.token);
            say(other, Message::Accept { vote, token, beat, group: list }, out);
        }
    }

    pub(super) fn has_answered_lately(&self, group: &Group, id: NodeId) -> bool {
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
            is_granted: false,
            accepted: Tally::NONE,
            refused: Tally::NONE,
            before: Tally::NONE,
            spread: Spread::begun(&self.saved.group, self.id),
            pending_members: PendingMembers::default(),
            is_settled: false,
            is_outbid: false,
            rounds: Rounds::NONE,
            confirmed: None,
            beat_at: now,
            until: None,
            ending: None,
            raise: None,
        });
        self.open(now, Vote { instance, ballot: token, value }, out);
    }

    /// Phase 2a. The member's own acceptance is the first.
    pub(super) fn open(&mut self, now: Moment, vote: Vote, out: &mut Out) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        lead.vote = vote;
        lead.sent = now;
        lead.is_chosen = false;
        lead.before = core::mem::take(&mut lead.accepted);
        lead.refused = Tally::NONE;
        lead.accepted.add(&self.saved.group, self.id);
        lead.beat_at = now + self.timing.heartbeat;
        lead.send(now, self.id, &self.timing, &self.saved.group, out);
        let token = lead.token;
        self.accept(now, vote, token);
        self.conclude(now, out);
        self.extend(now, out);
    }

    /// The next instance, for the lease of this leadership.
    pub(super) fn open_next(&mut self, now: Moment, out: &mut Out) {
        let Phase::Proposing(lead) = &self.phase else { return };
        match lead.vote.instance.checked_add(1) {
            Some(instance) => {
                let vote = Vote { instance, ballot: lead.ballot(), value: lead.token };
                self.open(now, vote, out);
            }
            None => self.end_phase(now, LossCause::NoMajority, out),
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
        if lead.vote.value != lead.token {
            return self.open_next(now, out);
        }
        lead.is_granted = true;
        self.extend(now, out);
        if self.saved.group.may_lead(self.id) {
            self.raise_if_outbid(now, out);
        } else {
            self.begin_ending(None, LossCause::Removed, out);
        }
    }

    /// Counts the lease from the latest round that a majority has answered.
    fn extend(&mut self, now: Moment, out: &mut Out) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        // What was answered before the leadership was granted counts once it is.
        if !lead.is_granted {
            return;
        }
        let Some(sent) = lead.rounds.take_answered(&self.saved.group) else { return };
        lead.confirmed = Some(sent);
        let (term, until) = (lead.token, self.timing.lease_until(sent));
        if until <= now || Some(until) <= lead.until {
            return;
        }
        let is_first = lead.until.replace(until).is_none();
        out.notify.push(match is_first {
            true => Notice::Leads { term, until: Some(until) },
            false => Notice::Extended { term, until },
        });
        self.read_only = false;
        self.duels = 0;
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
        lead.beat_at = now + self.timing.heartbeat;
        lead.send(now, self.id, &self.timing, &self.saved.group, out);
    }

    pub(super) fn hear_accepted(
        &mut self,
        now: Moment,
        from: NodeId,
        (ballot, instance, beat): (Term, u64, u64),
        stamp: GroupStamp,
        out: &mut Out,
    ) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        if ballot != lead.vote.ballot || stamp != self.saved.group.stamp() {
            return;
        }
        lead.spread.note(&self.saved.group, from, stamp);
        lead.rounds.count(&self.saved.group, from, beat);
        // Who raises its ballot has promised to accept nothing more under the old one, so it begins nothing.
        if instance == lead.vote.instance && lead.raise.is_none() {
            lead.accepted.add(&self.saved.group, from);
            self.conclude(now, out);
        }
        self.extend(now, out);
    }

    /// A member has promised a higher ballot to somebody who did not get a majority.
    pub(super) fn hear_refusal_of_lease(&mut self, now: Moment, from: NodeId, ballot: Term, promised: Term) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        // Who promised the ballot that this leader is raising to has not outbid it.
        if ballot != lead.vote.ballot || promised <= self.saved.promised {
            return;
        }
        lead.is_outbid = true;
        lead.refused.add(&self.saved.group, from);
        let left = self.saved.group.size() - lead.refused.count();
        if lead.until.is_none() && left < self.saved.group.majority() {
            self.lose_duel(now);
        }
    }

    /// Whoever promised a higher ballot could not accept anything for as long as this leadership lasts. So the leader goes through phase 1 above
    /// that, and on with the same token; right after an instance is chosen, and only if the lease leaves time for two more rounds that are as
    /// slow as the last one was.
    fn raise_if_outbid(&mut self, now: Moment, out: &mut Out) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        let is_outbid = core::mem::take(&mut lead.is_outbid);
        let left = lead.until.map_or(Span::ZERO, |until| until.since(now));
        if !is_outbid || left < now.since(lead.sent).scaled(3, 1) {
            return;
        }
        let raise = self.canvass(now, None);
        let Phase::Proposing(lead) = &mut self.phase else { return };
        lead.raise = raise;
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
        lead.rounds.forget();
        let own = lead.vote;
        match last {
            Some(last) if last != own => self.end_phase(now, LossCause::HigherTerm(last.ballot), out),
            Some(_) | None if lead.is_chosen => {
                lead.vote.ballot = ballot;
                self.open_next(now, out);
            }
            Some(_) | None => self.open(now, Vote { ballot, ..own }, out),
        }
    }

    /// Ends whatever this member is about, and tells so if it led.
    pub(super) fn end_phase(&mut self, now: Moment, why: LossCause, out: &mut Out) {
        let phase = core::mem::replace(&mut self.phase, Phase::Idle);
        self.stand_later(now);
        let Phase::Proposing(Leadership { token: term, until: Some(_), .. }) = phase else { return };
        out.notify.push(Notice::Lost { term, why });
        match why {
            LossCause::NoMajority => self.read_only = true,
            LossCause::HigherTerm(_)
            | LossCause::HandedOver
            | LossCause::Removed
            | LossCause::Outranked(_) => {}
        }
        out.notify.push(Notice::Leaderless { term: self.saved.promised });
    }
}
