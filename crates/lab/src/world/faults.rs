//! What goes wrong in a group, and how it heals.

use baton_election::Span;
use baton_peer::memory_recovery::needed;
use baton_peer::{Input, Machine};

use super::member::Work;
use super::{Event, World, listed, node, place_of, small};
use crate::fault::{DiskFate, Fault, FaultTarget};
use crate::host::Orphan;
use crate::network::Links;
use crate::timeline::EventKind;

impl<M: Machine> World<'_, M> {
    /// Something goes wrong.
    pub(super) fn strike(&mut self, fault: &Fault) {
        self.ledger.note(None, || EventKind::Fault(fault.to_string()));
        match fault {
            Fault::Cut(links) => self.set_links(links.clone()),
            Fault::Mend => self.mend_links(),
            Fault::Network(network) => self.network = *network,
            Fault::Isolate { target, outbound, inbound } => {
                self.befall(*target, |world, place| world.isolate(place, *outbound, *inbound));
            }
            Fault::Crash { target, disk, reboot, down } => {
                self.befall(*target, |world, place| world.crash(place, *disk, *reboot, *down));
            }
            Fault::Pause { target, span } => self.befall(*target, |world, place| world.pause(place, *span)),
            Fault::Rate { target, drift_ppm } => {
                self.befall(*target, |world, place| world.set_rate(place, *drift_ppm));
            }
            Fault::WallJump { target, by_ms } => {
                self.befall(*target, |world, place| world.members[place].host.clock.jump_wall(*by_ms));
            }
            Fault::SlowDisk { target, span, each } => self.befall(*target, |world, place| {
                world.members[place].slow_disk = (world.now + span.as_nanos(), *each);
            }),
            Fault::HandOver { to } => self.hand_over(*to),
            // Bully and Ring assume that all have the same list, and change it only where they are told.
            Fault::Members { place } if M::TERMS_ARE_TOKENS => self.change_members(usize::from(*place)),
            Fault::Alter { place, priority } if M::TERMS_ARE_TOKENS => {
                self.alter(usize::from(*place), *priority)
            }
            Fault::Waits { place } if M::TERMS_ARE_TOKENS => self.first_start(usize::from(*place)),
            Fault::Waits { .. } | Fault::Members { .. } | Fault::Alter { .. } => {}
            // There is no store here.
            Fault::Depose | Fault::StoreDown { .. } | Fault::StoreRestart => {}
        }
    }

    /// Something goes wrong at a place, if there is such a one.
    fn befall(&mut self, target: FaultTarget, blow: impl FnOnce(&mut Self, usize)) {
        if let Some(place) = target.among(self.members.len(), self.leader()) {
            blow(self, place);
        }
    }

    fn isolate(&mut self, place: usize, outbound: bool, inbound: bool) {
        self.strike_leader(place);
        let mut links = self.links.clone();
        links.isolate(place, outbound, inbound);
        self.set_links(links);
    }

    /// The place that leads, if its process is up.
    fn leader(&self) -> Option<u8> {
        let works = |place: usize, number| {
            let work = self.members.get(place).and_then(|member| member.work);
            work.is_some_and(|work| work.number == number)
        };
        self.ledger.leader_that(works)
    }

    /// If that one leads, a fail-over is measured from here on.
    fn strike_leader(&mut self, place: usize) {
        let clock = &self.members[place].host.clock;
        let full = clock.when(self.setup.timing.lease_until(clock.at(self.now)));
        self.ledger.strike(small(place), full);
    }

    fn set_links(&mut self, links: Links) {
        self.ledger.relinked(&self.links, &links);
        self.links = links;
    }

    fn mend_links(&mut self) {
        self.set_links(Links::whole(self.members.len()));
        for (place, member) in self.members.iter().enumerate() {
            if !member.host.paused {
                self.ledger.recovers(small(place));
            }
        }
    }

    /// A process dies. What its disk was just writing is there or not.
    pub(super) fn crash(&mut self, place: usize, disk: DiskFate, reboot: bool, down: Span) {
        if self.members[place].machine.is_none() {
            return;
        }
        self.strike_leader(place);
        let may_lose = disk == DiskFate::Lost && self.may_lose_disk(place);
        let written = self.random.below(2) == 0;
        let member = &mut self.members[place];
        let Some(machine) = member.machine.take() else { return };
        member.last_group = machine.group().clone();
        if let Some(pending) = member.busy.take()
            && written
            && let Some(saved) = pending.effects.persist
        {
            member.saved = Some(saved);
        }
        if may_lose {
            (member.saved, member.founds) = (None, false);
            member.lost = Some(member.last_group.clone());
        }
        member.waiting.clear();
        member.host.paused = false;
        member.host.alarm_at = u64::MAX;
        let life = member.host.life;
        let work = member.work.take();
        // Work whose process died goes on until its own clock stops it: only a lease ends it. Without one, or with its machine, it dies.
        match work {
            Some(Work { number, until: Some(until), .. }) if !reboot => {
                member.host.orphan = Some(Orphan { number, until });
                self.ledger.stands_still(number, false);
            }
            Some(work) => self.ledger.ended(work.number),
            None => {}
        }
        if reboot && let Some(orphan) = self.members[place].host.reboot(self.now, &mut self.random) {
            self.ledger.ended(orphan.number);
        }
        self.ledger.note(Some(small(place)), || EventKind::Crashed);
        let back = Event::Restarts { place: small(place), life };
        self.queue.put(self.now + down.as_nanos(), back);
    }

    /// A member that has forgotten needs enough others that have not. If too many members lose their
    /// disks at once, the group never has a leader again.
    fn may_lose_disk(&self, place: usize) -> bool {
        if self.group().member(node(place)).is_none() {
            return self.setup.outsiders_may_forget;
        }
        let group = self.group();
        if self.setup.outsiders_may_forget && !self.setup.any_disk_may_go {
            // Where lists change all the time, who has the same members need not have the same list.
            let knows = |place: usize| {
                let member = &self.members[place];
                (member.saved.is_some() || member.founds) && member.group().stamp() == group.stamp()
            };
            let others = group.others(node(place)).filter(|id| knows(place_of(*id))).count();
            return others >= needed(group).max(1);
        }
        let at_least = if self.setup.any_disk_may_go { 1 } else { needed(group).max(1) };
        // What is about to be remembered may yet be lost.
        let (forgotten, remember) = self.memories(|_| false);
        remember > at_least && forgotten + 1 + at_least <= group.size()
    }

    fn pause(&mut self, place: usize, span: Span) {
        let member = &self.members[place];
        if member.machine.is_none() || member.host.paused {
            return;
        }
        self.strike_leader(place);
        let member = &mut self.members[place];
        let pause = member.host.stand_still();
        if let Some(work) = member.work {
            self.ledger.stands_still(work.number, true);
        }
        self.set_alarm(place);
        self.ledger.note(Some(small(place)), || EventKind::Paused);
        self.queue.put(self.now + span.as_nanos(), Event::Resumes { place: small(place), pause });
    }

    /// A pause ends: what it was about to do is done, then what waits.
    pub(super) fn resume(&mut self, place: usize, pause: u32) {
        let member = &mut self.members[place];
        if !member.host.go_on(pause) {
            return;
        }
        if let Some(work) = member.work {
            self.ledger.stands_still(work.number, false);
        }
        self.ledger.note(Some(small(place)), || EventKind::Resumed);
        let member = &self.members[place];
        if member.busy.as_ref().is_some_and(|pending| pending.done) {
            self.kept(place, self.members[place].host.life);
        } else {
            self.catch_up(place);
        }
        if self.links.is_whole() {
            self.ledger.recovers(small(place));
        }
    }

    fn set_rate(&mut self, place: usize, drift_ppm: i32) {
        let member = &mut self.members[place];
        member.host.clock.set_rate(self.now, drift_ppm);
        let work = member.work.and_then(|work| work.until.map(|until| (work.number, until)));
        let orphan = member.host.orphan.map(|orphan| (orphan.number, orphan.until));
        for (number, until) in [work, orphan].into_iter().flatten() {
            self.ledger.moved(number, member.host.clock.when(until));
        }
        self.set_alarm(place);
    }

    fn hand_over(&mut self, to: Option<u8>) {
        let Some(place) = self.leader().map(usize::from) else { return };
        if self.members[place].is_free() {
            let to = to.map(|to| node(usize::from(to) % self.members.len())).filter(|to| *to != node(place));
            self.step(place, Input::Transfer { to });
            self.set_alarm(place);
        }
    }

    /// A spare place joins, or a member leaves, through the leader.
    fn change_members(&mut self, place: usize) {
        let place = place % self.members.len();
        let Some(leader) = self.leader().map(usize::from) else { return };
        if !self.members[leader].is_free() {
            return;
        }
        let current = self.members[leader].group().members();
        let mut next = current.to_vec();
        match current.iter().position(|member| member.id == node(place)) {
            // Of two nobody can forget: who is left is told too little, or remembers alone.
            Some(_) if self.setup.outsiders_may_forget && current.len() <= 3 => return,
            Some(at) => drop(next.remove(at)),
            None => next.push(listed(self.setup, place)),
        }
        self.first_start(place);
        self.reconfigure(leader, next);
    }

    /// A place at which nobody ever was is taken.
    fn first_start(&mut self, place: usize) {
        let place = place % self.members.len();
        if self.members[place].machine.is_none() && self.members[place].host.life == 0 {
            self.start(place, 0);
        }
    }

    /// A member gets another priority, or becomes a witness or none, through the leader.
    fn alter(&mut self, place: usize, priority: Option<u8>) {
        let Some(leader) = self.leader().map(usize::from) else { return };
        if !self.members[leader].is_free() {
            return;
        }
        let mut next = self.members[leader].group().members().to_vec();
        let Some(member) = next.iter_mut().find(|member| member.id == node(place)) else { return };
        match priority {
            Some(priority) => member.priority = priority,
            None => member.witness = !member.witness,
        }
        self.reconfigure(leader, next);
    }

    /// The leader is given another list, unless nobody could lead by it.
    fn reconfigure(&mut self, leader: usize, members: Vec<baton_peer::Member>) {
        if !members.iter().all(|member| member.witness) {
            self.step(leader, Input::Reconfigure { members });
            self.set_alarm(leader);
        }
    }

    /// All faults end at once.
    pub(super) fn mend_all(&mut self) {
        self.healed = true;
        self.set_links(Links::whole(self.members.len()));
        self.network = self.setup.calm;
        for place in 0..self.members.len() {
            let member = &mut self.members[place];
            member.slow_disk = (0, Span::ZERO);
            let (pause, life) = (member.host.pause(), member.host.life);
            if let Some(pause) = pause {
                self.resume(place, pause);
            }
            if life > 0 && self.members[place].machine.is_none() {
                self.start(place, life);
            }
        }
    }
}
