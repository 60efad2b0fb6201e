//! Circuit breakers beside the board: they learn from how tasks end, and bar who fails again and again: from more tasks, and from leading where the policy
//! says so.
//!
//! Whoever decides on the election looks at them, and puts what it saw into the command. A breaker that opens between the look and the swap is
//! not seen; where it ends a leadership, the leader is reported right after the failure that opened it. Who dies in between leaves that undone, until the
//! worker repeats its word, as it does after an error, or fails again, or somebody reports the leader.

use std::collections::BTreeSet;

use baton_election::command::{Finding, Report};
use baton_election::policy::Policy;
use baton_election::removal_rules::{Bars, Breakers, OpenBreaker};
use baton_election::time::Span;
use baton_election::{AgentName, Document, ElectionName, Epoch, ItemName, Refusal, StoreId};
use baton_store::toolbox::board::{self, Assign};
use baton_store::toolbox::breaker::{ANYTHING, Breaker, Counted, Scope, Standing, Written, name_of};
use baton_store::toolbox::{Answer, Command, Item, Kind, Order, Query, Sight, Task};
use baton_store::{AgeStamp, Key, Record, boot};

use super::Toolbox;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::local::First;

/// A circuit breaker, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerView {
    /// The breaker.
    pub breaker: Breaker,
    /// How it stands; closed if the policy has no breakers.
    pub standing: Standing,
}

impl Toolbox {
    /// The circuit breakers of all agents, or of one, as they stand.
    pub async fn breakers(&self, agent: Option<&AgentName>) -> Result<Vec<BreakerView>, Error> {
        let rules = self.rules().await?;
        let query = Query { agent: agent.cloned(), ..Query::default() };
        let mut found = Vec::new();
        for item in self.all(Kind::Breaker, &query).await? {
            let Item::Breaker(breaker) = item else { continue };
            let age = self.age_of(&breaker.name).await?;
            let standing = rules.as_ref().map_or(Standing::Closed, |rules| breaker.standing(rules, age));
            found.push(BreakerView { breaker, standing });
        }
        Ok(found)
    }

    /// The agents that are not to be told to do a task, since their breaker for what the task takes is open.
    pub async fn barred(&self, task: &Task) -> Result<BTreeSet<AgentName>, Error> {
        let takes = capabilities(task);
        let open = |view: &BreakerView| {
            matches!(view.standing, Standing::Open(_)) && takes.contains(&view.breaker.capability.as_str())
        };
        Ok(self.breakers(None).await?.into_iter().filter(open).map(|view| view.breaker.agent).collect())
    }

    /// The breakers of an agent that are open and may bar it from leading under this policy; none if the policy does not look at them.
    pub async fn open_breakers(&self, agent: &AgentName, policy: &Policy) -> Result<Vec<OpenBreaker>, Error> {
        let Some(rules) = policy.breakers.as_ref().filter(|_| policy.looks_at_breakers()) else {
            return Ok(Vec::new());
        };
        let names: Vec<ItemName> = match policy.needs.is_empty() {
            false => policy.needs.iter().map(|capability| name_of(agent, capability)).collect(),
            true => {
                let query = Query { agent: Some(agent.clone()), ..Query::default() };
                let all = self.all(Kind::Breaker, &query).await?;
                all.iter().map(|item| item.place().1.clone()).collect()
            }
        };
        let mut open = Vec::new();
        for name in names {
            let key = Key::Item(self.election.clone(), Kind::Breaker, name);
            let local = &self.coordinator.local;
            let reading = local.store.read(&key).await?;
            let age = local.memory().observe(&key, &reading);
            let Some(Record::Item(item)) = reading.record() else { continue };
            if let Item::Breaker(breaker) = &**item {
                open.extend(breaker.open(rules, age));
            }
        }
        Ok(open)
    }

    /// What speaks against the leader after a command was carried out: that it is the worker who failed, and the policy ends its leadership for an open
    /// breaker. For the process that decides on the election itself.
    pub async fn against_leader(&self, command: &Command, answer: &Answer) -> Result<Option<Report>, Error> {
        let (Command::Order(_, Order::Fail(_)), Answer::Item(Item::Task(task))) = (command, answer) else {
            return Ok(None);
        };
        let Some(worker) = task.worker() else { return Ok(None) };
        let Some(document) = self.coordinator.local.see(&self.election).await?.document else {
            return Ok(None);
        };
        let policy = &document.policy;
        let leads = document.leader.as_ref().filter(|leader| leader.agent == *worker);
        let ends = policy.breakers.as_ref().is_some_and(|breakers| breakers.bars == Bars::Leadership);
        let Some(leader) = leads.filter(|_| ends) else { return Ok(None) };
        let open = self.open_breakers(worker, policy).await?;
        Ok(policy.barring(&open).is_some().then(|| Report {
            epoch: leader.epoch,
            finding: Finding::Breaker,
            detail: String::new(),
            by: worker.clone(),
            credential: None,
            number: None,
            checkpoint: None,
            open: Some(open.clone()),
        }))
    }

