//! What the shell asks of a member: to hand over.

use baton_election::Moment;

use super::{Out, Ring, RingRole};
use crate::{LossCause, NodeId, Notice, rank_election};

impl Ring {
    pub(super) fn transfer(&mut self, to: Option<NodeId>, out: &mut Out) {
        match self.member.role {
            RingRole::Leading { hand_over: Some(_) } => {
                out.notify.push(Notice::Refused("it hands over already"))
            }
            RingRole::Leading { hand_over: None } => match self.choose(to) {
                Ok(successor) => {
                    self.member.role = RingRole::Leading { hand_over: Some(successor) };
                    out.notify.push(Notice::Stop { term: self.member.term });
                }
                Err(refusal) => out.notify.push(Notice::Refused(refusal)),
            },
            RingRole::Arriving | RingRole::Idle | RingRole::Following(_) | RingRole::Standing(()) => {
                out.notify.push(Notice::Refused("only the leader can hand over"));
            }
        }
    }

    /// Who shall lead next, whether it is there or not: the one that was named, or the best of those below. Whoever is above and
    /// there would lead, unless it has handed over itself.
    fn choose(&self, to: Option<NodeId>) -> Result<NodeId, &'static str> {
        match to {
            Some(to) if to == self.member.id => Err("it leads already"),
            Some(to) if self.member.group.may_lead(to) => Ok(to),
            Some(_) => Err("that is no member that may lead"),
            None => {
                let others =
                    || self.member.group.members().iter().filter(|member| member.id != self.member.id);
                rank_election::best(
                    others().filter(|member| self.member.group.outranks(self.member.id, member.id)),
                )
                .or_else(|| rank_election::best(others()))
                .map(|member| member.id)
                .ok_or("nobody else may lead")
            }
        }
    }

    /// The work has stopped: only then is somebody else named.
    pub(super) fn stopped(&mut self, now: Moment, out: &mut Out) {
        let RingRole::Leading { hand_over: Some(successor) } = self.member.role else {
            return;
        };
        // The list may have changed while the work was stopping.
        let successor = self.choose(Some(successor)).or_else(|_| self.choose(None));
        self.member.lose(LossCause::HandedOver, out);
        match successor {
            Ok(successor) => {
                self.raise(rank_election::after(self.member.term), out);
                self.appoint(now, successor, out);
            }
            Err(_) => self.member.idle(now),
        }
    }
}
