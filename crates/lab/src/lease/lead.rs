//! A leadership: its beginning, its renewals, its work, its end.

use baton_election::{Epoch, Moment, Span, Tenure, TenureState};

use super::agent::{Lead, RequestKind};
use super::{Event, LeaseWorld, small};
use crate::invariants::{Backing, Fact};
use crate::timeline::EventKind;

impl LeaseWorld<'_> {
    /// The lease is granted; the work begins if there is any of it left.
    pub(super) fn granted(&mut self, place: usize, epoch: Epoch, ttl: Span, asked_at: Moment) {
        let margins = self.setup.timing.margins;
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        let mut tenure = Tenure::granted(asked_at, ttl, margins);
        if tenure.standing(now) == TenureState::Lost {
            // It was heard of too late to be used; nothing was done under it.
            agent.leaving = Some(epoch);
            agent.next_at = now;
            return;
        }
        agent.believed = Some(small(place));
        agent.next_at = tenure.renew_at();
        let until = agent.host.clock.when(tenure.deadline());
        let number = self.ledger.leads(small(place), epoch.0, until, Backing::BY_A_STORE);
        self.agents[place].lead = Some(Lead { tenure, epoch, number, leaving: false });
        self.queue.put(self.now, Event::Works { place: small(place), number });
    }

    /// A renewal was answered.
    pub(super) fn renewed(&mut self, place: usize, epoch: Epoch, asked_at: Moment) {
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        let Some(lead) = &mut agent.lead else { return };
        let ended = now >= lead.tenure.deadline();
        let standing = lead.tenure.renewed(asked_at, now);
        if standing == TenureState::Lost {
            return self.lose(place, "a renewal was answered after the deadline");
        }
        lead.epoch = epoch;
        agent.next_at = lead.tenure.renew_at().max(now);
        let (number, until) = (lead.number, agent.host.clock.when(lead.tenure.deadline()));
        self.ledger.see(&Fact::Extended { place: small(place), term: epoch.0, ended });
        self.ledger.extended(number, until);
    }

    /// It is over: the work stops, and the agent stands again under a new name.
    pub(super) fn lose(&mut self, place: usize, why: &'static str) {
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        let Some(mut lead) = agent.lead.take() else { return };
        lead.tenure.end();
        agent.begin_anew(place, now);
        self.ledger.ended(lead.number);
        self.ledger.note(Some(small(place)), || EventKind::Told(why.to_string()));
    }

    /// A leader writes, and will again.
    pub(super) fn work(&mut self, place: usize, number: u64) {
        let agent = &self.agents[place];
        let now = agent.host.clock.at(self.now);
        let Some(lead) = agent.lead.as_ref().filter(|lead| lead.number == number) else { return };
        if !self.ledger.acts(number) || lead.leaving {
            return;
        }
        if !agent.host.paused && lead.tenure.ensures(now, Span::ZERO) {
            // The check is made, then the write is under way for as long as the network likes.
            let token = lead.epoch;
            let delay = self.network.delay(&mut self.random).as_nanos();
            self.queue.put(self.now + delay, Event::Writes { place: small(place), token, number });
        }
        let every = self.setup.write_every.as_nanos();
        let next = self.now + self.random.between(every / 2, every + every / 2);
        self.queue.put(next, Event::Works { place: small(place), number });
    }

    /// The leader is asked to leave: its work stops first.
    pub(super) fn hand_over(&mut self, to: Option<u8>) {
        let Some(place) = self.ledger.leader() else { return };
        let Some(lead) = &mut self.agents[usize::from(place)].lead else { return };
        lead.leaving = true;
        let (number, takes) = (lead.number, self.random.below(self.setup.stop_takes.as_nanos()));
        self.queue.put(self.now + takes, Event::Stopped { place, number, to });
    }

    /// Its work has stopped: it gives the lease back.
    pub(super) fn stopped(&mut self, place: usize, number: u64, to: Option<u8>) {
        let agent = &mut self.agents[place];
        let now = agent.host.clock.at(self.now);
        let Some(lead) = agent.lead.take_if(|lead| lead.number == number) else { return };
        self.ledger.ended(number);
        agent.leaving = Some(lead.epoch);
        agent.request = None;
        let to = to.filter(|to| usize::from(*to) < self.agents.len() && usize::from(*to) != place);
        if self.agents[place].host.paused {
            self.agents[place].next_at = now;
        } else {
            self.ask(place, RequestKind::Leave(to), now);
            self.set_alarm(place);
        }
    }
}
