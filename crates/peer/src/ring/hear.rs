//! What a member makes of the messages of others.

use alloc::vec::Vec;

use baton_election::Moment;

use super::{Lap, Message, Office, Out, Ring};
use crate::{Envelope, NodeId, Term};

impl Ring {
    pub(super) fn hear(&mut self, now: Moment, from: NodeId, message: Message, out: &mut Out) {
        if !self.post.hears(from) {
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
                let sound = self.is_list(origin, &told) && self.post.group.may_lead(leader);
                if sound && self.takes(now, from, lap, out) {
                    self.coordinator(now, origin, leader, told, out);
                }
            }
            Message::Ack { lap, term } => self.acknowledged(now, lap, term, out),
            Message::Heartbeat { term } => self.heartbeat(now, from, term, out),
            Message::Refused { term } if term > self.post.term => self.adopt(now, term, out),
            Message::Refused { .. } => {}
        }
    }

    /// Whether that can be the list of a lap: members only, none twice, the origin first.
    fn is_list(&self, origin: NodeId, ids: &[NodeId]) -> bool {
        // The length first: it bounds the work of the rest.
        ids.len() <= self.post.group.size()
            && ids.first() == Some(&origin)
            && ids
                .iter()
                .enumerate()
                .all(|(at, id)| self.post.group.member(*id).is_some() && !ids[..at].contains(id))
    }

    /// Answers a lap, and says whether it goes on: not if it is of an older term.
    fn takes(&mut self, now: Moment, from: NodeId, lap: Lap, out: &mut Out) -> bool {
        if lap.term > self.post.term {
            self.adopt(now, lap.term, out);
        }
        out.send.push(Envelope { to: from, message: Message::Ack { lap, term: self.post.term } });
        lap.term == self.post.term
    }

    fn election(&mut self, now: Moment, origin: NodeId, mut ids: Vec<NodeId>, out: &mut Out) {
        let back = ids.contains(&self.post.id);
        match self.post.office {
            Office::Leading { .. } => {
                if origin != self.post.id {
                    let message = Message::Heartbeat { term: self.post.term };
                    out.send.push(Envelope { to: origin, message });
                }
            }
            // The leader was heard since it was sent off.
            Office::Following(_) if back => {}
            Office::Arriving | Office::Idle | Office::Standing(()) if back => self.conclude(now, &ids, out),
            // Of two elections at once that of the higher origin goes on.
            Office::Standing(()) if origin < self.post.id => {}
            Office::Arriving | Office::Idle => {
                self.post.idle(now);
                ids.push(self.post.id);
                self.pass_on(now, Message::Election { term: self.post.term, origin, ids }, out);
            }
            Office::Following(_) | Office::Standing(()) => {
                ids.push(self.post.id);
                self.pass_on(now, Message::Election { term: self.post.term, origin, ids }, out);
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
        if told.contains(&self.post.id) {
            return;
        }
        match self.post.office {
            Office::Leading { .. } | Office::Following(_) if !self.believes(leader) => {}
            Office::Leading { .. } if leader == self.post.id => {}
            Office::Arriving | Office::Idle | Office::Following(_) | Office::Standing(())
                if leader == self.post.id =>
            {
                self.lead(now, out);
            }
            Office::Arriving
            | Office::Idle
            | Office::Following(_)
            | Office::Standing(())
            | Office::Leading { .. } => self.post.follow(now, leader, out),
        }
        told.push(self.post.id);
        self.pass_on(now, Message::Coordinator { term: self.post.term, origin, leader, told }, out);
    }

    fn heartbeat(&mut self, now: Moment, from: NodeId, term: Term, out: &mut Out) {
        if !self.post.group.may_lead(from) {
            return;
        }
        if term < self.post.term {
            out.send.push(Envelope { to: from, message: Message::Refused { term: self.post.term } });
            return;
        }
        if term > self.post.term {
            self.adopt(now, term, out);
        }
        if self.believes(from) {
            self.post.follow(now, from, out);
        }
    }

    /// Of two leaders of one term, the higher one is believed.
    fn believes(&self, leader: NodeId) -> bool {
        match self.post.office {
            Office::Arriving | Office::Idle | Office::Standing(()) => true,
            Office::Following(heard) => !self.post.group.outranks(heard, leader),
            Office::Leading { .. } => !self.post.group.outranks(self.post.id, leader),
        }
    }

    fn acknowledged(&mut self, now: Moment, lap: Lap, term: Term, out: &mut Out) {
        self.hops.retain(|hop| hop.message.lap() != Some(lap));
        if term <= self.post.term {
            return;
        }
        // What this member passed on is of an older term. It may be the only one who knows: it begins anew.
        let leads_on = matches!(self.post.office, Office::Leading { .. } | Office::Following(_));
        self.adopt(now, term, out);
        if !lap.coordinator && !leads_on {
            self.stand(now, out);
        }
    }
}
