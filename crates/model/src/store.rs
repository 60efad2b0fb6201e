//! What the store does: serves reads, compares and swaps. What it applies is entered into the ledger.

use baton_election::{Document, Span};

use crate::config::{BrokenRule, StoreKind};
use crate::model::Election;
use crate::shipped::incarnation;
use crate::state::{Event, Phase, Reading, RequestKind, Sender, Swap, World};

impl Election {
    /// The store serves an agent's read.
    pub(crate) fn serve(&self, world: &mut World, agent: usize) {
        let reading = self.reading(world);
        if let Some(request) = &mut world.agents[agent].request {
            request.phase = Phase::Served(reading);
        }
    }

    /// What a read finds.
    pub(crate) fn reading(&self, world: &World) -> Reading {
        Reading {
            document: world.store.document.clone(),
            version: world.store.version,
            age: self.stamped_age(world),
        }
    }

    /// The age of the document by the store's own stamps, if it has any.
    pub(crate) fn stamped_age(&self, world: &World) -> Option<Span> {
        match self.config.store {
            StoreKind::Stamped => Some(world.clocks.store.between(world.store.stamp, world.now)),
            StoreKind::Observed => None,
        }
    }

    /// A swap that an agent waits for arrives.
    pub(crate) fn arrive(&self, world: &mut World, agent: usize) {
        let Some(request) = &mut world.agents[agent].request else { return };
        if let Phase::Sent(swap, heard) = request.phase.clone() {
            request.phase = Phase::Applied(heard);
            if !self.swap(world, &swap)
                && let Some(request) = &mut world.agents[agent].request
            {
                request.phase = Phase::Conflict;
                world.event = Some(Event::Conflict);
            }
        }
    }

    /// A swap arrives that its sender has given up on.
    pub(crate) fn arrive_late(&self, world: &mut World, agent: usize, ghost: usize) {
        let swap = world.agents[agent].ghosts.remove(ghost);
        let refused = world.agents[agent].refused_since;
        let grants = matches!(swap.by, Sender::Agent(_, RequestKind::Acquire));
        if self.swap(world, &swap) && grants && refused {
            world.event = world.event.or(Some(Event::GrantedAfterRefusal));
        }
    }

    /// Compares and swaps. Returns whether it was applied.
    pub(crate) fn swap(&self, world: &mut World, swap: &Swap) -> bool {
        let blind = self.config.fault == Some(BrokenRule::BlindSwap);
        if swap.expect != world.store.version && !blind {
            return false;
        }
        let old = std::mem::replace(&mut world.store.document, swap.next.clone());
        let new = swap.next.clone();
        world.store.version += 1;
        if new.beat != old.beat {
            world.store.stamp = world.now;
        }
        self.enter(world, swap.by, &new);
        if epochs_broken(&old, &new) {
            world.event = Some(Event::EpochBroken);
        }
        if !blind {
            world.bury();
        }
        true
    }

    fn enter(&self, world: &mut World, by: Sender, new: &Document) {
        let now = world.now;
        match by {
            Sender::Operator => {}
            Sender::Agent(agent, RequestKind::Acquire | RequestKind::Renew) => {
                let Some(leader) = &new.leader else { return };
                let life = leader.incarnation.0[1];
                if by == Sender::Agent(agent, RequestKind::Renew) && !world.in_time(agent, life) {
                    world.event = Some(Event::RenewedLate);
                }
                world.ledger.begin(agent, life, now, leader.lease());
            }
            Sender::Agent(agent, RequestKind::Release | RequestKind::Pass) => {
                let Some(departure) = &new.departure else { return };
                world.ledger.end(agent, departure.incarnation.0[1]);
                if new.epoch > departure.epoch {
                    world.event = Some(Event::EndedReleased);
                }
            }
        }
    }
}

impl World {
    /// Whether the holder of this lease is still sure of it.
    fn in_time(&self, agent: usize, life: u8) -> bool {
        self.agents[agent].life == life && self.believes(agent)
    }

    /// Swaps that nobody waits for and that expect a version of the past can do nothing any more.
    fn bury(&mut self) {
        let version = self.store.version;
        for agent in &mut self.agents {
            agent.ghosts.retain(|swap| swap.expect == version);
        }
        self.order = self.order.take().filter(|swap| swap.expect == version);
    }
}

/// Whether an epoch went back, or was given to a second incarnation.
fn epochs_broken(old: &Document, new: &Document) -> bool {
    let Some(leader) = &new.leader else { return new.epoch < old.epoch };
    let same = old.leader.as_ref().is_some_and(|former| former.incarnation == leader.incarnation);
    if same { leader.epoch < old.epoch } else { leader.epoch <= old.epoch }
}

/// Whether the document names somebody else than this agent's present life as the leader.
pub(crate) fn led_by_another(document: &Document, agent: usize, life: u8) -> bool {
    document.leader.as_ref().is_some_and(|leader| leader.incarnation != incarnation(agent, life))
}
