//! What a leader does: it writes to a guarded resource, until it is told to stop or its own clock says so.

use baton_election::Moment;
use baton_peer::{Input, Machine, Notice, Term};

use super::member::Work;
use super::{Event, World, small};
use crate::fault::DiskFate;
use crate::timeline::What;

impl<M: Machine> World<'_, M> {
    /// The machine tells who does the work.
    pub(super) fn tell(&mut self, place: usize, notice: Notice) {
        self.ledger.note(Some(small(place)), || What::Told(format!("{notice:?}")));
        match notice {
            Notice::Leads { term, until } => self.lead(place, term, until),
            Notice::Extended { term, until } => self.extend(place, term, until),
            Notice::Stop { term } => {
                let Some(work) = self.members[place].work.filter(|work| work.term == term) else {
                    // It had stopped already, by its own clock.
                    self.queue.put(self.now, Event::Stopped { place: small(place), number: 0 });
                    return;
                };
                let takes = self.random.below(self.setup.stop_takes.as_nanos());
                self.queue.put(self.now + takes, Event::Stopped { place: small(place), number: work.number });
            }
            Notice::Lost { term, why: _ } => {
                if let Some(work) = self.members[place].work.take_if(|work| work.term == term) {
                    self.ledger.ended(work.number);
                }
            }
            Notice::Members(_) | Notice::Follows { .. } | Notice::Leaderless { .. } | Notice::Refused(_) => {}
        }
    }

    fn lead(&mut self, place: usize, term: Term, until: Option<Moment>) {
        let member = &mut self.members[place];
        if let Some(former) = member.work.take() {
            self.ledger.ended(former.number);
        }
        let end = until.map_or(u64::MAX, |until| member.clock.when(until));
        if end <= self.now {
            // It was told too late: the work does not begin.
            return;
        }
        let heard = 1 + (member.heard.places & !(1 << place)).count_ones() as usize;
        // Counted here: that the machines count right is what is asked.
        let majority = member.group().members().len() / 2 + 1;
        let number = self.ledger.leads(small(place), term.0, end, heard, majority);
        self.members[place].work = Some(Work { number, term, until });
        self.queue.put(self.now, Event::Works { place: small(place), number });
    }

    fn extend(&mut self, place: usize, term: Term, until: Moment) {
        let member = &mut self.members[place];
        let Some(work) = member.work.as_mut().filter(|work| work.term == term) else { return };
        let was = work.until.map_or(u64::MAX, |until| member.clock.when(until));
        if was <= self.now {
            // The work has stopped by its own clock before this was told, and does not begin again in this term. A machine that leads
            // without anybody at work helps nobody: the process gives up and starts anew.
            let heartbeat = self.setup.timing.heartbeat;
            return self.crash(place, DiskFate::Kept, false, heartbeat);
        }
        work.until = Some(until);
        let (number, end) = (work.number, member.clock.when(until));
        self.ledger.extended(number, end);
    }

    /// A leader writes, and will again.
    pub(super) fn work(&mut self, place: usize, number: u64) {
        if !self.ledger.acts(number) {
            return;
        }
        let every = self.setup.write_every.as_nanos();
        let Some(work) = self.members[place].work.filter(|work| work.number == number) else { return };
        if !self.members[place].paused {
            // The check is made, then the write is under way for as long as the network likes.
            let delay = self.network.delay(&mut self.random).as_nanos();
            let write = Event::Writes { place: small(place), token: work.term.0, number };
            self.queue.put(self.now + delay, write);
        }
        let next = self.now + self.random.between(every / 2, every + every / 2);
        self.queue.put(next, Event::Works { place: small(place), number });
    }

    /// Work has stopped, as it was asked to; the machine is told.
    pub(super) fn stopped(&mut self, place: usize, number: u64) {
        if self.members[place].work.take_if(|work| work.number == number).is_some() {
            self.ledger.ended(number);
        }
        let member = &self.members[place];
        if member.machine.is_none() {
            return;
        }
        if member.is_free() {
            self.step(place, Input::Stopped);
            self.set_alarm(place);
        } else {
            // The shell tells it as soon as it can.
            let later = self.now + self.setup.timing.heartbeat.as_nanos() / 10 + 1;
            self.queue.put(later, Event::Stopped { place: small(place), number });
        }
    }
}
