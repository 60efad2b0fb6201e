//! The check where the work is done.

use baton_api::elections::{BoxResult, CommandError, Fences, StartFrom};
use baton_api::{Pace, Patience};
use baton_election::bindings::SignedFenceOrder;
use baton_election::fence::{self, Entry, Fence, Sight};
use baton_election::{Credential, Document, ElectionName, Refusal, ResourceName, Span};
use baton_store::{AgeStamp, Key, Persistence, Record, boot};

use crate::executor::{Executor, Look, Step};

impl Fences for Executor {
    fn admit<'a>(
        &'a self,
        patience: Patience,
        entry: &'a Entry<'a>,
        election: Option<&'a ElectionName>,
    ) -> BoxResult<'a, Fence> {
        Box::pin(async move {
            let key = Key::Fence(entry.resource.clone());
            let election = match election {
                Some(election) => election.clone(),
                None => self.bound_election(entry.resource).await?,
            };
            // Every token that was admitted is in the log, also after a power cut.
            self.change_fence(patience, &key, &election, Persistence::Durable, |found, sight| {
                fence::admit(found, entry, sight)
            })
            .await
        })
    }

    fn keep_hold<'a>(
        &'a self,
        patience: Patience,
        resource: &'a ResourceName,
        election: &'a ElectionName,
        mine: &'a Credential,
    ) -> BoxResult<'a, ()> {
        Box::pin(async move {
            let key = Key::Fence(resource.clone());
            let kept =
                self.change_fence(
                    patience,
                    &key,
                    election,
                    Persistence::Synced,
                    |found, sight| match found {
                        Some(found) => fence::keep(found, mine, sight),
                        None => Err(gone(resource)),
                    },
                );
            kept.await.map(drop)
        })
    }

    fn leave_hold<'a>(
        &'a self,
        patience: Patience,
        resource: &'a ResourceName,
        mine: &'a Credential,
    ) -> BoxResult<'a, ()> {
        Box::pin(async move {
            let key = Key::Fence(resource.clone());
            self.change(&key, patience, |look| match look.record {
                Some(Record::Fence(found)) => Ok(match fence::leave(found, mine)? {
                    Some(next) => {
                        Step::Write(Record::Fence(Box::new(next)), AgeStamp::Reset, Persistence::Synced, ())
                    }
                    None => Step::Done(()),
                }),
                Some(_) | None => Ok(Step::Done(())),
            })
            .await
        })
    }

    fn order_fence<'a>(&'a self, patience: Patience, order: &'a SignedFenceOrder) -> BoxResult<'a, Fence> {
        Box::pin(async move {
            // Who the operators are is asked anew: one who was removed orders nothing.
            let info = self.fresh_info(patience, false).await?;
            let key = Key::Fence(order.order.resource.clone());
            self.change(&key, patience, |look| {
                let found = match look.record {
                    Some(Record::Fence(found)) => Some(&**found),
                    Some(_) | None => None,
                };
                let next = order.carry_out(found, &info, boot::wall())?;
                Ok(if found == Some(&next) {
                    Step::Done(next)
                } else {
                    // A hold that runs goes on lapsing.
                    Step::Write(
                        Record::Fence(Box::new(next.clone())),
                        AgeStamp::Preserve,
                        Persistence::Durable,
                        next,
                    )
                })
            })
            .await
        })
    }
}

impl Executor {
    async fn bound_election(&self, resource: &ResourceName) -> Result<ElectionName, CommandError> {
        match self.store.read(&Key::Fence(resource.clone())).await?.found {
            Some((Record::Fence(fence), _)) => Ok(fence.election),
            Some(_) | None => Err(Refusal::invalid(
                format!("the resource `{resource}` is not bound to an election yet"),
                "name it at first use: --election ELECTION",
            )
            .into()),
        }
    }

    async fn guarded(&self, election: &ElectionName) -> Result<(Document, Span), CommandError> {
        let seen = self.see(election).await?;
        match seen.document {
            Some(document) => Ok((document, seen.age)),
            None => Err(Refusal::UnknownElection { election: election.to_string() }.into()),
        }
    }

    /// Every attempt looks at the election anew: a token must be current when it is accepted, not when it was first shown.
    async fn change_fence(
        &self,
        patience: Patience,
        key: &Key,
        election: &ElectionName,
        persistence: Persistence,
        decide: impl Fn(Option<&Fence>, &Sight<'_>) -> Result<Fence, Refusal>,
    ) -> Result<Fence, CommandError> {
        let mut pace = Pace::new(patience);
        let mut unknown = None;
        loop {
            let attempt = match self.guarded(election).await {
                Ok((document, document_age)) => {
                    let mut step = |look: Look<'_>| {
                        let fence_age = look.age;
                        let found = match look.record {
                            Some(Record::Fence(found)) => Some(&**found),
                            Some(_) | None => None,
                        };
                        let sight =
                            Sight { document: &document, document_age, fence_age, wall: boot::wall() };
                        let next = decide(found, &sight)?;
                        let record = Record::Fence(Box::new(next.clone()));
                        Ok(Step::Write(record, AgeStamp::Reset, persistence, next))
                    };
                    self.try_change(StartFrom::Read, key, &mut unknown, &mut step).await
                }
                Err(error) => Err(error),
            };
            match attempt {
                Err(CommandError::Store(error)) if error.is_passing() => pace.wait_after(error).await?,
                outcome => return outcome,
            }
        }
    }
}

fn gone(resource: &ResourceName) -> Refusal {
    Refusal::invalid(format!("the fence of `{resource}` is gone"), "the store was wiped")
}
