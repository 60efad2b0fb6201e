//! What the shell asks of a member: to hand over, and to take another list of members.

use alloc::vec::Vec;

use baton_election::Moment;

use super::{Office, Out, Ring};
use crate::{Member, NodeId, Notice, Why, told};

impl Ring {
    pub(super) fn transfer(&mut self, to: Option<NodeId>, out: &mut Out) {
        match self.office {
            Office::Leading { successor: Some(_) } => {
                out.notify.push(Notice::Refused("it hands over already"))
            }
            Office::Leading { successor: None } => match self.choose(to) {
                Ok(successor) => {
                    self.office = Office::Leading { successor: Some(successor) };
                    out.notify.push(Notice::Stop { term: self.term });
                }
                Err(refusal) => out.notify.push(Notice::Refused(refusal)),
            },
            Office::Arriving | Office::Idle | Office::Following(_) | Office::Standing => {
                out.notify.push(Notice::Refused("only the leader can hand over"));
            }
        }
    }

    /// Who shall lead next: the one that was named, or the best of the others, whether it is there or not.
    fn choose(&self, to: Option<NodeId>) -> Result<NodeId, &'static str> {
        match to {
            Some(to) if to == self.id => Err("it leads already"),
            Some(to) if self.group.may_lead(to) => Ok(to),
            Some(_) => Err("that is no member that may lead"),
            None => told::best(self.group.members().iter().filter(|member| member.id != self.id))
                .map(|member| member.id)
                .ok_or("nobody else may lead"),
        }
    }

    /// The work has stopped: only then is somebody else named.
    pub(super) fn stopped(&mut self, now: Moment, out: &mut Out) {
        let Office::Leading { successor: Some(successor) } = self.office else {
            return;
        };
        // The list may have changed while the work was stopping.
        let successor = self.choose(Some(successor)).or_else(|_| self.choose(None));
        self.lose(Why::HandedOver, out);
        match successor {
            Ok(successor) => {
                self.raise(told::after(self.term), out);
                self.appoint(now, successor, out);
            }
            Err(_) => self.idle(now),
        }
    }

    pub(super) fn reconfigure(&mut self, now: Moment, members: Vec<Member>, out: &mut Out) {
        match told::next_list(&self.group, self.term, members) {
            Ok(group) => self.group = group,
            Err(refusal) => {
                out.notify.push(Notice::Refused(refusal));
                return;
            }
        }
        // How many successors were tried counts places on the ring that was.
        self.hops.clear();
        self.keep(out);
        out.notify.push(Notice::Members(self.group.clone()));
        let may_lead = self.group.may_lead(self.id);
        match self.office {
            Office::Leading { .. } if !may_lead => {
                self.lose(Why::Removed, out);
                self.idle(now);
            }
            Office::Standing if !may_lead => self.idle(now),
            Office::Following(leader) if !self.group.may_lead(leader) => {
                self.forget_leader(out);
                self.idle(now);
            }
            Office::Arriving
            | Office::Idle
            | Office::Following(_)
            | Office::Standing
            | Office::Leading { .. } => {}
        }
    }
}