    /// Ends the leadership of a worker that failed, where that is decided here and the policy says so.
    pub(super) async fn end_lead(&self, command: &Command, answer: &Answer) -> Result<(), Error> {
        let Some(report) = self.against_leader(command, answer).await? else { return Ok(()) };
        let coordinator = &self.coordinator;
        let make =
            |_: Option<&Document>, _: StoreId, _: Epoch| baton_election::Command::Report(report.clone());
        let reported =
            coordinator.local.execute(&self.election, coordinator.patience, First::Look, &make).await;
        match reported {
            // What is refused is over already.
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The policy's rules for breakers, if it has any.
    async fn rules(&self) -> Result<Option<Breakers>, Error> {
        let seen = self.coordinator.local.see(&self.election).await?;
        Ok(seen.document.and_then(|document| document.policy.breakers.clone()))
    }

    async fn age_of(&self, name: &ItemName) -> Result<Span, Error> {
        let key = Key::Item(self.election.clone(), Kind::Breaker, name.clone());
        let local = &self.coordinator.local;
        let reading = local.store.read(&key).await?;
        Ok(local.memory().observe(&key, &reading))
    }

    /// The rules, if an order has to do with breakers.
    pub(super) async fn rules_for(&self, order: &Order) -> Result<Option<Breakers>, Error> {
        match order {
            Order::Assign(Assign { to: Some(_), .. }) | Order::Complete(_) | Order::Fail(_) => {
                self.rules().await
            }
            // To give an instruction again is no new one.
            Order::Assign(Assign { to: None, .. })
            | Order::Adopt(_)
            | Order::Retry(_)
            | Order::Cancel(_)
            | Order::Accept(_)
            | Order::Progress(_) => Ok(None),
        }
    }

    /// Refuses to assign a task to whom it is barred.
    pub(super) async fn admit(&self, rules: &Breakers, id: &ItemName, order: &Order) -> Result<(), Error> {
        let Order::Assign(Assign { to: Some(to), .. }) = order else { return Ok(()) };
        let task = self.task(id).await?;
        let seen = self.coordinator.local.see(&self.election).await?;
        // What would be refused anyway uses up no probe, and what was said before needs none.
        if board::carry_out(&task, order, &self.sight(Some(&seen), Span::ZERO))?.is_none() {
            return Ok(());
        }
        let takes = capabilities(&task);
        if takes.len() > 1 {
            // All are looked at first: a probe that one of them lets through must not be used up by another that refuses.
            for capability in &takes {
                self.breaker(to, capability, rules, |found, scope| scope.admit(found).map(|_| None)).await?;
            }
        }
        for capability in takes {
            self.breaker(to, capability, rules, |found, scope| scope.admit(found)).await?;
        }
        Ok(())
    }

    /// Takes in how a task ended.
    pub(super) async fn learn(&self, rules: &Breakers, task: &Task, order: &Order) -> Result<(), Error> {
        let Some(agent) = task.worker() else { return Ok(()) };
        let counted = Counted { task: task.id.clone(), attempt: task.attempts.len() as u64 };
        for capability in capabilities(task) {
            match order {
                Order::Fail(fail) => {
                    if let Err(Error::Refused(_)) =
                        self.check_room(Kind::Breaker, &name_of(agent, capability)).await
                    {
                        // There are too many already: nobody is barred by one more.
                        continue;
                    }
                    let learned = self.breaker(agent, capability, rules, |found, scope| {
                        Ok(scope.failed(found, counted.clone(), &fail.reason))
                    });
                    learned.await?;
                }
                Order::Complete(_) => {
                    let learned =
                        self.breaker(agent, capability, rules, |found, scope| Ok(scope.succeeded(found)));
                    learned.await?;
                }
                Order::Assign(_)
                | Order::Adopt(_)
                | Order::Retry(_)
                | Order::Cancel(_)
                | Order::Accept(_)
                | Order::Progress(_) => {}
            }
        }
        Ok(())
    }

    /// Changes one breaker.
    async fn breaker(
        &self,
        agent: &AgentName,
        capability: &str,
        rules: &Breakers,
        decide: impl Fn(Option<&Breaker>, &Scope<'_>) -> Result<Option<Written>, Refusal>,
    ) -> Result<(), Error> {
        let name = name_of(agent, capability);
        self.change(Kind::Breaker, &name, false, |found, sight: &Sight<'_>| {
            let found = if let Some(Item::Breaker(found)) = found { Some(found) } else { None };
            let scope = Scope {
                election: &self.election,
                agent,
                capability,
                rules,
                age: sight.item_age,
                wall: boot::wall(),
            };
            let written = decide(found, &scope)?;
            let written = written.map(|Written { next, restarts }| {
                (Item::Breaker(next), if restarts { AgeStamp::Reset } else { AgeStamp::Preserve })
            });
            Ok((written, ()))
        })
        .await
    }
}

/// What a task takes of whoever does it.
fn capabilities(task: &Task) -> Vec<&str> {
    match task.needs.is_empty() {
        true => vec![ANYTHING],
        false => task.needs.iter().map(String::as_str).collect(),
    }
}

impl Coordinator {
    /// The open breakers of a candidate, or of the leader if no agent is named, as far as the policy looks at
    /// them.
    pub(crate) async fn look_at_breakers(
        &self,
        election: &ElectionName,
        agent: Option<&AgentName>,
    ) -> Result<Vec<OpenBreaker>, Error> {
        let Some(document) = self.local.see(election).await?.document else { return Ok(Vec::new()) };
        let leader = document.leader.as_ref().map(|leader| &leader.agent);
        match agent.or(leader) {
            Some(agent) => self.toolbox(election).open_breakers(agent, &document.policy).await,
            None => Ok(Vec::new()),
        }
    }
}
