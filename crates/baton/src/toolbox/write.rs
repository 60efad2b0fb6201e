//! Commands: sent to a server, or decided here and swapped.

use std::collections::{BTreeMap, BTreeSet};

use baton_election::time::Span;
use baton_election::{AgentName, ItemName, Refusal};
use baton_store::toolbox::board::{self, Adopt, Assign, MAX_UNLED, Withdraw};
use baton_store::toolbox::{
    AddTasks, Added, Answer, Command, Item, Kind, Mandate, NewTask, Order, Proposal, Propose, Put, Query,
    Quota, Ruling, SetQuota, Sight, State, Task, Value, proposal, quota, value,
};
use baton_store::{AgeStamp, Decider, Key, Persistence, Prefix, Record, boot};

use super::Toolbox;
use crate::error::Error;
use crate::local::{First, Pace, Seen, Step};
use crate::there::insist;

/// How many tasks are sent at once, and how many bytes they have at most together, as JSON: a server takes 256 KiB.
const PART: usize = 100;
const PART_BYTES: usize = 128 * 1024;

/// What is to be written, and what is answered once it is.
pub(super) type Decided<T> = (Option<(Item, AgeStamp)>, T);

impl Toolbox {
    /// Carries out a command. It may be repeated after any error.
    pub async fn carry_out(&self, command: &Command) -> Result<Answer, Error> {
        let coordinator = &self.coordinator;
        if let Some(tools) = coordinator.store().decider().and_then(Decider::tools) {
            return insist(coordinator.patience, || tools.carry_out(&self.election, command)).await;
        }
        let answer = self.carry_out_here(command).await?;
        // A caller that repeats the command after an error makes up for it.
        self.end_lead(command, &answer).await?;
        Ok(answer)
    }

    /// The same for the process that decides on the election itself: a leadership that it should end goes on,
    /// see [`Toolbox::against_leader`].
    pub async fn carry_out_here(&self, command: &Command) -> Result<Answer, Error> {
        match command {
            Command::Add(add) => self.add_here(add).await.map(Answer::Added),
            Command::Order(id, order) => self.order_here(id, order).await.map(Answer::Item),
            Command::Propose(propose) => self.propose_here(propose).await.map(Answer::Item),
            Command::Rule(id, ruling) => self.rule_here(id, ruling).await.map(Answer::Item),
            Command::SetQuota(name, set) => self.set_quota_here(name, set).await.map(Answer::Item),
            Command::Draw(name, draw) => self
                .change(Kind::Quota, name, false, |found, sight| {
                    let Some(Item::Quota(found)) = found else { return Err(Kind::Quota.no_such(name)) };
                    let (written, drawn) = quota::draw(found, draw, sight)?;
                    Ok((written.map(of_quota), drawn))
                })
                .await
                .map(Answer::Drawn),
            Command::Put(name, put) => self.put_here(name, put).await.map(Answer::Item),
        }
    }

    /// Reads the election if that is needed, reads the item, decides, and swaps; again and again, until it is done or refused.
    pub(super) async fn change<T>(
        &self,
        kind: Kind,
        name: &ItemName,
        needs_election: bool,
        decide: impl Fn(Option<&Item>, &Sight<'_>) -> Result<Decided<T>, Refusal>,
    ) -> Result<T, Error> {
        let (local, patience) = (&self.coordinator.local, self.coordinator.patience);
        let key = Key::Item(self.election.clone(), kind, name.clone());
        let (mut pace, mut unknown) = (Pace::new(patience), None);
        loop {
            let tried = async {
                let seen = if needs_election { Some(local.see(&self.election).await?) } else { None };
                let mut step = |look: crate::local::Look<'_>| {
                    let found = match look.record {
                        Some(Record::Item(item)) => Some(&**item),
                        Some(_) | None => None,
                    };
                    let sight = self.sight(seen.as_ref(), look.age);
                    let (write, outcome) = decide(found, &sight)?;
                    Ok(match write {
                        Some((next, clock)) => {
                            Step::Write(Record::Item(Box::new(next)), clock, Persistence::Durable, outcome)
                        }
                        None => Step::Done(outcome),
                    })
                };
                local.try_change(First::Look, &key, &mut unknown, &mut step).await
            };
            match tried.await {
                Err(Error::Store(error)) if error.is_passing() => pace.wait_after(error).await?,
                outcome => return outcome,
            }
        }
    }

    pub(super) fn sight<'a>(&'a self, seen: Option<&'a Seen>, item_age: Span) -> Sight<'a> {
        Sight {
            election: &self.election,
            document: seen.and_then(|seen| seen.document.as_ref()),
            document_age: seen.map_or(Span::ZERO, |seen| seen.age),
            item_age,
            wall: boot::wall(),
        }
    }

    async fn add_here(&self, add: &AddTasks) -> Result<Vec<Added>, Error> {
        add.check()?;
        let there =
            self.coordinator.local.store.list(&Prefix::Items(self.election.clone(), Kind::Task)).await?;
        let known: BTreeSet<&str> = there.iter().map(Key::name).collect();
        let more = add.unlike(|id| known.contains(id.as_str()));
        if more > 0 {
            Kind::Task.check_room(there.len().saturating_add(more - 1))?;
        }
        let unled = match &add.mandate {
            Some(_) => 0,
            None => {
                let queued = Query { state: Some(State::Queued), ..Query::default() };
                self.tasks(&queued).await?.iter().filter(|task| task.is_unled()).count() as u64
            }
        };
        if add.mandate.is_none() && more > 0 && unled.saturating_add(more as u64) > MAX_UNLED {
            let why = format!("nobody leads, and {unled} tasks wait already; at most {MAX_UNLED} may");
            return Err(Refusal::Exhausted { why, retry_in: None }.into());
        }
        self.add_decided(add, unled).await
    }

