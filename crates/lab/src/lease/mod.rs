//! Agents that elect through a store, in simulated time: the lease engine under the same faults as the groups.
//!
//! Runs the decisions that ship: [`baton_election::decide`], [`Tenure`](baton_election::Tenure), [`Observer`](baton_election::Observer) and the
//! [fence](baton_election::fence), driven by the rules of `crates/baton`'s campaign and renewer, which are written anew here
//! since those talk to real clocks. Assumes a store whose swaps are atomic. Guarantees that a run depends on nothing but its
//! [`Setup`]. Does not simulate policies that compare candidates, records that vanish, or a store's own elections: those are
//! tested against real stores.

mod agent;
mod ask;
mod faults;
mod guard;
mod lead;
mod names;
mod store;

use std::sync::Arc;

use baton_election::{Credential, Document, Epoch};
use baton_peer::Random;

use crate::fault::Fault;
use crate::host::next_alarm;
use crate::invariants::Demands;
use crate::ledger::Ledger;
use crate::network::{Links, Network};
use crate::queue::Queue;
use crate::setup::{Outcome, Setup};
use crate::simulation::{Simulation, play};
use crate::timeline::Timeline;

use agent::{Agent, Reply};
use guard::Guard;
use names::Names;
use store::{Store, Swap};

/// What happens later.
#[derive(Debug)]
enum Event {
    /// A question reaches the store.
    Read { from: u8, life: u32, number: u64 },
    /// A swap reaches the store.
    Swap { from: u8, life: u32, number: u64, swap: Swap },
    /// A swap that was held up at its sender goes out.
    Sends { from: u8, life: u32, number: u64, swap: Swap },
    /// An answer reaches its agent.
    Answers { to: u8, life: u32, number: u64, reply: Reply },
    /// An agent hears that something changed.
    Told { to: u8, life: u32, elective: bool },
    /// A pause ends.
    Resumes { place: u8, pause: u32 },
    /// A process starts again.
    Restarts { place: u8, life: u32 },
    /// A leader writes.
    Works { place: u8, number: u64 },
    /// Work has stopped, as it was asked to.
    Stopped { place: u8, number: u64, to: Option<u8> },
    /// A write reaches the guard, which looks at the election.
    Writes { place: u8, token: Epoch, number: u64 },
    /// The guard has looked, and asks the fence.
    Admits {
        place: u8,
        token: Epoch,
        number: u64,
        document: Option<Arc<Document>>,
        age: baton_election::Span,
    },
    /// Whoever ended a dead leader's work gives its lease back, for so many times in vain.
    Orphaned { place: u8, credential: Credential, epoch: Epoch, failed: u32 },
}

/// Agents, their store, and the time.
pub(crate) struct LeaseWorld<'s> {
    setup: &'s Setup,
    names: Names,
    now: u64,
    agents: Vec<Agent>,
    store: Store,
    guard: Guard,
    /// The store's place is the one after the last agent's.
    links: Links,
    network: Network,
    queue: Queue<Event>,
    random: Random,
    ledger: Ledger,
    healed: bool,
}

impl<'s> LeaseWorld<'s> {
    pub(crate) fn play(setup: &'s Setup, timeline: Option<Timeline>) -> (Outcome, Timeline) {
        play(LeaseWorld::new(setup, timeline), setup)
    }

    fn new(setup: &'s Setup, timeline: Option<Timeline>) -> LeaseWorld<'s> {
        let mut random = Random::seeded(setup.seed ^ 0x6c65_6173_6521);
        let names = Names::new(setup.places());
        let agents = (0..setup.places()).map(|place| Agent::new(setup, place, &mut random)).collect();
        let store = Store::new(setup, &names, &mut random);
        let mut world = LeaseWorld {
            setup,
            names,
            now: 0,
            agents,
            store,
            guard: Guard::default(),
            links: Links::whole(setup.places() + 1),
            network: setup.network,
            queue: Queue::new(),
            random,
            ledger: Ledger::new(Demands { safety: true, liveness: true }, timeline),
            healed: false,
        };
        for place in 0..setup.places() {
            let at = world.random.below(setup.ttl.as_nanos() / 4);
            world.queue.put(at, Event::Restarts { place: small(place), life: 0 });
        }
        world
    }

    fn next_alarm(&self) -> (u64, usize) {
        next_alarm(self.agents.iter().map(|agent| &agent.host))
    }
}

impl Simulation for LeaseWorld<'_> {
    fn next_at(&self) -> u64 {
        self.next_alarm().0.min(self.queue.next_at().unwrap_or(u64::MAX))
    }

    fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    fn happen(&mut self) {
        if self.queue.next_at() != Some(self.now) {
            let (_, place) = self.next_alarm();
            return self.alarm(place);
        }
        let Some((_, event)) = self.queue.take() else { return };
        match event {
            Event::Read { from, life, number } => self.store_reads(from, life, number),
            Event::Swap { from, life, number, swap } => self.store_swaps(from, life, number, swap),
            Event::Sends { from, life, number, swap } => self.send_swap(from, life, number, swap),
            Event::Answers { to, life, number, reply } => self.answered(usize::from(to), life, number, reply),
            Event::Told { to, life, elective } => self.told(usize::from(to), life, elective),
            Event::Resumes { place, pause } => self.resume(usize::from(place), pause),
            Event::Restarts { place, life } => self.start(usize::from(place), life),
            Event::Works { place, number } => self.work(usize::from(place), number),
            Event::Stopped { place, number, to } => self.stopped(usize::from(place), number, to),
            Event::Writes { place, token, number } => self.guard_looks(place, token, number),
            Event::Admits { place, token, number, document, age } => {
                self.fence_decides(place, token, number, document.as_deref(), age);
            }
            Event::Orphaned { place, credential, epoch, failed } => {
                self.release_orphaned(place, credential, epoch, failed);
            }
        }
    }

    fn befall(&mut self, fault: &Fault) {
        self.strike(fault);
    }

    fn heal(&mut self) {
        self.mend_all();
    }

    fn astray(&self) -> (usize, usize) {
        let leader = self.ledger.leader();
        let astray = self.agents.iter().filter(|agent| leader.is_none() || agent.believed != leader).count();
        (astray, self.agents.len())
    }

    fn has_preferences(&self) -> bool {
        false
    }

    fn demands_a_leader(&self) -> bool {
        true
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

fn small(place: usize) -> u8 {
    u8::try_from(place).unwrap_or(u8::MAX)
}
