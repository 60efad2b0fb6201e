//! Handing over: because somebody asked for it, or because a member with a higher priority is there.
//!
//! The leader first asks the successor whether a majority would elect it ([`Message::Offer`], answered by [`Message::Ready`]), so that a member that is cut off from
//! the others costs nothing. Then the work stops; only then the leadership is given up, and [`Message::TimeoutNow`] lets the
//! successor stand. It names the term that was given up, and voters skip their patience only if that is the term they promised to wait for.

use baton_election::{Moment, Span};

use super::{Message, Out, Raft, State};
use crate::{LossCause, NodeId, Notice, Term};

/// A member with a higher priority must have answered without a gap for so many longest timeouts.
const STEADY_TIMEOUTS: u64 = 5;
/// A leader keeps its leadership for at least so many longest timeouts before it hands over to a higher priority, and waits so long again if that
/// failed: a member that comes and goes does not make the leadership flap.
const COOL_OFF_TIMEOUTS: u64 = 10;

/// A leadership that is being handed over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HandOver {
    to: NodeId,
    /// Somebody asked for it, and is told if it fails.
    is_asked: bool,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    /// The successor finds out whether it would be elected, and has so long for it.
    Offered { until: Moment },
    /// The work stops.
    Stopping,
}

impl HandOver {
    pub(super) const fn offered_until(&self) -> Option<Moment> {
        match self.phase {
            Phase::Offered { until } => Some(until),
            Phase::Stopping => None,
        }
    }

    pub(super) fn is_offered_to(&self, member: NodeId) -> bool {
        self.to == member && self.offered_until().is_some()
    }
}

impl Raft {
    pub(super) fn cool_off(&self) -> Span {
        self.timing.timeout_max.scaled(COOL_OFF_TIMEOUTS, 1)
    }

    pub(super) fn transfer(&mut self, now: Moment, to: Option<NodeId>, out: &mut Out) {
        match self.successor(now, to) {
            Ok(to) => self.offer(now, to, true, out),
            Err(why) => out.notify(Notice::Refused(why)),
        }
    }

    /// To whom to hand over when asked to.
    fn successor(&self, now: Moment, to: Option<NodeId>) -> Result<NodeId, &'static str> {
        let State::Leader(leadership) = &self.state else {
            return Err("this member does not lead; ask the leader");
        };
        if !leadership.is_begun {
            return Err("this member was elected just now; try again in a moment");
        }
        if leadership.hand_over.is_some() {
            return Err("the leadership is being handed over already");
        }
        match to {
            Some(to) if to == self.id => Err("this member leads already"),
            Some(to) if !self.group.may_lead(to) => Err("that is no member that may lead"),
            Some(to) => Ok(to),
            None => self
                .group
                .members()
                .iter()
                .zip(&leadership.peers)
                .filter(|(member, _)| member.id != self.id && !member.witness)
                .filter(|(_, peer)| peer.is_there(now, self.timing.timeout_min))
                .map(|(member, _)| member)
                .max_by_key(|member| member.rank())
                .map(|member| member.id)
                .ok_or("no other member that may lead was heard lately"),
        }
    }

    fn offer(&mut self, now: Moment, to: NodeId, is_asked: bool, out: &mut Out) {
        let State::Leader(leadership) = &mut self.state else { return };
        let until = now + self.timing.timeout_min;
        leadership.hand_over = Some(HandOver { to, is_asked, phase: Phase::Offered { until } });
        out.send(to, Message::Offer { term: self.term });
    }

    /// An offer that is not answered in time ends, and the work goes on.
    pub(super) fn withdraw_offer(&mut self, now: Moment, out: &mut Out) {
        let cool_off = self.cool_off();
        let State::Leader(leadership) = &mut self.state else { return };
        let Some(hand_over) = &leadership.hand_over else { return };
        if hand_over.offered_until().is_some_and(|until| now >= until) {
            if hand_over.is_asked {
                out.notify(Notice::Refused("that member did not show that a majority would elect it"));
            }
            leadership.hand_over = None;
            leadership.offer_at = now + cool_off;
        }
    }

    /// With each round of heartbeats: offers the leadership to a member with a higher priority that is steadily there, and
    /// repeats an offer, since it may have been lost.
    pub(super) fn prefer(&mut self, now: Moment, out: &mut Out) {
        let State::Leader(leadership) = &self.state else { return };
        if let Some(hand_over) = &leadership.hand_over {
            if hand_over.offered_until().is_some() {
                out.send(hand_over.to, Message::Offer { term: self.term });
            }
            return;
        }
        if !leadership.is_begun || now < leadership.offer_at {
            return;
        }
        let own = self.group.member(self.id).map_or(0, |member| member.priority);
        let steady = self.timing.timeout_max.scaled(STEADY_TIMEOUTS, 1);
        let preferred = self
            .group
            .members()
            .iter()
            .zip(&leadership.peers)
            .filter(|(member, _)| !member.witness && member.priority > own)
            .filter(|(_, peer)| {
                peer.is_there(now, self.timing.timeout_min) && now.since(peer.steady_since) >= steady
            })
            .map(|(member, _)| member)
            .max_by_key(|member| member.rank())
            .map(|member| member.id);
        if let Some(to) = preferred {
            self.offer(now, to, false, out);
        }
    }

    /// The leader asks whether this member could succeed it: ask the voters.
    pub(super) fn offered(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        let is_follower = matches!(self.state, State::Follower(_));
        if is_follower && term == self.term && self.led_by == Some(from) && self.may_stand(now) {
            let poll = self.poll(Some((from, term)), out);
            self.state = State::Follower(Some(poll));
        }
    }

    /// The successor would be elected: the work stops first.
    pub(super) fn ready(&mut self, from: NodeId, term: Term, out: &mut Out) {
        let own_term = self.term;
        let State::Leader(leadership) = &mut self.state else { return };
        if term != own_term || !leadership.offers_to(from) {
            return;
        }
        if let Some(hand_over) = &mut leadership.hand_over {
            hand_over.phase = Phase::Stopping;
            out.notify(Notice::Stop { term });
        }
    }

    /// The work has stopped: the leadership can be given up, and nobody needs to wait for its lease.
    pub(super) fn stopped(&mut self, now: Moment, out: &mut Out) {
        let State::Leader(leadership) = &self.state else { return };
        let Some(HandOver { to, phase: Phase::Stopping, is_asked: _ }) = leadership.hand_over else { return };
        out.send(to, Message::TimeoutNow { term: self.term });
        self.lose(now, LossCause::HandedOver, out);
        self.promise = None;
    }

    /// Dissertation 3.10: the successor stands without waiting.
    pub(super) fn timeout_now(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        let is_follower = matches!(self.state, State::Follower(_));
        if is_follower && term == self.term && self.led_by == Some(from) && self.may_stand(now) {
            self.stand(now, term, Some(term), out);
        }
    }
}
