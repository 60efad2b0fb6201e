//! A leader: heartbeats in rounds, a lease while a majority answers, and the list of members.

use alloc::vec::Vec;

use baton_election::{Moment, Span};

use super::hand_over::HandOver;
use super::{Message, Out, Promise, Raft, State, Vote};
use crate::members::{self, Spread};
use crate::pending_members::{self, PendingMembers, Readiness};
use crate::rounds::Rounds;
use crate::{GroupStamp, LossCause, Member, NodeId, Notice, Term};

/// A leadership, from the election on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Leadership {
    /// The rounds of heartbeats, which the lease is counted from.
    rounds: Rounds,
    beat_at: Moment,
    /// When the lease ends. Before the first round is answered by a majority: when it would have ended.
    pub(super) until: Moment,
    /// A majority has answered a round: the work may run.
    pub(super) is_begun: bool,
    spread: Spread,
    /// When the latest round was sent that a majority has answered.
    confirmed: Option<Moment>,
    /// The nodes that ask and are no members.
    pub(super) pending_members: PendingMembers,
    /// One for each member, in the order of the list.
    pub(super) peers: Vec<Peer>,
    pub(super) hand_over: Option<HandOver>,
    /// Not before then does it hand over to a member with a higher priority.
    pub(super) offer_at: Moment,
}

/// What the leader knows of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    /// When it last answered.
    heard: Option<Moment>,
    /// Since when it has answered without a gap.
    pub(super) steady_since: Moment,
    /// Its list may be older.
    is_behind: bool,
}

impl Peer {
    const fn unheard(now: Moment) -> Peer {
        Peer { heard: None, steady_since: now, is_behind: true }
    }

    /// Whether it was heard lately.
    pub(super) fn is_there(&self, now: Moment, lately: Span) -> bool {
        self.heard.is_some_and(|heard| now.since(heard) <= lately)
    }
}

/// An answer to a heartbeat.
pub(super) struct Answer {
    pub(super) term: Term,
    pub(super) round: u64,
    pub(super) stamp: GroupStamp,
    pub(super) followed: bool,
}

impl Leadership {
    pub(super) fn deadline(&self) -> Moment {
        let next = self.beat_at.min(self.until);
        self.hand_over.as_ref().and_then(HandOver::offered_until).map_or(next, |until| next.min(until))
    }

    /// The end of the lease, if it runs.
    pub(super) fn lease(&self, now: Moment) -> Option<Moment> {
        (self.is_begun && now < self.until).then_some(self.until)
    }

    pub(super) fn offers_to(&self, member: NodeId) -> bool {
        self.hand_over.as_ref().is_some_and(|hand_over| hand_over.is_offered_to(member))
    }
}

impl Raft {
    pub(super) fn be_elected(&mut self, now: Moment, out: &mut Out) {
        self.group = members::taken_over(&self.group, self.term);
        out.keep = true;
        self.led_by = Some(self.id);
        self.state = State::Leader(Leadership {
            rounds: Rounds::NONE,
            beat_at: now,
            until: self.timing.lease_until(now),
            is_begun: false,
            spread: Spread::begun(&self.group, self.id),
            confirmed: None,
            pending_members: PendingMembers::default(),
            peers: self.group.members().iter().map(|_| Peer::unheard(now)).collect(),
            hand_over: None,
            offer_at: now + self.cool_off(),
        });
        self.lead(now, out);
    }

    /// Does what is due for a leader.
    pub(super) fn lead(&mut self, now: Moment, out: &mut Out) {
        self.withdraw_offer(now, out);
        let State::Leader(leadership) = &mut self.state else { return };
        if now < leadership.beat_at {
            return;
        }
        self.beat(now, out);
        self.prefer(now, out);
    }

    /// §5.2: heartbeats to all others. The moment is taken before they are sent, and the lease is counted from it.
    fn beat(&mut self, now: Moment, out: &mut Out) {
        let State::Leader(leadership) = &mut self.state else { return };
        leadership.beat_at = now + self.timing.heartbeat;
        let round = leadership.rounds.begin(now, &self.timing, &self.group, self.id);
        out.effects.send.reserve(self.group.size());
        for (member, peer) in self.group.members().iter().zip(&leadership.peers) {
            if member.id != self.id {
                let group = peer.is_behind.then(|| self.group.clone());
                let (term, stamp) = (self.term, self.group.stamp());
                out.send(member.id, Message::AppendEntries { term, round, stamp, group });
            }
        }
        let sent = leadership.rounds.take_answered(&self.group);
        self.extend(now, sent, out);
    }

