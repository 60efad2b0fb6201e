//! What the shell asks of a member: to hand over.

use baton_election::Moment;

use super::{Bully, BullyRole, HandOver, Message, Out};
use crate::{Envelope, LossCause, Member, NodeId, Notice, rank_election};

impl Bully {
    pub(super) fn transfer(&mut self, to: Option<NodeId>, out: &mut Out) {
        let refusal = match self.member.role {
            BullyRole::Leading { hand_over: Some(_) } => Some("it hands over already"),
            BullyRole::Leading { hand_over: None } if self.heirs(None).next().is_none() => {
                Some("nobody else may lead")
            }
            BullyRole::Leading { hand_over: None } if to.is_some_and(|to| !self.may_succeed(to)) => {
                Some("Bully elects by rank: only the next in rank, or one of a higher rank, can take over")
            }
            BullyRole::Leading { hand_over: None } => None,
            BullyRole::Arriving | BullyRole::Idle | BullyRole::Following(_) | BullyRole::Standing(_) => {
                Some("only the leader can hand over")
            }
        };
        if let Some(refusal) = refusal {
            out.notify.push(Notice::Refused(refusal));
            return;
        }
        self.member.role = BullyRole::Leading { hand_over: Some(HandOver { to }) };
        out.notify.push(Notice::Stop { term: self.member.term });
    }

    /// The work has stopped: only then may the leader ask another to lead. The leader does not know which
    /// members are there, so it asks all that may lead: the highest of those that are there wins, as in any
    /// election.
    pub(super) fn stopped(&mut self, now: Moment, out: &mut Out) {
        let BullyRole::Leading { hand_over: Some(HandOver { to }) } = self.member.role else { return };
        let message = Message::Resign { term: self.member.term };
        out.send.extend(self.heirs(to).map(|member| Envelope { to: member.id, message }));
        self.member.lose(LossCause::HandedOver, out);
        self.aside = true;
        self.member.idle(now);
    }

    /// Whether that one can lead next: the best of those below, or one above that let this member lead.
    fn may_succeed(&self, to: NodeId) -> bool {
        let below = self.heirs(None).filter(|member| self.member.group.outranks(self.member.id, member.id));
        self.is_outranked_by(to) || rank_election::best(below).is_some_and(|best| best.id == to)
    }

    /// Those that are asked to lead next: whoever is named and all below it; if nobody is named, everybody else.
    fn heirs(&self, named: Option<NodeId>) -> impl Iterator<Item = &Member> {
        let is_passed_over =
            move |member: &Member| named.is_some_and(|to| self.member.group.outranks(member.id, to));
        let others = self
            .member
            .group
            .members()
            .iter()
            .filter(|member| member.id != self.member.id && !member.witness);
        others.filter(move |member| !is_passed_over(member))
    }
}
