//! Commands on the toolbox, decided here and swapped.

use std::collections::BTreeSet;

use baton_api::Pace;
use baton_api::elections::{CommandError, Sighting, StartFrom};
use baton_election::time::Span;
use baton_election::{ItemName, Refusal};
use baton_store::toolbox::board::{self, MAX_UNLED};
use baton_store::toolbox::{
    AddTasks, Added, Answer, Command, Item, Kind, NewTask, Order, Propose, Put, Query, Ruling, SetQuota,
    Sight, State, Task, proposal, quota, value,
};
use baton_store::{AgeStamp, Key, Persistence, Record, boot};

use super::Toolbox;
use crate::executor::{Look, Step};

/// What is to be written, and what is answered once it is.
pub(super) type Decided<T> = (Option<(Item, AgeStamp)>, T);

impl Toolbox<'_> {
    /// Carries out a command. A leadership that it should end goes on: see [`Toolbox::against_leader`].
    pub async fn carry_out(&self, command: &Command) -> Result<Answer, CommandError> {
        match command {
            Command::Add(add) => self.add(add).await.map(Answer::Added),
            Command::Order(id, order) => self.order(id, order).await.map(Answer::Item),
            Command::Propose(propose) => self.propose(propose).await.map(Answer::Item),
            Command::Rule(id, ruling) => self.rule(id, ruling).await.map(Answer::Item),
            Command::SetQuota(name, set) => self.set_quota(name, set).await.map(Answer::Item),
            Command::Draw(name, draw) => self
                .change(Kind::Quota, name, false, |found, sight| {
                    let Some(Item::Quota(found)) = found else { return Err(Kind::Quota.no_such(name)) };
                    let (written, drawn) = quota::draw(found, draw, sight)?;
                    Ok((written.map(of_quota), drawn))
                })
                .await
                .map(Answer::Drawn),
            Command::Put(name, put) => self.put(name, put).await.map(Answer::Item),
        }
    }

    /// Reads the election if that is needed, reads the item, decides, and swaps; again and again, until it is done or refused.
    pub(super) async fn change<T>(
        &self,
        kind: Kind,
        name: &ItemName,
        needs_election: bool,
        decide: impl Fn(Option<&Item>, &Sight<'_>) -> Result<Decided<T>, Refusal>,
    ) -> Result<T, CommandError> {
        let (executor, patience) = (self.executor, self.patience);
        let key = Key::Item(self.election.clone(), kind, name.clone());
        let (mut pace, mut unknown) = (Pace::new(patience), None);
        loop {
            let tried = async {
                let seen = if needs_election { Some(executor.see(self.election).await?) } else { None };
                let mut step = |look: Look<'_>| {
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
                executor.try_change(StartFrom::Read, &key, &mut unknown, &mut step).await
            };
            match tried.await {
                Err(CommandError::Store(error)) if error.is_passing() => pace.wait_after(error).await?,
                outcome => return outcome,
            }
        }
    }

    pub(super) fn sight<'s>(&'s self, seen: Option<&'s Sighting>, item_age: Span) -> Sight<'s> {
        Sight {
            election: self.election,
            document: seen.and_then(|seen| seen.document.as_ref()),
            document_age: seen.map_or(Span::ZERO, |seen| seen.age),
            item_age,
            wall: boot::wall(),
        }
    }

    async fn add(&self, add: &AddTasks) -> Result<Vec<Added>, CommandError> {
        add.check()?;
        let there = self.keys(Kind::Task).await?;
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
    pub async fn add_decided(&self, add: &AddTasks, unled: u64) -> Result<Vec<Added>, CommandError> {
        use futures_util::{StreamExt, stream};
        let one = async |new: &NewTask| -> Result<Added, CommandError> {
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
        let all: Vec<Result<Added, CommandError>> =
            stream::iter(add.tasks.iter().map(one)).buffered(64).collect().await;
        all.into_iter().collect()
    }

    async fn order(&self, id: &ItemName, order: &Order) -> Result<Item, CommandError> {
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

    async fn propose(&self, propose: &Propose) -> Result<Item, CommandError> {
        self.check_room(Kind::Proposal, &propose.id).await?;
        self.change(Kind::Proposal, &propose.id, true, |found, sight| {
            let found = if let Some(Item::Proposal(found)) = found { Some(found) } else { None };
            let next = proposal::propose(found, propose, sight)?;
            answered(found, next, Item::Proposal)
        })
        .await
    }

    async fn rule(&self, id: &ItemName, ruling: &Ruling) -> Result<Item, CommandError> {
        self.change(Kind::Proposal, id, true, |found, sight| {
            let Some(Item::Proposal(found)) = found else { return Err(Kind::Proposal.no_such(id)) };
            answered(Some(found), proposal::rule(found, ruling, sight)?, Item::Proposal)
        })
        .await
    }

    async fn set_quota(&self, name: &ItemName, set: &SetQuota) -> Result<Item, CommandError> {
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

    async fn put(&self, name: &ItemName, put: &Put) -> Result<Item, CommandError> {
        self.check_room(Kind::Value, name).await?;
        self.change(Kind::Value, name, true, |found, sight| {
            let found = if let Some(Item::Value(found)) = found { Some(found) } else { None };
            answered(found, value::put(found, name, put, sight)?, Item::Value)
        })
        .await
    }

    /// Refuses a new item where there are too many.
    pub(super) async fn check_room(&self, kind: Kind, name: &ItemName) -> Result<(), CommandError> {
        if self.item(kind, name).await?.is_some() {
            return Ok(());
        }
        let there = self.keys(kind).await?;
        Ok(kind.check_room(there.len())?)
    }
}

fn task_of(found: Option<&Item>) -> Option<&Task> {
    match found {
        Some(Item::Task(task)) => Some(task),
        Some(_) | None => None,
    }
}

fn of_quota(written: quota::QuotaWrite) -> (Item, AgeStamp) {
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
