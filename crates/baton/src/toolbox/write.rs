//! Commands on the toolbox, one method for each.

use std::collections::BTreeMap;

use baton_election::time::Span;
use baton_election::{AgentName, ItemName};
use baton_store::toolbox::board::{Adopt, Assign, Withdraw};
use baton_store::toolbox::{
    AddTasks, Added, Answer, Command, Item, Mandate, NewTask, Order, Proposal, Propose, Put, Quota, Ruling,
    SetQuota, Task, Value,
};

use super::Toolbox;
use crate::error::Error;

/// How many tasks are sent at once, and how many bytes they have at most together, as JSON: a server takes 256 KiB.
const PART: usize = 100;
const PART_BYTES: usize = 128 * 1024;

impl Toolbox {
    /// Carries out a command. It may be repeated after any error.
    pub async fn carry_out(&self, command: &Command) -> Result<Answer, Error> {
        let tools = self.coordinator.backend.tools()?;
        Ok(tools.carry_out(self.coordinator.patience, &self.election, command).await?)
    }
}

/// One method for each act.
impl Toolbox {
    /// Puts tasks on the board, however many there are. Without a mandate they are taken while nobody leads.
    pub async fn add(
        &self,
        mandate: Option<Mandate>,
        by: Option<&AgentName>,
        tasks: &[NewTask],
    ) -> Result<Vec<Added>, Error> {
        let mut added = Vec::with_capacity(tasks.len());
        let mut rest = tasks;
        while !rest.is_empty() {
            let (part, later) = rest.split_at(fitting(rest));
            rest = later;
            let add = AddTasks { mandate, by: by.cloned(), tasks: part.to_vec() };
            match self.carry_out(&Command::Add(add)).await? {
                Answer::Added(more) => added.extend(more),
                other => unreachable!("tasks are added, not {other:?}"),
            }
        }
        Ok(added)
    }

    /// Changes a task.
    pub async fn order(&self, id: &ItemName, order: Order) -> Result<Task, Error> {
        match self.carry_out(&Command::Order(id.clone(), order)).await? {
            Answer::Item(Item::Task(task)) => Ok(task),
            other => unreachable!("an order answers with its task, not {other:?}"),
        }
    }

    /// Tells somebody to do a task; without a name, tells again who was told by a predecessor.
    pub async fn assign(
        &self,
        id: &ItemName,
        mandate: Mandate,
        to: Option<AgentName>,
    ) -> Result<Task, Error> {
        self.order(id, Order::Assign(Assign { mandate, to, attempts: None })).await
    }

    /// The same, as the task was seen: a request that comes late changes nothing that came after.
    pub async fn assign_seen(
        &self,
        task: &Task,
        mandate: Mandate,
        to: Option<AgentName>,
    ) -> Result<Task, Error> {
        let attempts = Some(task.attempts.len() as u64);
        self.order(&task.id, Order::Assign(Assign { mandate, to, attempts })).await
    }

    /// Makes a predecessor's instruction this leader's own: the attempt and its worker stay. With a number, only if there have been so many
    /// attempts.
    pub async fn adopt(&self, id: &ItemName, mandate: Mandate, attempts: Option<u64>) -> Result<Task, Error> {
        self.order(id, Order::Adopt(Adopt { mandate, attempts })).await
    }

    /// Queues a task anew. With a number, only if there have been so many attempts.
    pub async fn retry(
        &self,
        id: &ItemName,
        mandate: Mandate,
        reason: &str,
        attempts: Option<u64>,
    ) -> Result<Task, Error> {
        let reason = reason.to_string();
        self.order(id, Order::Retry(Withdraw { mandate, reason, attempts, orders: None })).await
    }

    /// Queues a task anew, as it was seen: a request that was overtaken by another order changes nothing.
    pub async fn retry_seen(&self, task: &Task, mandate: Mandate, reason: &str) -> Result<Task, Error> {
        self.order(&task.id, Order::Retry(seen(task, mandate, reason))).await
    }