    /// Adds tasks where there is room for them, for a caller that has counted.
    pub async fn add_decided(&self, add: &AddTasks, unled: u64) -> Result<Vec<Added>, Error> {
        use futures_util::{StreamExt, stream};
        let one = async |new: &NewTask| -> Result<Added, Error> {
            let id = new.id()?;
            self.change(Kind::Task, &id, true, |found, sight| {
                let found = task_of(found);
                let next = board::add(found, add, new, unled, sight)?;
                let state = found.map_or(State::Queued, |task| task.state);
                let added = Added { id: id.clone(), repeated: next.is_none(), state };
                Ok((next.map(|task| (Item::Task(task), AgeStamp::Reset)), added))
            })
            .await
        };
        // A store that syncs many at once syncs these at once. All are waited for, also if one is refused: what was begun would be written later, when
        // nobody looks for it.
        let all: Vec<Result<Added, Error>> =
            stream::iter(add.tasks.iter().map(one)).buffered(64).collect().await;
        all.into_iter().collect()
    }

    async fn order_here(&self, id: &ItemName, order: &Order) -> Result<Item, Error> {
        let rules = self.rules_for(order).await?;
        if let Some(rules) = &rules {
            self.admit(rules, id, order).await?;
        }
        let task = self
            .change(Kind::Task, id, order.is_leaders(), |found, sight| {
                let task = task_of(found).ok_or_else(|| Kind::Task.no_such(id))?;
                let next = board::carry_out(task, order, sight)?;
                let answer = next.clone().unwrap_or_else(|| task.clone());
                Ok((next.map(|task| (Item::Task(task), AgeStamp::Preserve)), answer))
            })
            .await?;
        if let Some(rules) = &rules {
            // Who repeats the order after an error makes up for it.
            self.learn(rules, &task, order).await?;
        }
        Ok(Item::Task(task))
    }

    async fn propose_here(&self, propose: &Propose) -> Result<Item, Error> {
        self.check_room(Kind::Proposal, &propose.id).await?;
        self.change(Kind::Proposal, &propose.id, true, |found, sight| {
            let found = if let Some(Item::Proposal(found)) = found { Some(found) } else { None };
            let next = proposal::propose(found, propose, sight)?;
            answered(found, next, Item::Proposal)
        })
        .await
    }

    async fn rule_here(&self, id: &ItemName, ruling: &Ruling) -> Result<Item, Error> {
        self.change(Kind::Proposal, id, true, |found, sight| {
            let Some(Item::Proposal(found)) = found else { return Err(Kind::Proposal.no_such(id)) };
            answered(Some(found), proposal::rule(found, ruling, sight)?, Item::Proposal)
        })
        .await
    }

    async fn set_quota_here(&self, name: &ItemName, set: &SetQuota) -> Result<Item, Error> {
        self.check_room(Kind::Quota, name).await?;
        self.change(Kind::Quota, name, true, |found, sight| {
            let found = if let Some(Item::Quota(found)) = found { Some(found) } else { None };
            let written = quota::set(found, name, set, sight)?;
            let next = written.as_ref().map(|written| &written.next).or(found).cloned();
            let Some(next) = next else { unreachable!("what is not written is there") };
            Ok((written.map(of_quota), Item::Quota(next)))
        })
        .await
    }

    async fn put_here(&self, name: &ItemName, put: &Put) -> Result<Item, Error> {
        self.check_room(Kind::Value, name).await?;
        self.change(Kind::Value, name, true, |found, sight| {
            let found = if let Some(Item::Value(found)) = found { Some(found) } else { None };
            answered(found, value::put(found, name, put, sight)?, Item::Value)
        })
        .await
    }

    /// Refuses a new item where there are too many.
    pub(super) async fn check_room(&self, kind: Kind, name: &ItemName) -> Result<(), Error> {
        if self.item(kind, name).await?.is_some() {
            return Ok(());
        }
        let there = self.coordinator.local.store.list(&Prefix::Items(self.election.clone(), kind)).await?;
        Ok(kind.check_room(there.len())?)
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

fn task_of(found: Option<&Item>) -> Option<&Task> {
    match found {
        Some(Item::Task(task)) => Some(task),
        Some(_) | None => None,
    }
}

fn of_quota(written: quota::Written) -> (Item, AgeStamp) {
    (Item::Quota(written.next), if written.begins { AgeStamp::Reset } else { AgeStamp::Preserve })
}

/// What is written, if anything, and the item as it then is.
fn answered<T: Clone>(
    found: Option<&T>,
    next: Option<T>,
    of: fn(T) -> Item,
) -> Result<Decided<Item>, Refusal> {
    let Some(shown) = next.as_ref().or(found).cloned() else { unreachable!("what is not written is there") };
    Ok((next.map(|next| (of(next), AgeStamp::Preserve)), of(shown)))
}

#[cfg(test)]
mod tests {
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
