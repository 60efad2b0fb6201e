//! The truth about leases, kept by the model from what the store applied, never from what the document says of it.

use baton_election::Span;

use crate::clock::{Clocks, TICK};
use crate::config::{Config, StoreKind};

/// Leases that are running. Its length is what "never two valid leases" is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger(Vec<RunningLease>);

/// A lease from its last beat until its length has passed or its holder has given it back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RunningLease {
    agent: usize,
    life: u8,
    since: u8,
    length: Span,
}

impl Ledger {
    /// A grant or a renewal was applied.
    pub(crate) fn begin(&mut self, agent: usize, life: u8, since: u8, length: Span) {
        self.end(agent, life);
        self.0.push(RunningLease { agent, life, since, length });
        self.0.sort_by_key(|lease| (lease.agent, lease.life));
    }

    /// The holder gave it back.
    pub(crate) fn end(&mut self, agent: usize, life: u8) {
        self.0.retain(|lease| (lease.agent, lease.life) != (agent, life));
    }

    /// Forgets the leases whose length has passed.
    ///
    /// A stamped store's clock is the judge of that. Beside an observed store it is the shortest time that any lawful
    /// observer's clock can take for it.
    pub(crate) fn expire(&mut self, now: u8, clocks: &Clocks, config: &Config) {
        self.0.retain(|lease| {
            let passed = match config.store {
                StoreKind::Stamped => clocks.store.between(lease.since, now),
                StoreKind::Observed => {
                    TICK.scaled(u64::from(now - lease.since) * (1_000 + config.margins.drift_permille), 1_000)
                }
            };
            passed < lease.length
        });
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the lease of this life is running.
    pub(crate) fn holds(&self, agent: usize, life: u8) -> bool {
        self.0.iter().any(|lease| (lease.agent, lease.life) == (agent, life))
    }
}
