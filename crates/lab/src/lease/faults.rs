//! What goes wrong with agents and their store, and how it heals.

use baton_election::command::Release;
use baton_election::{Command, Credential, Epoch, Observer, Span, WallTime, decide};

use std::sync::Arc;

use super::store::Swap;
use super::{Event, LeaseWorld, small};
use crate::clock::Clock;
use crate::fault::{Fault, Whom};
use crate::network::Links;
use crate::timeline::What;

impl LeaseWorld<'_> {
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
            Fault::Mend => self.set_links(Links::whole(self.agents.len() + 1)),
            Fault::Weather(network) => self.network = *network,
            // An agent's disk holds nothing that counts.
            Fault::Crash { whom, disk: _, reboot, down } => {
                let place = self.find(*whom);
                self.crash(place, *reboot, *down);
            }
            Fault::Pause { whom, span } => {
                let place = self.find(*whom);
                self.pause(place, *span);
            }
            Fault::Rate { whom, drift_ppm } => self.set_rate(*whom, *drift_ppm),
            Fault::WallJump { whom, by_ms } => {
                let place = self.find(*whom);
                self.agents[place].clock.jump_wall(*by_ms);
            }
            Fault::HandOver { to } => self.hand_over(*to),
            Fault::Depose => self.depose(),
            Fault::StoreDown { span } => self.store.down_until = self.now + span.as_nanos(),
            Fault::StoreRestart => self.store.restart(self.now),
            // The store's disk is a matter of the store's own tests, and the agents are no group.
            Fault::SlowDisk { .. } | Fault::Members { .. } => {}
        }
    }

    fn set_links(&mut self, links: Links) {
        let whole = links == Links::whole(self.agents.len() + 1);
        if whole != (self.links == Links::whole(self.agents.len() + 1)) {
            self.ledger.note(None, || What::Links { whole });
        }
        self.links = links;
    }

    fn find(&self, whom: Whom) -> usize {
        let places = self.agents.len();
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

    /// A process starts.
    pub(super) fn start(&mut self, place: usize, life: u32) {
        let agent = &mut self.agents[place];
        if agent.up || agent.life != life {
            return;
        }
        agent.life += 1;
        (agent.up, agent.paused) = (true, false);
        agent.observer = Observer::default();
        let now = agent.clock.at(self.now);
        agent.begin_anew(place, now);
        self.ledger.note(Some(small(place)), || What::Started("a new incarnation"));
        self.set_alarm(place);
    }

    /// A process dies. Its work goes on until its own clock stops it, or whoever keeps it ends it and gives the lease back.
    fn crash(&mut self, place: usize, reboot: bool, down: Span) {
        self.ledger.strike(small(place));
        let kept_by_another = self.random.below(2) == 0;
        let agent = &mut self.agents[place];
        if !agent.up {
            return;
        }
        (agent.up, agent.paused, agent.believed) = (false, false, None);
        agent.request = None;
        agent.waiting.clear();
        let (lead, life, credential) = (agent.lead.take(), agent.life, agent.credential);
        if let Some(lead) = lead {
            if reboot || kept_by_another {
                self.ledger.ended(lead.number);
            } else {
                agent.orphan = Some((lead.number, lead.tenure.deadline()));
            }
            if kept_by_another && !reboot {
                let delay = self.network.delay(&mut self.random).as_nanos();
                let orphaned = Event::Orphaned { credential, epoch: lead.epoch };
                self.queue.put(self.now + delay, orphaned);
            }
        }
        if reboot {
            let (boot, drift) = (self.random.between(1, 1 << 40), self.setup.drift_ppm.get(place));
            let agent = &mut self.agents[place];
            if let Some((orphan, _)) = agent.orphan.take() {
                self.ledger.ended(orphan);
            }
            agent.clock = Clock::new(self.now, boot, drift.copied().unwrap_or(0));
        }
        self.set_alarm(place);
        self.ledger.note(Some(small(place)), || What::Crashed);
        self.queue.put(self.now + down.as_nanos(), Event::Restarts { place: small(place), life });
    }

    /// The lease of a leader that is gone is given back, if the store can be reached.
    pub(super) fn release_orphaned(&mut self, credential: Credential, epoch: Epoch) {
        let command = Command::Release(Release { epoch, credential, reason: None, orphaned: true });
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
        self.ledger.strike(small(place));
        let agent = &mut self.agents[place];
        if !agent.up || agent.paused {
            return;
        }
        agent.paused = true;
        agent.pause += 1;
        let pause = agent.pause;
        self.set_alarm(place);
        self.ledger.note(Some(small(place)), || What::Paused);
        self.queue.put(self.now + span.as_nanos(), Event::Resumes { place: small(place), pause });
    }

    /// A pause ends: what waits is taken in, before or after a look at the clock.
    pub(super) fn resume(&mut self, place: usize, pause: u32) {
        let agent = &mut self.agents[place];
        if !agent.paused || agent.pause != pause {
            return;
        }
        agent.paused = false;
        self.ledger.note(Some(small(place)), || What::Resumed);
        if self.random.below(2) == 0 {
            self.alarm(place);
        }
        while let Some((number, reply)) = self.agents[place].waiting.pop_front() {
            self.take_in(place, number, reply);
        }
        self.set_alarm(place);
    }

    fn set_rate(&mut self, whom: Whom, drift_ppm: i32) {
        if whom == Whom::Place(small(self.agents.len())) {
            self.store.clock.set_rate(self.now, drift_ppm);
            return;
        }
        let place = self.find(whom);
        let agent = &mut self.agents[place];
        agent.clock.set_rate(self.now, drift_ppm);
        let work = agent.lead.as_ref().map(|lead| (lead.number, lead.tenure.deadline()));
        for (number, deadline) in [work, agent.orphan].into_iter().flatten() {
            self.ledger.moved(number, agent.clock.when(deadline));
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
            let (pause, life) = (self.agents[place].pause, self.agents[place].life);
            self.resume(place, pause);
            if life > 0 {
                self.start(place, life);
            }
        }
    }
}
