//! What the shell asks of a member: to hand over.

use baton_election::Moment;

use super::{Office, Out, Ring};
use crate::{NodeId, Notice, Why, told};

impl Ring {
    pub(super) fn transfer(&mut self, to: Option<NodeId>, out: &mut Out) {
        match self.post.office {
            Office::Leading { hand_over: Some(_) } => {
                out.notify.push(Notice::Refused("it hands over already"))
            }
            Office::Leading { hand_over: None } => match self.choose(to) {
                Ok(successor) => {
                    self.post.office = Office::Leading { hand_over: Some(successor) };
                    out.notify.push(Notice::Stop { term: self.post.term });
                }
                Err(refusal) => out.notify.push(Notice::Refused(refusal)),
            },
            Office::Arriving | Office::Idle | Office::Following(_) | Office::Standing(()) => {
                out.notify.push(Notice::Refused("only the leader can hand over"));
            }
        }
    }

    /// Who shall lead next, whether it is there or not: the one that was named, or the best of those below. Whoever is above and
    /// there would lead, unless it has handed over itself.
    fn choose(&self, to: Option<NodeId>) -> Result<NodeId, &'static str> {
        match to {
            Some(to) if to == self.post.id => Err("it leads already"),
            Some(to) if self.post.group.may_lead(to) => Ok(to),
            Some(_) => Err("that is no member that may lead"),
            None => {
                let others = || self.post.group.members().iter().filter(|member| member.id != self.post.id);
                told::best(others().filter(|member| self.post.group.outranks(self.post.id, member.id)))
                    .or_else(|| told::best(others()))
                    .map(|member| member.id)
                    .ok_or("nobody else may lead")
            }
        }
    }

    /// The work has stopped: only then is somebody else named.
    pub(super) fn stopped(&mut self, now: Moment, out: &mut Out) {
        let Office::Leading { hand_over: Some(successor) } = self.post.office else {
            return;
        };
        // The list may have changed while the work was stopping.
        let successor = self.choose(Some(successor)).or_else(|_| self.choose(None));
        self.post.lose(Why::HandedOver, out);
        match successor {
            Ok(successor) => {
                self.raise(told::after(self.post.term), out);
                self.appoint(now, successor, out);
            }
            Err(_) => self.post.idle(now),
        }
    }
}
