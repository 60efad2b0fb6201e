//! What a leader does: it writes to a guarded resource, until it is told to stop or its own clock says so.

use baton_election::Moment;
use baton_peer::{Input, Machine, Member as Listed, Notice, Term};

use super::member::Work;
use super::{Event, World, node, place_of, small};
use crate::fault::DiskFate;
use crate::invariants::Backing;
use crate::timeline::EventKind;

impl<M: Machine> World<'_, M> {
    /// The machine tells who does the work.
    pub(super) fn tell(&mut self, place: usize, notice: Notice) {
        self.ledger.note(Some(small(place)), || EventKind::Told(format!("{notice:?}")));
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
        let end = until.map_or(u64::MAX, |until| member.host.clock.when(until));
        if end <= self.now {
            // It was told too late: the work does not begin.
            return;
        }
        let backing = backing(member.group().members(), place, member.heard.places);
        let number = self.ledger.leads(small(place), term.0, end, backing);
        self.members[place].work = Some(Work { number, term, until });
        self.queue.put(self.now, Event::Works { place: small(place), number });
    }

    fn extend(&mut self, place: usize, term: Term, until: Moment) {
        let member = &mut self.members[place];
        let Some(work) = member.work.as_mut().filter(|work| work.term == term) else { return };
        let was = work.until.map_or(u64::MAX, |until| member.host.clock.when(until));
        if was <= self.now {
            // The work has stopped by its own clock before this was told, and does not begin again in this term. A machine that leads
            // without anybody at work helps nobody: the process gives up and starts anew.
            let heartbeat = self.setup.timing.heartbeat;
            return self.crash(place, DiskFate::Kept, false, heartbeat);
        }
        work.until = Some(until);
        let (number, end) = (work.number, member.host.clock.when(until));
        self.ledger.extended(number, end);
    }

    /// A leader writes, and will again.
    pub(super) fn work(&mut self, place: usize, number: u64) {
        if !self.ledger.acts(number) {
            return;
        }
        let every = self.setup.write_every.as_nanos();
        let Some(work) = self.members[place].work.filter(|work| work.number == number) else { return };
        if !self.members[place].host.paused {
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

/// What the leadership of a place rests on that has heard those places, a bit for each. Counted here: that the machines count right is what
/// is asked. Only members of the list count, and itself only if it is one.
fn backing(list: &[Listed], place: usize, heard: u128) -> Backing {
    let is_heard = |listed: &&Listed| {
        let other = place_of(listed.id);
        other == place || other < 128 && heard & (1 << other) != 0
    };
    Backing {
        heard: list.iter().filter(is_heard).count(),
        majority: list.len() / 2 + 1,
        may_lead: list.iter().any(|listed| listed.id == node(place) && !listed.witness),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_count_for_a_majority() {
        let mut list: Vec<Listed> = (0..3).map(|place| Listed::plain(node(place))).collect();
        let heard = |place: usize, others: u128| backing(&list, place, others).heard;
        assert_eq!(heard(0, 0b1000), 1, "the fourth is a spare");
        assert_eq!(heard(0, 0b1011), 2);
        assert_eq!(
            (heard(3, 0b0010), backing(&list, 3, 0b0111).may_lead),
            (1, false),
            "it is no member itself"
        );
        list[2].witness = true;
        assert_eq!([0, 2].map(|place| backing(&list, place, 0).may_lead), [true, false]);
    }
}
