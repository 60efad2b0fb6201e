//! What a member makes of the messages of others.

use baton_election::Moment;

use super::{Asks, Bully, BullyRole, Message, Out};
use crate::{Envelope, NodeId, Term};

impl Bully {
    pub(super) fn hear(&mut self, now: Moment, from: NodeId, message: Message, out: &mut Out) {
        if !self.member.hears(from) {
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
        if term > self.member.term {
            self.member.adopt(now, term, out);
        }
        let concerns_me =
            self.member.group.may_lead(self.member.id) && !self.is_outranked_by(from) && !self.aside;
        match self.member.role {
            BullyRole::Leading { .. } => {
                out.send
                    .push(Envelope { to: from, message: Message::Coordinator { term: self.member.term } });
            }
            BullyRole::Arriving | BullyRole::Idle | BullyRole::Following(_) if concerns_me => {
                out.send.push(Envelope { to: from, message: Message::Ok { term } });
                self.stand(now, out);
            }
            BullyRole::Standing(_) if concerns_me => {
                out.send.push(Envelope { to: from, message: Message::Ok { term } });
            }
            BullyRole::Arriving | BullyRole::Idle | BullyRole::Following(_) | BullyRole::Standing(_) => {}
        }
    }

    /// A higher one is there.
    fn answered(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if term > self.member.term {
            return self.refused(now, term, out);
        }
        let is_asking = self.member.role == BullyRole::Standing(Asks::Unanswered);
        if term == self.member.term && is_asking && self.is_outranked_by(from) {
            self.member.role = BullyRole::Standing(Asks::Answered);
            self.member.be_patient(now);
        }
    }

    /// Somebody says that it leads.
    fn led(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if !self.member.group.may_lead(from) || self.is_old(from, term, out) {
            return;
        }
        if term > self.member.term {
            self.member.adopt(now, term, out);
        }
        let bully = self.member.group.outranks(self.member.id, from) && !self.aside;
        match self.member.role {
            BullyRole::Arriving | BullyRole::Standing(_) | BullyRole::Leading { .. } if bully => {}
            BullyRole::Idle if bully => self.stand_soon(now),
            // Two of one term lead: the higher one tells the other, and everybody believes the higher one.
            BullyRole::Following(leader) if leader != from && self.member.group.outranks(leader, from) => {}
            BullyRole::Following(leader) if leader != from && bully => {
                self.member.forget_leader(out);
                self.stand_soon(now);
            }
            BullyRole::Arriving
            | BullyRole::Idle
            | BullyRole::Following(_)
            | BullyRole::Standing(_)
            | BullyRole::Leading { .. } => self.member.follow(now, from, out),
        }
    }

    /// Not at once: two members that each think to outrank the other, since their lists differ, would depose each other as
    /// fast as the network is.
    fn stand_soon(&mut self, now: Moment) {
        self.member.due = self.member.due.min(now + self.member.answer_within());
    }

    /// Tells a lower one that still thinks it leads. Only in answer to heartbeats, which come at a measured pace.
    fn correct(&self, from: NodeId, term: Term, out: &mut Out) {
        if term == self.member.term
            && self.member.is_leading()
            && self.member.group.outranks(self.member.id, from)
        {
            out.send.push(Envelope { to: from, message: Message::Coordinator { term: self.member.term } });
        }
    }

    /// Somebody has seen a higher term than this member spoke of.
    fn refused(&mut self, now: Moment, term: Term, out: &mut Out) {
        if term <= self.member.term {
            return;
        }
        let stands = matches!(self.member.role, BullyRole::Standing(_) | BullyRole::Leading { .. });
        self.member.adopt(now, term, out);
        if stands {
            self.stand(now, out);
        }
    }

    /// The leader gives up in favour of this member.
    fn asked_to_succeed(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if !self.is_old(from, term, out) && self.member.role == BullyRole::Following(from) {
            self.aside = false;
            self.stand(now, out);
        }
    }

    /// Whether a message is of an older term; its sender is told of the present one.
    fn is_old(&self, from: NodeId, term: Term, out: &mut Out) -> bool {
        if term >= self.member.term {
            return false;
        }
        let message = if self.member.is_leading() && !self.is_outranked_by(from) {
            Message::Coordinator { term: self.member.term }
        } else {
            Message::Refused { term: self.member.term }
        };
        out.send.push(Envelope { to: from, message });
        true
    }
}
