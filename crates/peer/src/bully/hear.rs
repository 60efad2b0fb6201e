//! What a member makes of the messages of others.

use baton_election::Moment;

use super::{Asks, Bully, Message, Office, Out};
use crate::{Envelope, NodeId, Term};

impl Bully {
    pub(super) fn hear(&mut self, now: Moment, from: NodeId, message: Message, out: &mut Out) {
        if !self.post.hears(from) {
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
        if term > self.post.term {
            self.post.adopt(now, term, out);
        }
        let concerns_me =
            self.post.group.may_lead(self.post.id) && !self.is_outranked_by(from) && !self.aside;
        match self.post.office {
            Office::Leading { .. } => {
                out.send.push(Envelope { to: from, message: Message::Coordinator { term: self.post.term } });
            }
            Office::Arriving | Office::Idle | Office::Following(_) if concerns_me => {
                out.send.push(Envelope { to: from, message: Message::Ok { term } });
                self.stand(now, out);
            }
            Office::Standing(_) if concerns_me => {
                out.send.push(Envelope { to: from, message: Message::Ok { term } });
            }
            Office::Arriving | Office::Idle | Office::Following(_) | Office::Standing(_) => {}
        }
    }

    /// A higher one is there.
    fn answered(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if term > self.post.term {
            return self.refused(now, term, out);
        }
        let is_asking = self.post.office == Office::Standing(Asks::Unanswered);
        if term == self.post.term && is_asking && self.is_outranked_by(from) {
            self.post.office = Office::Standing(Asks::Answered);
            self.post.be_patient(now);
        }
    }

    /// Somebody says that it leads.
    fn led(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if !self.post.group.may_lead(from) || self.is_old(from, term, out) {
            return;
        }
        if term > self.post.term {
            self.post.adopt(now, term, out);
        }
        let bully = self.post.group.outranks(self.post.id, from) && !self.aside;
        match self.post.office {
            Office::Arriving | Office::Standing(_) | Office::Leading { .. } if bully => {}
            Office::Idle if bully => self.stand_soon(now),
            // Two of one term lead: the higher one tells the other, and everybody believes the higher one.
            Office::Following(leader) if leader != from && self.post.group.outranks(leader, from) => {}
            Office::Following(leader) if leader != from && bully => {
                self.post.forget_leader(out);
                self.stand_soon(now);
            }
            Office::Arriving
            | Office::Idle
            | Office::Following(_)
            | Office::Standing(_)
            | Office::Leading { .. } => self.post.follow(now, from, out),
        }
    }

    /// Not at once: two members that each think to outrank the other, since their lists differ, would depose each other as
    /// fast as the network is.
    fn stand_soon(&mut self, now: Moment) {
        self.post.due = self.post.due.min(now + self.post.answer_within());
    }

    /// Tells a lower one that still thinks it leads. Only in answer to heartbeats, which come at a measured pace.
    fn correct(&self, from: NodeId, term: Term, out: &mut Out) {
        if term == self.post.term && self.post.is_leading() && self.post.group.outranks(self.post.id, from) {
            out.send.push(Envelope { to: from, message: Message::Coordinator { term: self.post.term } });
        }
    }

    /// Somebody has seen a higher term than this member spoke of.
    fn refused(&mut self, now: Moment, term: Term, out: &mut Out) {
        if term <= self.post.term {
            return;
        }
        let stands = matches!(self.post.office, Office::Standing(_) | Office::Leading { .. });
        self.post.adopt(now, term, out);
        if stands {
            self.stand(now, out);
        }
    }

    /// The leader gives up in favour of this member.
    fn asked_to_succeed(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if !self.is_old(from, term, out) && self.post.office == Office::Following(from) {
            self.aside = false;
            self.stand(now, out);
        }
    }

    /// Whether a message is of an older term; its sender is told of the present one.
    fn is_old(&self, from: NodeId, term: Term, out: &mut Out) -> bool {
        if term >= self.post.term {
            return false;
        }
        let message = if self.post.is_leading() && !self.is_outranked_by(from) {
            Message::Coordinator { term: self.post.term }
        } else {
            Message::Refused { term: self.post.term }
        };
        out.send.push(Envelope { to: from, message });
        true
    }
}
