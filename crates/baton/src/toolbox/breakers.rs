//! The circuit breakers beside the board, as they stand.

use std::collections::BTreeSet;

use baton_election::policy::Policy;
use baton_election::removal_rules::OpenBreaker;
use baton_election::time::Span;
use baton_election::{AgentName, ItemName};
use baton_executor::breakers::{capabilities, open_breakers};
use baton_store::Key;
use baton_store::toolbox::breaker::{Breaker, BreakerState};
use baton_store::toolbox::{Item, Kind, Query, Task};

use super::Toolbox;
use crate::error::Error;

/// A circuit breaker, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerView {
    /// The breaker.
    pub breaker: Breaker,
    /// How it stands; closed if the policy has no breakers.
    pub state: BreakerState,
}

impl Toolbox {
    /// The circuit breakers of all agents, or of one, as they stand.
    pub async fn breakers(&self, agent: Option<&AgentName>) -> Result<Vec<BreakerView>, Error> {
        let document = self.coordinator.backend.view(&self.election).await?.document;
        let rules = document.and_then(|document| document.policy.breakers.clone());
        let query = Query { agent: agent.cloned(), ..Query::default() };
        let mut found = Vec::new();
        for item in self.all(Kind::Breaker, &query).await? {
            let Item::Breaker(breaker) = item else { continue };
            let age = self.age_of(&breaker.name).await?;
            let state = rules.as_ref().map_or(BreakerState::Closed, |rules| breaker.state(rules, age));
            found.push(BreakerView { breaker, state });
        }
        Ok(found)
    }

    /// The agents that are not to be told to do a task, since their breaker for what the task takes is open.
    pub async fn barred(&self, task: &Task) -> Result<BTreeSet<AgentName>, Error> {
        let takes = capabilities(task);
        let open = |view: &BreakerView| {
            matches!(view.state, BreakerState::Open(_)) && takes.contains(&view.breaker.capability.as_str())
        };
        Ok(self.breakers(None).await?.into_iter().filter(open).map(|view| view.breaker.agent).collect())
    }

    /// The breakers of an agent that are open and may bar it from leading under this policy; none if the policy does not look at them.
    pub async fn open_breakers(&self, agent: &AgentName, policy: &Policy) -> Result<Vec<OpenBreaker>, Error> {
        Ok(open_breakers(&*self.coordinator.backend, &self.election, agent, policy).await?)
    }

    async fn age_of(&self, name: &ItemName) -> Result<Span, Error> {
        let key = Key::Item(self.election.clone(), Kind::Breaker, name.clone());
        let backend = &self.coordinator.backend;
        let reading = backend.read(&key).await?;
        Ok(backend.memory().lock().observe(&key, &reading))
    }
}