    /// Cancels a task. With a number, only if there have been so many attempts.
    pub async fn cancel(
        &self,
        id: &ItemName,
        mandate: Mandate,
        reason: &str,
        attempts: Option<u64>,
    ) -> Result<Task, Error> {
        let reason = reason.to_string();
        self.order(id, Order::Cancel(Withdraw { mandate, reason, attempts, orders: None })).await
    }

    /// Cancels a task, as it was seen: a request that was overtaken by another order changes nothing.
    pub async fn cancel_seen(&self, task: &Task, mandate: Mandate, reason: &str) -> Result<Task, Error> {
        self.order(&task.id, Order::Cancel(seen(task, mandate, reason))).await
    }

    /// Proposes something.
    pub async fn propose(&self, propose: Propose) -> Result<Proposal, Error> {
        match self.carry_out(&Command::Propose(propose)).await? {
            Answer::Item(Item::Proposal(proposal)) => Ok(proposal),
            other => unreachable!("a proposal answers with itself, not {other:?}"),
        }
    }

    /// Decides on a proposal.
    pub async fn rule(&self, id: &ItemName, ruling: Ruling) -> Result<Proposal, Error> {
        match self.carry_out(&Command::Rule(id.clone(), ruling)).await? {
            Answer::Item(Item::Proposal(proposal)) => Ok(proposal),
            other => unreachable!("a ruling answers with its proposal, not {other:?}"),
        }
    }

    /// Sets a budget and its split.
    pub async fn set_quota(
        &self,
        name: &ItemName,
        mandate: Mandate,
        amount: u64,
        window: Span,
        shares: BTreeMap<AgentName, u64>,
    ) -> Result<Quota, Error> {
        let set = SetQuota { mandate, amount, window, shares };
        match self.carry_out(&Command::SetQuota(name.clone(), set)).await? {
            Answer::Item(Item::Quota(quota)) => Ok(quota),
            other => unreachable!("a quota answers with itself, not {other:?}"),
        }
    }

    /// Puts a value. With a version, only on top of that one.
    pub async fn put(
        &self,
        name: &ItemName,
        mandate: Mandate,
        value: &str,
        expected: Option<u64>,
    ) -> Result<Value, Error> {
        let put = Put { mandate, expected, value: value.to_string() };
        match self.carry_out(&Command::Put(name.clone(), put)).await? {
            Answer::Item(Item::Value(value)) => Ok(value),
            other => unreachable!("a value answers with itself, not {other:?}"),
        }
    }
}

/// How many of these are sent at once: one at least.
fn fitting(tasks: &[NewTask]) -> usize {
    let mut bytes = 0;
    let fits = tasks.iter().take(PART).take_while(|task| {
        bytes += serde_json::to_vec(task).map_or(PART_BYTES, |json| json.len());
        bytes <= PART_BYTES
    });
    fits.count().max(1)
}

fn seen(task: &Task, mandate: Mandate, reason: &str) -> Withdraw {
    let (attempts, orders) = (Some(task.attempts.len() as u64), Some(task.orders));
    Withdraw { mandate, reason: reason.to_string(), attempts, orders }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Keys, needs and letters that JSON writes as six take room, too.
    #[test]
    fn what_is_sent_at_once_is_no_more_than_a_server_takes() {
        let needs: BTreeSet<String> = (0..64).map(|n| format!("{n}{}", "c".repeat(60))).collect();
        let plain = NewTask { title: "t".into(), size: 1, ..NewTask::default() };
        let long = NewTask { key: Some("\u{1}".repeat(1_024)), needs, ..plain.clone() };
        let longest = NewTask { body: "\u{1}".repeat(16 * 1_024), ..long.clone() };
        for task in [plain.clone(), long, longest] {
            let tasks = vec![task; 500];
            let fits = fitting(&tasks);
            let json = serde_json::to_vec(&tasks[..fits]).unwrap();
            assert!(
                (1..=PART).contains(&fits) && json.len() < 200 * 1_024,
                "{fits} with {} bytes",
                json.len()
            );
        }
        assert_eq!(fitting(&vec![plain; 500]), PART);
    }
}
