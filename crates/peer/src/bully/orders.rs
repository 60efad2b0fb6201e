//! What the shell asks of a member: to hand over, and to take another list of members.

use alloc::vec::Vec;

use baton_election::Moment;

use super::{Bully, Message, Office, Out};
use crate::{Envelope, Member, NodeId, Notice, Why, told};

impl Bully {
    pub(super) fn transfer(&mut self, to: Option<NodeId>, out: &mut Out) {
        let next = self.next_in_rank();
        let refusal = match self.office {
            Office::Leading { stopping: true } => Some("it hands over already"),
            Office::Leading { stopping: false } if next.is_none() => Some("nobody else may lead"),
            Office::Leading { stopping: false } if to.is_some() && to != next => {
                Some("Bully elects by rank: only the next in rank can take over")
            }
            Office::Leading { stopping: false } => None,
            Office::Arriving | Office::Idle | Office::Following(_) | Office::Asking | Office::Answered => {
                Some("only the leader can hand over")
            }
        };
        if let Some(refusal) = refusal {
            out.notify.push(Notice::Refused(refusal));
            return;
        }
        self.office = Office::Leading { stopping: true };
        out.notify.push(Notice::Stop { term: self.term });
    }

    /// The work has stopped: only then may somebody else be asked to lead.
    pub(super) fn stopped(&mut self, now: Moment, out: &mut Out) {
        if self.office != (Office::Leading { stopping: true }) {
            return;
        }
        let message = Message::Resign { term: self.term };
        out.send.extend(self.next_in_rank().map(|to| Envelope { to, message }));
        self.lose(Why::HandedOver, out);
        self.aside = true;
        self.idle(now);
    }

    pub(super) fn reconfigure(&mut self, now: Moment, members: Vec<Member>, out: &mut Out) {
        match told::next_list(&self.group, self.term, members) {
            Ok(group) => self.group = group,
            Err(refusal) => {
                out.notify.push(Notice::Refused(refusal));
                return;
            }
        }
        self.keep(out);
        out.notify.push(Notice::Members(self.group.clone()));
        let may_lead = self.group.may_lead(self.id);
        match self.office {
            Office::Leading { .. } if !may_lead => {
                self.lose(Why::Removed, out);
                self.idle(now);
            }
            Office::Asking | Office::Answered if !may_lead => self.idle(now),
            Office::Following(leader) if !self.group.may_lead(leader) => {
                self.forget_leader(out);
                self.idle(now);
            }
            Office::Arriving
            | Office::Idle
            | Office::Following(_)
            | Office::Asking
            | Office::Answered
            | Office::Leading { .. } => {}
        }
    }

    /// Who would lead if this member were not there.
    fn next_in_rank(&self) -> Option<NodeId> {
        told::best(self.group.members().iter().filter(|member| member.id != self.id)).map(|member| member.id)
    }
}
