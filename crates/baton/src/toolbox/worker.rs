//! What those do who are told.

use baton_election::time::Span;
use baton_election::{AgentName, Epoch, Incarnation, ItemName, LeaseKey};
use baton_store::toolbox::board::{Accept, Complete, Fail, Report};
use baton_store::toolbox::{Answer, Command, Draw, Drawn, Order, Task};
use serde::{Deserialize, Serialize};

use super::Toolbox;
use crate::error::Error;

/// What proves to be the worker of an accepted task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerKey(pub LeaseKey);

impl WorkerKey {
    /// A key that nobody else has.
    pub fn mint() -> Result<WorkerKey, Error> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        Ok(WorkerKey(LeaseKey(key)))
    }
}

impl Toolbox {
    /// The highest epoch of the election that this client has heard of.
    pub fn heard(&self) -> Epoch {
        self.coordinator.backend.memory().highest(&self.election)
    }

    /// Begins to do a task that is assigned to this agent. The election is looked at first, and an instruction of an older epoch than this
    /// client has heard of, or than `seen`, is refused.
    pub async fn accept(
        &self,
        id: &ItemName,
        agent: &AgentName,
        key: WorkerKey,
        seen: Epoch,
    ) -> Result<Task, Error> {
        self.accept_attempt(id, agent, key, seen, None).await
    }

    /// The same, as the task was seen: a request that comes late begins no attempt that was given since.
    pub async fn accept_seen(
        &self,
        task: &Task,
        agent: &AgentName,
        key: WorkerKey,
        seen: Epoch,
    ) -> Result<Task, Error> {
        self.accept_attempt(&task.id, agent, key, seen, Some(task.attempts.len() as u64)).await
    }

    async fn accept_attempt(
        &self,
        id: &ItemName,
        agent: &AgentName,
        key: WorkerKey,
        seen: Epoch,
        attempts: Option<u64>,
    ) -> Result<Task, Error> {
        self.coordinator.view(&self.election).await?;
        let seen = seen.max(self.heard());
        let accept = Accept { agent: agent.clone(), key_hash: key.0.hash(), seen, attempts };
        self.order(id, Order::Accept(accept)).await
    }

    /// Says how far a task is. A refusal says that it was taken back: the work on it must stop.
    pub async fn progress(
        &self,
        id: &ItemName,
        key: WorkerKey,
        percent: u8,
        estimate: Option<Span>,
        note: &str,
    ) -> Result<Task, Error> {
        let report = Report { key: key.0, percent, estimate, note: note.to_string() };
        self.order(id, Order::Progress(report)).await
    }

    /// A task is done.
    pub async fn complete(&self, id: &ItemName, key: WorkerKey, result: &str) -> Result<Task, Error> {
        self.order(id, Order::Complete(Complete { key: key.0, result: result.to_string() })).await
    }

    /// A task cannot be done, or not by this one.
    pub async fn fail(&self, id: &ItemName, key: WorkerKey, reason: &str) -> Result<Task, Error> {
        self.order(id, Order::Fail(Fail { key: key.0, reason: reason.to_string() })).await
    }

    /// Draws from this agent's share of a quota. If there is not enough left, the refusal says how long to wait.
    pub async fn draw(&self, name: &ItemName, agent: &AgentName, amount: u64) -> Result<Drawn, Error> {
        let mut id = [0; 8];
        getrandom::fill(&mut id).map_err(std::io::Error::other)?;
        let draw = Draw { agent: agent.clone(), amount, id: Incarnation(id) };
        match self.carry_out(&Command::Draw(name.clone(), draw)).await? {
            Answer::Drawn(drawn) => Ok(drawn),
            other => unreachable!("a draw answers as one, not {other:?}"),
        }
    }
}
