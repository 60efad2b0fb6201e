//! Circuit breakers beside the board: they learn from how tasks end, and bar who fails again and again: from more tasks, and from leading where the policy
//! says so.
//!
//! Whoever decides on the election looks at them, and puts what it saw into the command. A breaker that opens between the look and the swap is
//! not seen; where it ends a leadership, the leader is reported right after the failure that opened it. Who dies in between leaves that undone, until the
//! worker repeats its word, as it does after an error, or fails again, or somebody reports the leader.

use baton_api::elections::{CommandError, StartFrom};
use baton_election::command::{Finding, Report};
use baton_election::removal_rules::{Bars, Breakers};
use baton_election::time::Span;
use baton_election::{AgentName, ItemName, Refusal};
use baton_store::toolbox::board::{self, Assign};
use baton_store::toolbox::breaker::{Breaker, BreakerWrite, Counted, Scope, name_of};
use baton_store::toolbox::{Answer, Command, Item, Kind, Order, Sight, Task};
use baton_store::{AgeStamp, boot};

use super::Toolbox;
use crate::breakers::{capabilities, open_breakers};

impl Toolbox<'_> {
    /// What speaks against the leader after a command was carried out: that it is the worker who failed, and the policy ends its leadership for an open
    /// breaker.
    pub async fn against_leader(
        &self,
        command: &Command,
        answer: &Answer,
    ) -> Result<Option<Report>, CommandError> {
        let (Command::Order(_, Order::Fail(_)), Answer::Item(Item::Task(task))) = (command, answer) else {
            return Ok(None);
        };
        let Some(worker) = task.worker() else { return Ok(None) };
        let Some(document) = self.executor.see(self.election).await?.document else {
            return Ok(None);
        };
        let policy = &document.policy;
        let leads = document.leader.as_ref().filter(|leader| leader.agent == *worker);
        let ends = policy.breakers.as_ref().is_some_and(|breakers| breakers.bars == Bars::Leadership);
        let Some(leader) = leads.filter(|_| ends) else { return Ok(None) };
        let open = open_breakers(self.executor, self.election, worker, policy).await?;
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
    pub(super) async fn end_lead(&self, command: &Command, answer: &Answer) -> Result<(), CommandError> {
        let Some(report) = self.against_leader(command, answer).await? else { return Ok(()) };
        let report = baton_election::Command::Report(report);
        let reported = self.executor.run(self.patience, self.election, &report, StartFrom::Read).await;
        match reported {
            // What is refused is over already.
            Ok(_) | Err(CommandError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The policy's rules for breakers, if it has any.
    async fn rules(&self) -> Result<Option<Breakers>, CommandError> {
        let seen = self.executor.see(self.election).await?;
        Ok(seen.document.and_then(|document| document.policy.breakers.clone()))
    }

    /// The rules, if an order has to do with breakers.
    pub(super) async fn rules_for(&self, order: &Order) -> Result<Option<Breakers>, CommandError> {
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
    pub(super) async fn admit(
        &self,
        rules: &Breakers,
        id: &ItemName,
        order: &Order,
    ) -> Result<(), CommandError> {
        let Order::Assign(Assign { to: Some(to), .. }) = order else { return Ok(()) };
        let task = self.task(id).await?;
        let seen = self.executor.see(self.election).await?;
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
    pub(super) async fn learn(
        &self,
        rules: &Breakers,
        task: &Task,
        order: &Order,
    ) -> Result<(), CommandError> {
        let Some(agent) = task.worker() else { return Ok(()) };
        let counted = Counted { task: task.id.clone(), attempt: task.attempts.len() as u64 };
        for capability in capabilities(task) {
            match order {
                Order::Fail(fail) => {
                    if let Err(CommandError::Refused(_)) =
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
        decide: impl Fn(Option<&Breaker>, &Scope<'_>) -> Result<Option<BreakerWrite>, Refusal>,
    ) -> Result<(), CommandError> {
        let name = name_of(agent, capability);
        self.change(Kind::Breaker, &name, false, |found, sight: &Sight<'_>| {
            let found = if let Some(Item::Breaker(found)) = found { Some(found) } else { None };
            let scope = Scope {
                election: self.election,
                agent,
                capability,
                rules,
                age: sight.item_age,
                wall: boot::wall(),
            };
            let written = decide(found, &scope)?;
            let written = written.map(|BreakerWrite { next, restarts }| {
                (Item::Breaker(next), if restarts { AgeStamp::Reset } else { AgeStamp::Preserve })
            });
            Ok((written, ()))
        })
        .await
    }
}
