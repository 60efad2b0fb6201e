//! How many sessions one announcer has, and how many elections those follow. An announcer is a token, or without one the agents of one name.

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

/// What one announcer has.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    sessions: usize,
    /// Elections that its sessions follow, each once for each session.
    follows: usize,
}

/// What each announcer has.
#[derive(Default)]
pub(super) struct AnnouncerUsage {
    by_announcer: HashMap<Announcer, Usage>,
}

impl AnnouncerUsage {
    pub(super) fn sessions(&self, announcer: &Announcer) -> usize {
        self.by_announcer.get(announcer).map_or(0, |usage| usage.sessions)
    }

    pub(super) fn follows(&self, announcer: &Announcer) -> usize {
        self.by_announcer.get(announcer).map_or(0, |usage| usage.follows)
    }

    /// Adds a session that follows so many.
    pub(super) fn add(&mut self, announcer: Announcer, follows: usize) {
        let usage = self.by_announcer.entry(announcer).or_default();
        usage.sessions += 1;
        usage.follows += follows;
    }

    /// Takes away a session that followed so many.
    pub(super) fn take_away(&mut self, announcer: &Announcer, follows: usize) {
        let Some(usage) = self.by_announcer.get_mut(announcer) else { return };
        usage.sessions -= 1;
        usage.follows -= follows;
        if *usage == Usage::default() {
            self.by_announcer.remove(announcer);
        }
    }

    /// A session that followed so many follows so many from here on.
    pub(super) fn change_follows(&mut self, announcer: &Announcer, before: usize, after: usize) {
        if let Some(usage) = self.by_announcer.get_mut(announcer) {
            usage.follows = usage.follows + after - before;
        }
    }
}
