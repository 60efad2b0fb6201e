//! Circuit breakers beside the board: they learn from how tasks end, and bar who fails again and again.

use std::collections::BTreeSet;

use baton_election::time::Span;
use baton_election::usefulness::Breakers;
use baton_election::{AgentName, ItemName, Refusal};
use baton_store::toolbox::board::{self, Assign};
use baton_store::toolbox::breaker::{ANYTHING, Breaker, Counted, Scope, Standing, Written, name_of};
use baton_store::toolbox::{Item, Kind, Order, Query, Sight, Task};
use baton_store::{Clock, Key, boot};

use super::Toolbox;
use crate::error::Error;

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

    /// Who is not to be told to do a task, since its breaker for what the task takes is open.
    pub async fn barred(&self, task: &Task) -> Result<BTreeSet<AgentName>, Error> {
        let takes = capabilities(task);
        let open = |view: &BreakerView| {
            matches!(view.standing, Standing::Open(_)) && takes.contains(&view.breaker.capability.as_str())
        };
        Ok(self.breakers(None).await?.into_iter().filter(open).map(|view| view.breaker.agent).collect())
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
        for capability in capabilities(&task) {
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
                (Item::Breaker(next), if restarts { Clock::Restart } else { Clock::Keep })
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