    pub(super) fn append_answer(&mut self, now: Moment, from: NodeId, answer: Answer, out: &mut Out) {
        let State::Leader(leadership) = &mut self.state else { return };
        let Some(index) = self.group.index(from) else { return };
        if answer.round > leadership.rounds.latest() {
            return;
        }
        if answer.term > self.term {
            self.step_down(now, answer.term, out);
            return;
        }
        let Some(peer) = leadership.peers.get_mut(index) else { return };
        peer.is_behind = answer.stamp < self.group.stamp();
        if answer.term < self.term || !answer.followed {
            return;
        }
        if !peer.is_there(now, self.timing.timeout_min) {
            peer.steady_since = now;
        }
        peer.heard = Some(now);
        leadership.spread.note(&self.group, from, answer.stamp);
        let is_settled = leadership.spread.is_settled(&self.group);
        leadership.rounds.count(&self.group, from, answer.round);
        let sent = leadership.rounds.take_answered(&self.group);
        self.extend(now, sent, out);
        // §6: a leader that is not in the list steps down once the list counts.
        if is_settled && !self.group.may_lead(self.id) {
            self.lose(now, LossCause::Removed, out);
        }
    }

    /// A majority has answered the round that was sent then.
    fn extend(&mut self, now: Moment, sent: Option<Moment>, out: &mut Out) {
        let State::Leader(leadership) = &mut self.state else { return };
        leadership.confirmed = leadership.confirmed.max(sent);
        let Some(until) = sent.map(|sent| self.timing.lease_until(sent)) else { return };
        if until <= now {
            return;
        }
        let term = self.term;
        if !leadership.is_begun {
            leadership.is_begun = true;
            leadership.until = until;
            self.read_only = false;
            out.notify(Notice::Leads { term, until: Some(until) });
        } else if until > leadership.until {
            leadership.until = until;
            out.notify(Notice::Extended { term, until });
        }
    }

    /// §5.1: a leader that learns of a higher term steps down. A member that got ahead in an election that failed follows nobody
    /// in this term; so the leader stands again at once, in a term above that, and those who promised to wait for it need not wait.
    fn step_down(&mut self, now: Moment, term: Term, out: &mut Out) {
        self.give_up(LossCause::HigherTerm(term), out);
        self.enter(term, Vote::Free, out);
        out.notify(Notice::Leaderless { term });
        self.election_at = now;
    }

    /// Ends the own leadership, with nobody known to follow.
    pub(super) fn lose(&mut self, now: Moment, why: LossCause, out: &mut Out) {
        self.give_up(why, out);
        out.notify(Notice::Leaderless { term: self.term });
        self.election_at = now + self.patience();
    }

    /// Ends the own leadership, if there is one. The work may take until the end of the lease to stop, so until then this member votes
    /// for nobody else.
    pub(super) fn give_up(&mut self, why: LossCause, out: &mut Out) {
        let State::Leader(leadership) = &self.state else { return };
        let (term, until) = (self.term, leadership.until);
        if leadership.is_begun {
            self.read_only = why == LossCause::NoMajority;
            self.promise = Some(Promise { to: self.id, term, until });
            out.notify(Notice::Lost { term, why });
        }
        self.state = State::Follower(None);
    }

    pub(super) fn reconfigure(&mut self, now: Moment, members: Vec<Member>, out: &mut Out) {
        let State::Leader(leadership) = &mut self.state else {
            out.notify(Notice::Refused("this member does not lead; ask the leader"));
            return;
        };
        if leadership.hand_over.is_some() {
            out.notify(Notice::Refused("the leadership is being handed over; ask the next leader"));
            return;
        }
        let next = match members::changed(&self.group, &leadership.spread, self.term, members) {
            Ok(next) => next,
            Err(why) => {
                out.notify(Notice::Refused(why));
                return;
            }
        };
        let lately = self.timing.timeout_min;
        let joins = next.members().iter().find(|member| self.group.member(member.id).is_none());
        let ready = joins
            .map(|member| leadership.pending_members.ready(now, member.id, lately, leadership.confirmed));
        let applicant = match ready {
            Some(Readiness::Yes(applicant)) => Some(applicant),
            Some(Readiness::Unheard) | None => None,
            Some(Readiness::Early) => {
                out.notify(Notice::Refused(pending_members::EARLY));
                return;
            }
        };
        let known = |id| self.group.index(id).and_then(|index| leadership.peers.get(index));
        let is_heard = |id| {
            let is_guest = applicant.is_some() && self.group.member(id).is_none();
            id == self.id || is_guest || known(id).is_some_and(|peer| peer.is_there(now, lately))
        };
        if !members::keeps_majority(&self.group, &next, is_heard) {
            out.notify(Notice::Refused(
                "too few of these members were heard lately; take out first who is gone",
            ));
            return;
        }
        let as_before = |member: &Member| known(member.id).copied().unwrap_or(Peer::unheard(now));
        leadership.peers =
            next.members().iter().map(|member| Peer { is_behind: true, ..as_before(member) }).collect();
        leadership.spread = Spread::begun(&next, self.id);
        // Those who answered were counted by the older list.
        leadership.rounds.forget();
        leadership.beat_at = now;
        let joins = joins.map(|member| member.id);
        self.adopt(next, out);
        if let (Some(id), Some(applicant)) = (joins, applicant) {
            // It need not ask once more: the new list may need its answer soon.
            self.admitted.add(&applicant);
            self.answer(now, id, &applicant.ask, out);
        }
    }
}
