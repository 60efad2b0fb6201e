//! What a member makes of the messages of others.

use baton_election::Moment;

use super::{Bully, Message, Office, Out};
use crate::{Envelope, NodeId, Term};

impl Bully {
    /// Who is no member, and what comes back to oneself, is not heard; nor does anybody hear who is no member.
    pub(super) fn hear(&mut self, now: Moment, from: NodeId, message: Message, out: &mut Out) {
        if from == self.id || self.group.member(from).is_none() || self.group.member(self.id).is_none() {
            return;
        }
        match message {
            Message::Election { term } => self.asked(now, from, term, out),
            Message::Ok { term } => self.answered(now, from, term, out),
            Message::Coordinator { term } => self.led(now, from, term, out),
            Message::Heartbeat { term } => {
                self.correct(from, term, out);
                self.led(now, from, term, out);
            }
            Message::Refused { term } => self.refused(now, term, out),
            Message::Resign { term } => self.asked_to_succeed(now, from, term, out),
        }
    }

    /// A lower one does not hear the leader any more.
    fn asked(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if self.is_old(from, term, out) {
            return;
        }
        if term > self.term {
            self.adopt(now, term, out);
        }
        let concerns_me = self.group.may_lead(self.id) && !self.is_outranked_by(from) && !self.aside;
        match self.office {
            Office::Leading { .. } => {
                out.send.push(Envelope { to: from, message: Message::Coordinator { term: self.term } });
            }
            Office::Arriving | Office::Idle | Office::Following(_) if concerns_me => {
                out.send.push(Envelope { to: from, message: Message::Ok { term } });
                self.stand(now, out);
            }
            Office::Asking | Office::Answered if concerns_me => {
                out.send.push(Envelope { to: from, message: Message::Ok { term } });
            }
            Office::Arriving | Office::Idle | Office::Following(_) | Office::Asking | Office::Answered => {}
        }
    }

    /// A higher one is there.
    fn answered(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if term > self.term {
            return self.refused(now, term, out);
        }
        if term == self.term && self.office == Office::Asking && self.is_outranked_by(from) {
            self.office = Office::Answered;
            self.due = now + self.timing.patience(&mut self.random);
        }
    }

    /// Somebody says that it leads.
    fn led(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if !self.group.may_lead(from) || self.is_old(from, term, out) {
            return;
        }
        if term > self.term {
            self.adopt(now, term, out);
        }
        let bully = self.group.outranks(self.id, from) && !self.aside;
        match self.office {
            Office::Arriving | Office::Asking | Office::Answered | Office::Leading { .. } if bully => {}
            Office::Idle if bully => self.stand_soon(now),
            // Two of one term lead: the higher one tells the other, and everybody believes the higher one.
            Office::Following(leader) if leader != from && self.group.outranks(leader, from) => {}
            Office::Following(leader) if leader != from && bully => {
                self.forget_leader(out);
                self.stand_soon(now);
            }
            Office::Arriving
            | Office::Idle
            | Office::Following(_)
            | Office::Asking
            | Office::Answered
            | Office::Leading { .. } => self.follow(now, from, out),
        }
    }

    /// Not at once: two members that each think to outrank the other, since their lists differ, would depose each other as
    /// fast as the network is.
    fn stand_soon(&mut self, now: Moment) {
        self.due = self.due.min(now + self.answer_within());
    }

    /// Tells a lower one that still thinks it leads. Only in answer to heartbeats, which come at a measured pace.
    fn correct(&self, from: NodeId, term: Term, out: &mut Out) {
        if term == self.term && self.is_leading() && self.group.outranks(self.id, from) {
            out.send.push(Envelope { to: from, message: Message::Coordinator { term: self.term } });
        }
    }

    /// Somebody has seen a higher term than this member spoke of.
    fn refused(&mut self, now: Moment, term: Term, out: &mut Out) {
        if term <= self.term {
            return;
        }
        let stands = matches!(self.office, Office::Asking | Office::Answered | Office::Leading { .. });
        self.adopt(now, term, out);
        if stands {
            self.stand(now, out);
        }
    }

    /// The leader gives up in favour of this member.
    fn asked_to_succeed(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if !self.is_old(from, term, out) && self.office == Office::Following(from) {
            self.aside = false;
            self.stand(now, out);
        }
    }

    /// Whether a message is of an older term; its sender is told of the present one.
    fn is_old(&self, from: NodeId, term: Term, out: &mut Out) -> bool {
        if term >= self.term {
            return false;
        }
        let message = if self.is_leading() && !self.is_outranked_by(from) {
            Message::Coordinator { term: self.term }
        } else {
            Message::Refused { term: self.term }
        };
        out.send.push(Envelope { to: from, message });
        true
    }
}
