//! How many sessions one has: who announced them with one token, or without one the agents of one name.

use std::collections::HashMap;

use baton_election::{AgentName, TokenId};

/// By whom a session is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Announcer {
    Token(TokenId),
    Agent(AgentName),
}

impl Announcer {
    pub(super) fn of(by: Option<TokenId>, agent: &AgentName) -> Announcer {
        by.map_or_else(|| Announcer::Agent(agent.clone()), Announcer::Token)
    }
}

/// The sessions of each.
#[derive(Default)]
pub(super) struct Shares {
    counts: HashMap<Announcer, usize>,
}

impl Shares {
    pub(super) fn count(&self, announcer: &Announcer) -> usize {
        self.counts.get(announcer).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, announcer: Announcer) {
        *self.counts.entry(announcer).or_default() += 1;
    }

    pub(super) fn take_away(&mut self, announcer: &Announcer) {
        let Some(count) = self.counts.get_mut(announcer) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(announcer);
        }
    }
}
