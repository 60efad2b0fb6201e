//! What goes wrong in a group, and how it heals.

use baton_election::Span;
use baton_peer::rollcall::needed;
use baton_peer::{Input, Machine};

use super::member::{Work, booted};
use super::{Event, World, node, small};
use crate::clock::Clock;
use crate::fault::{DiskFate, Fault, Whom};
use crate::network::Links;
use crate::timeline::What;

impl<M: Machine> World<'_, M> {
    /// Something goes wrong.
    pub(super) fn strike(&mut self, fault: &Fault) {
        self.ledger.note(None, || What::Fault(fault.to_string()));
        match fault {
            Fault::Cut(links) => self.set_links(links.clone()),
            Fault::Isolate { whom, outbound, inbound } => {
                let place = self.find(*whom);
                self.ledger.strike(small(place));
                let mut links = self.links.clone();
                links.isolate(place, *outbound, *inbound);
                self.set_links(links);
            }
            Fault::Mend => self.set_links(Links::whole(self.members.len())),
            Fault::Weather(network) => self.network = *network,
            Fault::Crash { whom, disk, reboot, down } => {
                let place = self.find(*whom);
                self.crash(place, *disk, *reboot, *down);
            }
            Fault::Pause { whom, span } => {
                let place = self.find(*whom);
                self.pause(place, *span);
            }
            Fault::Rate { whom, drift_ppm } => {
                let place = self.find(*whom);
                self.set_rate(place, *drift_ppm);
            }
            Fault::WallJump { whom, by_ms } => {
                let place = self.find(*whom);
                self.members[place].clock.jump_wall(*by_ms);
            }
            Fault::SlowDisk { whom, span, each } => {
                let place = self.find(*whom);
                self.members[place].slow_disk = (self.now + span.as_nanos(), *each);
            }
            Fault::HandOver { to } => self.hand_over(*to),
            // Bully and Ring assume that all have the same list, and change it only where they are told.
            Fault::Members { place } if M::TERMS_ARE_TOKENS => self.change_members(usize::from(*place)),
            Fault::Members { .. } => {}
            // There is no store here.
            Fault::Depose | Fault::StoreDown { .. } | Fault::StoreRestart => {}
        }
    }

    fn set_links(&mut self, links: Links) {
        let whole = links == Links::whole(self.members.len());
        if whole != (self.links == Links::whole(self.members.len())) {
            self.ledger.note(None, || What::Links { whole });
        }
        self.links = links;
    }

    fn find(&self, whom: Whom) -> usize {
        let places = self.members.len();
        match whom {
            Whom::Place(place) => usize::from(place) % places,
            Whom::Leader(otherwise) => usize::from(self.ledger.leader().unwrap_or(otherwise)) % places,
            Whom::Follower(first) => {
                let leader = self.ledger.leader().map(usize::from);
                let first = usize::from(first) % places;
                if Some(first) == leader { (first + 1) % places } else { first }
            }
        }
    }

    /// A process dies. What its disk was just writing is there or not.
    pub(super) fn crash(&mut self, place: usize, disk: DiskFate, reboot: bool, down: Span) {
        self.ledger.strike(small(place));
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
        member.paused = false;
        member.tick_at = u64::MAX;
        let life = member.life;
        let work = member.work.take();
        // Work whose process died goes on until its own clock stops it: only a lease ends it. Without one, or with its machine, it dies.
        let dies = |work: &Work| reboot || work.until.is_none();
        if let Some(work) = work.filter(dies) {
            self.ledger.ended(work.number);
        } else if work.is_some() {
            self.members[place].orphan = work;
        }
        if reboot {
            if let Some(orphan) = self.members[place].orphan.take() {
                self.ledger.ended(orphan.number);
            }
            let boot = booted(&mut self.random);
            let drift = self.setup.drift_ppm.get(place).copied().unwrap_or(0);
            self.members[place].clock = Clock::new(self.now, boot, drift);
        }
        self.ledger.note(Some(small(place)), || What::Crashed);
        let back = Event::Restarts { place: small(place), life };
        self.queue.put(self.now + down.as_nanos(), back);
    }

    /// Who has forgotten needs enough others that have not. More losses at once than that leave a group without a leader for good.
    fn may_lose_disk(&self, place: usize) -> bool {
        if self.group().member(node(place)).is_none() {
            return false;
        }
        let group = self.group();
        let at_least = if self.setup.any_disk_may_go { 1 } else { needed(group).max(1) };
        let (forgotten, remember) = self.memories();
        remember > at_least && forgotten + 1 + at_least <= group.size()
    }

    fn pause(&mut self, place: usize, span: Span) {
        self.ledger.strike(small(place));
        let member = &mut self.members[place];
        if member.machine.is_none() || member.paused {
            return;
        }
        member.paused = true;
        member.pause += 1;
        let pause = member.pause;
        self.set_alarm(place);
        self.ledger.note(Some(small(place)), || What::Paused);
        self.queue.put(self.now + span.as_nanos(), Event::Resumes { place: small(place), pause });
    }

    /// A pause ends: what it was about to do is done, then what waits.
    pub(super) fn resume(&mut self, place: usize, pause: u32) {
        let member = &mut self.members[place];
        if !member.paused || member.pause != pause {
            return;
        }
        member.paused = false;
        self.ledger.note(Some(small(place)), || What::Resumed);
        let member = &self.members[place];
        if member.busy.as_ref().is_some_and(|pending| pending.done) {
            self.kept(place, self.members[place].life);
        } else {
            self.catch_up(place);
        }
    }

    fn set_rate(&mut self, place: usize, drift_ppm: i32) {
        let member = &mut self.members[place];
        member.clock.set_rate(self.now, drift_ppm);
        for work in [member.work, member.orphan].into_iter().flatten() {
            if let Some(until) = work.until {
                self.ledger.moved(work.number, member.clock.when(until));
            }
        }
        self.set_alarm(place);
    }

    fn hand_over(&mut self, to: Option<u8>) {
        let Some(place) = self.ledger.leader().map(usize::from) else { return };
        if self.members[place].is_free() {
            let to = to.map(|to| node(usize::from(to) % self.members.len())).filter(|to| *to != node(place));
            self.step(place, Input::Transfer { to });
            self.set_alarm(place);
        }
    }

    /// A spare place joins, or a member leaves, through the leader.
    fn change_members(&mut self, place: usize) {
        let place = place % self.members.len();
        let Some(leader) = self.ledger.leader().map(usize::from) else { return };
        if !self.members[leader].is_free() {
            return;
        }
        let current = self.members[leader].group().members();
        let mut next = current.to_vec();
        match current.iter().position(|member| member.id == node(place)) {
            Some(at) => drop(next.remove(at)),
            None => next.push(baton_peer::Member::plain(node(place))),
        }
        if next.iter().all(|member| member.witness) {
            return;
        }
        if self.members[place].machine.is_none() && self.members[place].life == 0 {
            self.start(place, 0);
        }
        self.step(leader, Input::Reconfigure { members: next });
        self.set_alarm(leader);
    }

    /// All faults end at once.
    pub(super) fn mend_all(&mut self) {
        self.healed = true;
        self.set_links(Links::whole(self.members.len()));
        self.network = self.setup.calm;
        for place in 0..self.members.len() {
            let member = &mut self.members[place];
            member.slow_disk = (0, Span::ZERO);
            let (pause, life, paused) = (member.pause, member.life, member.paused);
            if paused {
                self.resume(place, pause);
            }
            if life > 0 && self.members[place].machine.is_none() {
                self.start(place, life);
            }
        }
    }
}
