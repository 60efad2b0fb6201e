//! What goes wrong with agents and their store, and how it heals.

use baton_election::command::{Ending, Release};
use baton_election::{Command, Credential, Epoch, Observer, Span, WallTime, decide};

use std::sync::Arc;

use super::ask::{PATIENCE, RETRIES};
use super::store::Swap;
use super::{Event, LeaseWorld, small};
use crate::fault::{Fault, FaultTarget};
use crate::host::Orphan;
use crate::network::Links;
use crate::timeline::EventKind;

impl LeaseWorld<'_> {
    /// Something goes wrong.
    pub(super) fn strike(&mut self, fault: &Fault) {
        self.ledger.note(None, || EventKind::Fault(fault.to_string()));
        match fault {
            Fault::Cut(links) => self.set_links(links.clone()),
            Fault::Mend => self.set_links(Links::whole(self.agents.len() + 1)),
            Fault::Network(network) => self.network = *network,
            Fault::Rate { target: FaultTarget::Place(place), drift_ppm }
                if usize::from(*place) == self.agents.len() =>
            {
                self.store.clock.set_rate(self.now, *drift_ppm);
            }
            Fault::Isolate { target, outbound, inbound } => {
                self.befall(*target, |world, place| world.isolate(place, *outbound, *inbound));
            }
            // An agent's disk holds nothing that counts.
            Fault::Crash { target, disk: _, reboot, down } => {
                self.befall(*target, |world, place| world.crash(place, *reboot, *down));
            }
            Fault::Pause { target, span } => self.befall(*target, |world, place| world.pause(place, *span)),
            Fault::Rate { target, drift_ppm } => {
                self.befall(*target, |world, place| world.set_rate(place, *drift_ppm));
            }
            Fault::WallJump { target, by_ms } => {
                self.befall(*target, |world, place| world.agents[place].host.clock.jump_wall(*by_ms));
            }
            Fault::HandOver { to } => self.hand_over(*to),
            Fault::Depose => self.depose(),
            Fault::StoreDown { span } => self.store.down_until = self.now + span.as_nanos(),
            Fault::StoreRestart => self.store.restart(self.now),
            // The store's disk is a matter of the store's own tests, and the agents are no group.
            Fault::SlowDisk { .. } | Fault::Waits { .. } | Fault::Members { .. } | Fault::Alter { .. } => {}
        }
    }

    /// Something goes wrong at a place, if there is such a one.
    fn befall(&mut self, target: FaultTarget, blow: impl FnOnce(&mut Self, usize)) {
        if let Some(place) = target.among(self.agents.len(), self.leader()) {
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
            let lead = self.agents.get(place).and_then(|agent| agent.lead.as_ref());
            lead.is_some_and(|lead| lead.number == number)
        };
        self.ledger.leader_that(works)
    }

    /// If that one leads, a fail-over is measured from here on.
    fn strike_leader(&mut self, place: usize) {
        let clock = &self.agents[place].host.clock;
        let full = clock.when(self.setup.timing.margins.deadline(clock.at(self.now), self.setup.ttl));
        self.ledger.strike(small(place), full);
    }

    fn set_links(&mut self, links: Links) {
        self.ledger.relinked(&self.links, &links);
        self.links = links;
    }

    /// A process starts.
    pub(super) fn start(&mut self, place: usize, life: u32) {
        let agent = &mut self.agents[place];
        if agent.up || agent.host.life != life {
            return;
        }
        agent.host.life += 1;
        (agent.up, agent.host.paused) = (true, false);
        agent.observer = Observer::default();
        let now = agent.host.clock.at(self.now);
        agent.begin_anew(place, now);
        self.ledger.note(Some(small(place)), || EventKind::Started("a new incarnation"));
        self.set_alarm(place);
    }

    /// A process dies. Its work goes on until its own clock stops it, or whoever keeps it ends it and gives the lease back.
    fn crash(&mut self, place: usize, reboot: bool, down: Span) {
        if !self.agents[place].up {
            return;
        }
        self.strike_leader(place);
        let kept_by_another = self.random.below(2) == 0;
        let agent = &mut self.agents[place];
        (agent.up, agent.host.paused, agent.believed) = (false, false, None);
        agent.request = None;
        agent.waiting.clear();
        let (lead, life, credential) = (agent.lead.take(), agent.host.life, agent.credential);
        if let Some(lead) = lead {
            if reboot || kept_by_another {
                self.ledger.ended(lead.number);
            } else {
                let until = lead.tenure.deadline();
                agent.host.orphan = Some(Orphan { number: lead.number, until });
                self.ledger.stands_still(lead.number, false);
            }
            if kept_by_another && !reboot {
                let delay = self.network.delay(&mut self.random).as_nanos();
                let (place, epoch) = (small(place), lead.epoch);
                self.queue.put(self.now + delay, Event::Orphaned { place, credential, epoch, failed: 0 });
            }
        }
        if reboot && let Some(orphan) = self.agents[place].host.reboot(self.now, &mut self.random) {
            self.ledger.ended(orphan.number);
        }
        self.set_alarm(place);
        self.ledger.note(Some(small(place)), || EventKind::Crashed);
        self.queue.put(self.now + down.as_nanos(), Event::Restarts { place: small(place), life });
    }

    /// The lease of a leader that is gone is given back, if the store can be reached from there; otherwise it is tried again, like every
    /// request.
    pub(super) fn release_orphaned(&mut self, place: u8, credential: Credential, epoch: Epoch, failed: u32) {
        let (here, store) = (usize::from(place), self.agents.len());
        let reached = self.links.open(here, store)
            && self.links.open(store, here)
            && self.now >= self.store.down_until
            && self.network.travel(&mut self.random).is_some();
        if !reached {
            if failed < RETRIES {
                let again = self.now + PATIENCE.min(self.setup.ttl).as_nanos();
                self.queue.put(again, Event::Orphaned { place, credential, epoch, failed: failed + 1 });
            }
            return;
        }
        let command = Command::Release(Release { epoch, credential, reason: None, ending: Ending::Orphaned });
        self.decide_there(&command);
    }

    /// A watcher ends the leadership from outside.
    fn depose(&mut self) {
        let epoch = self.store.document.as_ref().map_or(Epoch(0), |document| document.epoch);
        let command = self.names.report(epoch);
        self.decide_there(&command);
    }

    /// Reads, decides and swaps in one instant.
    fn decide_there(&mut self, command: &Command) {
        if self.now < self.store.down_until {
            return;
        }
        let document = self.store.document.clone();
        let age = self.store.age(self.now).unwrap_or(Span::ZERO);
        let evidence = self.names.evidence(age, WallTime::default());
        let Ok(decision) = decide(document.as_deref(), command, &evidence) else { return };
        if let Some(next) = decision.next {
            let restarts = document.is_none_or(|document| document.beat != next.beat);
            let swap = Swap { expect: self.store.version, next: Arc::new(next), restarts };
            self.apply(&swap);
        }
    }

    fn pause(&mut self, place: usize, span: Span) {
        let agent = &self.agents[place];
        if !agent.up || agent.host.paused {
            return;
        }
        self.strike_leader(place);
        let agent = &mut self.agents[place];
        let pause = agent.host.stand_still();
        if let Some(lead) = &agent.lead {
            self.ledger.stands_still(lead.number, true);
        }
        self.set_alarm(place);
        self.ledger.note(Some(small(place)), || EventKind::Paused);
        self.queue.put(self.now + span.as_nanos(), Event::Resumes { place: small(place), pause });
    }

    /// A pause ends: what waits is taken in, before or after a look at the clock.
    pub(super) fn resume(&mut self, place: usize, pause: u32) {
        let agent = &mut self.agents[place];
        if !agent.host.go_on(pause) {
            return;
        }
        if let Some(lead) = &agent.lead {
            self.ledger.stands_still(lead.number, false);
        }
        self.ledger.note(Some(small(place)), || EventKind::Resumed);
        if self.random.below(2) == 0 {
            self.alarm(place);
        }
        while let Some((number, reply)) = self.agents[place].waiting.pop_front() {
            self.take_in(place, number, reply);
        }
        self.set_alarm(place);
    }

    fn set_rate(&mut self, place: usize, drift_ppm: i32) {
        let agent = &mut self.agents[place];
        agent.host.clock.set_rate(self.now, drift_ppm);
        let work = agent.lead.as_ref().map(|lead| (lead.number, lead.tenure.deadline()));
        let orphan = agent.host.orphan.map(|orphan| (orphan.number, orphan.until));
        for (number, until) in [work, orphan].into_iter().flatten() {
            self.ledger.moved(number, agent.host.clock.when(until));
        }
        self.set_alarm(place);
    }

    /// All faults end at once.
    pub(super) fn mend_all(&mut self) {
        self.healed = true;
        self.set_links(Links::whole(self.agents.len() + 1));
        self.network = self.setup.calm;
        self.store.down_until = self.now;
        for place in 0..self.agents.len() {
            let (pause, life) = (self.agents[place].host.pause(), self.agents[place].host.life);
            if let Some(pause) = pause {
                self.resume(place, pause);
            }
            if life > 0 {
                self.start(place, life);
            }
        }
    }
}
