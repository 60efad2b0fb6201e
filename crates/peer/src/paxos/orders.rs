//! What is asked of a leader: to hand over, and to change the members.

use alloc::vec::Vec;

use baton_election::Moment;

use super::leader::{Ending, Leadership};
use super::{Message, Out, Paxos, Phase, say};
use crate::members::{self, Spread};
use crate::pending_members::{self, Readiness};
use crate::{LossCause, Member, NodeId, Notice, Tally};

impl Paxos {
    /// Stops the work, so that another one can lead.
    pub(super) fn transfer(&mut self, to: Option<NodeId>, out: &mut Out) {
        if let Err(why) = self.check_transfer(to) {
            return out.notify.push(Notice::Refused(why));
        }
        self.begin_ending(to, LossCause::HandedOver, out);
    }

    fn check_transfer(&self, to: Option<NodeId>) -> Result<(), &'static str> {
        let lead = self.led()?;
        let group = &self.saved.group;
        if lead.ending.is_some() {
            return Err("the leadership is being handed over already");
        }
        let Some(to) = to else {
            return self.successor().map(drop).ok_or("no other member that may lead has answered lately");
        };
        if to == self.id {
            return Err("that member leads already");
        }
        match group.member(to) {
            None => Err("that is no member of the group"),
            Some(member) if member.witness => Err("a witness never leads"),
            Some(_) if !lead.has_answered_lately(group, to) => Err("that member has not answered lately"),
            Some(_) => Ok(()),
        }
    }

    /// This member's leadership while it lasts, or what to say to those who want something of a leader.
    fn led(&self) -> Result<&Leadership, &'static str> {
        match &self.phase {
            Phase::Proposing(lead) if lead.until.is_some() => Ok(lead),
            Phase::Proposing(_) | Phase::Idle | Phase::Asking(_) | Phase::Preparing(_) => {
                Err("this member does not lead; ask the one that does")
            }
        }
    }

    /// The best of those that could take over at once.
    fn successor(&self) -> Option<NodeId> {
        let lead = self.led().ok()?;
        let group = &self.saved.group;
        let able = group.members().iter().filter(|member| {
            !member.witness && member.id != self.id && lead.has_answered_lately(group, member.id)
        });
        able.max_by_key(|member| member.rank()).map(|member| member.id)
    }

    pub(super) fn begin_ending(&mut self, to: Option<NodeId>, why: LossCause, out: &mut Out) {
        let Phase::Proposing(lead) = &mut self.phase else { return };
        if lead.ending.is_none() {
            lead.ending = Some(Ending { to, why });
            out.notify.push(Notice::Stop { term: lead.token });
        }
    }

    /// The work has stopped: the leadership ends, and the successor may stand.
    pub(super) fn stopped(&mut self, now: Moment, out: &mut Out) {
        let best = self.successor();
        let Phase::Proposing(lead) = &mut self.phase else { return };
        let Some(ending) = lead.ending.take() else { return };
        let released = lead.token;
        let wanted = ending.to.filter(|to| lead.has_answered_lately(&self.saved.group, *to));
        if let Some(to) = wanted.or(best) {
            say(to, Message::HandOver { released }, out);
        }
        self.end_phase(now, ending.why, out);
    }

    /// Changes the list of members by one.
    pub(super) fn reconfigure(&mut self, now: Moment, list: Vec<Member>, out: &mut Out) {
        let lately = self.timing.timeout_min;
        let changed = self.led().and_then(|lead| {
            if lead.ending.is_some() {
                return Err("the leadership is being handed over; ask the next leader");
            }
            // Instances of the former list must be chosen under this one before the next step.
            let unsettled = Spread::default();
            let is_ready = lead.is_settled && lead.raise.is_none();
            let spread = if is_ready { &lead.spread } else { &unsettled };
            let group = &self.saved.group;
            let next = members::changed(group, spread, lead.token, list)?;
            let joins = next.members().iter().find(|member| group.member(member.id).is_none());
            let ready =
                joins.map(|member| lead.pending_members.ready(now, member.id, lately, lead.confirmed));
            let applicant = match ready {
                Some(Readiness::Yes(applicant)) => joins.map(|member| (member.id, applicant)),
                Some(Readiness::Unheard) | None => None,
                Some(Readiness::Early) => return Err(pending_members::EARLY),
            };
            let is_heard = |id| {
                let is_guest = applicant.is_some_and(|(applicant, _)| applicant == id);
                id == self.id || is_guest || lead.has_answered_lately(group, id)
            };
            if !members::keeps_majority(group, &next, is_heard) {
                return Err("too few of these members were heard lately; take out first who is gone");
            }
            Ok((next, applicant))
        });
        let (next, applicant) = match changed {
            Ok(changed) => changed,
            Err(why) => return out.notify.push(Notice::Refused(why)),
        };
        out.notify.push(Notice::Members(next.clone()));
        self.saved.group = next;
        self.unsaved = true;
        let Phase::Proposing(lead) = &mut self.phase else { return };
        // Places in the list have moved, so nothing that was counted before means anything.
        lead.accepted = Tally::NONE;
        lead.rounds.forget();
        lead.confirmed = None;
        lead.spread = Spread::begun(&self.saved.group, self.id);
        lead.is_settled = false;
        if let Some((id, applicant)) = applicant {
            // It need not ask once more: the new list may need its answer soon.
            self.saved.admitted.add(&applicant);
            self.hear_ask(now, id, &applicant.ask, out);
        }
        let Phase::Proposing(lead) = &self.phase else { return };
        match (lead.is_chosen, lead.vote) {
            (true, _) => self.open_next(now, out),
            (false, vote) => self.open(now, vote, out),
        }
    }
}
