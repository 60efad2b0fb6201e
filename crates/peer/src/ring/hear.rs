//! What a member makes of the messages of others.

use alloc::vec::Vec;

use baton_election::Moment;

use super::{Lap, Message, Out, Ring, RingRole};
use crate::{Envelope, NodeId, Term};

impl Ring {
    pub(super) fn hear(&mut self, now: Moment, from: NodeId, message: Message, out: &mut Out) {
        if !self.member.hears(from) {
            return;
        }
        match message {
            Message::Election { term, origin, ids } => {
                let lap = Lap { coordinator: false, term, origin };
                if self.is_list(origin, &ids) && self.takes(now, from, lap, out) {
                    self.election(now, origin, ids, out);
                }
            }
            Message::Coordinator { term, origin, leader, told } => {
                let lap = Lap { coordinator: true, term, origin };
                let sound = self.is_list(origin, &told) && self.member.group.may_lead(leader);
                if sound && self.takes(now, from, lap, out) {
                    self.coordinator(now, origin, leader, told, out);
                }
            }
            Message::Ack { lap, term } => self.acknowledged(now, lap, term, out),
            Message::Heartbeat { term } => self.heartbeat(now, from, term, out),
            Message::Refused { term } if term > self.member.term => self.adopt(now, term, out),
            Message::Refused { .. } => {}
        }
    }

    /// Whether that can be the list of a lap: members only, none twice, the origin first.
    fn is_list(&self, origin: NodeId, ids: &[NodeId]) -> bool {
        // The length first: it bounds the work of the rest.
        ids.len() <= self.member.group.size()
            && ids.first() == Some(&origin)
            && ids
                .iter()
                .enumerate()
                .all(|(at, id)| self.member.group.member(*id).is_some() && !ids[..at].contains(id))
    }

    /// Answers a lap, and says whether it goes on: not if it is of an older term.
    fn takes(&mut self, now: Moment, from: NodeId, lap: Lap, out: &mut Out) -> bool {
        if lap.term > self.member.term {
            self.adopt(now, lap.term, out);
        }
        out.send.push(Envelope { to: from, message: Message::Ack { lap, term: self.member.term } });
        lap.term == self.member.term
    }

    fn election(&mut self, now: Moment, origin: NodeId, mut ids: Vec<NodeId>, out: &mut Out) {
        let back = ids.contains(&self.member.id);
        match self.member.role {
            RingRole::Leading { .. } => {
                if origin != self.member.id {
                    let message = Message::Heartbeat { term: self.member.term };
                    out.send.push(Envelope { to: origin, message });
                }
            }
            // The leader was heard since it was sent off.
            RingRole::Following(_) if back => {}
            RingRole::Arriving | RingRole::Idle | RingRole::Standing(()) if back => {
                self.conclude(now, &ids, out)
            }
            // Of two elections at once that of the higher origin goes on.
            RingRole::Standing(()) if origin < self.member.id => {}
            RingRole::Arriving | RingRole::Idle => {
                self.member.idle(now);
                ids.push(self.member.id);
                self.pass_on(now, Message::Election { term: self.member.term, origin, ids }, out);
            }
            RingRole::Following(_) | RingRole::Standing(()) => {
                ids.push(self.member.id);
                self.pass_on(now, Message::Election { term: self.member.term, origin, ids }, out);
            }
        }
    }

    fn coordinator(
        &mut self,
        now: Moment,
        origin: NodeId,
        leader: NodeId,
        mut told: Vec<NodeId>,
        out: &mut Out,
    ) {
        if told.contains(&self.member.id) {
            return;
        }
        match self.member.role {
            RingRole::Leading { .. } | RingRole::Following(_) if !self.believes(leader) => {}
            RingRole::Leading { .. } if leader == self.member.id => {}
            RingRole::Arriving | RingRole::Idle | RingRole::Following(_) | RingRole::Standing(())
                if leader == self.member.id =>
            {
                self.lead(now, out);
            }
            RingRole::Arriving
            | RingRole::Idle
            | RingRole::Following(_)
            | RingRole::Standing(())
            | RingRole::Leading { .. } => self.member.follow(now, leader, out),
        }
        told.push(self.member.id);
        self.pass_on(now, Message::Coordinator { term: self.member.term, origin, leader, told }, out);
    }

    fn heartbeat(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if !self.member.group.may_lead(from) {
            return;
        }
        if term < self.member.term {
            out.send.push(Envelope { to: from, message: Message::Refused { term: self.member.term } });
            return;
        }
        if term > self.member.term {
            self.adopt(now, term, out);
        }
        if self.believes(from) {
            self.member.follow(now, from, out);
        }
    }

    /// Of two leaders of one term, the higher one is believed.
    fn believes(&self, leader: NodeId) -> bool {
        match self.member.role {
            RingRole::Arriving | RingRole::Idle | RingRole::Standing(()) => true,
            RingRole::Following(heard) => !self.member.group.outranks(heard, leader),
            RingRole::Leading { .. } => !self.member.group.outranks(self.member.id, leader),
        }
    }

    fn acknowledged(&mut self, now: Moment, lap: Lap, term: Term, out: &mut Out) {
        self.hops.retain(|hop| hop.message.lap() != Some(lap));
        if term <= self.member.term {
            return;
        }
        // What this member passed on is of an older term. It may be the only one who knows: it begins anew.
        let leads_on = matches!(self.member.role, RingRole::Leading { .. } | RingRole::Following(_));
        self.adopt(now, term, out);
        if !lap.coordinator && !leads_on {
            self.stand(now, out);
        }
    }
}
