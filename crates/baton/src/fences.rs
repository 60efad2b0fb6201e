//! The check where the work is done.

use baton_election::bindings::{FenceChange, SignedFenceOrder};
use baton_election::fence::{self, Accepted, Entry, Fence, LOG_PART, LOG_PARTS, Sight};
use baton_election::operator::OperatorKey;
use baton_election::{Credential, Document, ElectionName, Refusal, ResourceName, Span};
use baton_store::{AgeStamp, Key, Persistence, Prefix, Record, boot};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::local::{First, Look, Pace, Step};
use crate::there::insist;

/// How often an order is signed anew when others change the binding under it.
const MAX_ATTEMPTS: usize = 8;

/// A fence as it stands.
#[derive(Clone, Debug)]
pub struct FenceView {
    /// The fence itself.
    pub fence: Fence,
    /// A lower bound on the time since its last beat.
    pub age: Span,
}

impl Coordinator {
    /// Admits a token to a resource, or refuses it; what is accepted is logged in the same step.
    ///
    /// Without an election the one that the resource is bound to is asked.
    pub async fn admit(&self, entry: &Entry<'_>, election: Option<&ElectionName>) -> Result<Fence, Error> {
        if let Some(decider) = self.store().decider() {
            return insist(self.patience, || decider.admit(entry, election)).await;
        }
        let key = Key::Fence(entry.resource.clone());
        let election = match election {
            Some(election) => election.clone(),
            None => self.bound_election(entry.resource).await?,
        };
        // Every token that was admitted is in the log, also after a power cut.
        self.change_fence(&key, &election, Persistence::Durable, |found, sight| {
            fence::admit(found, entry, sight)
        })
        .await
    }

    /// Keeps a hold while its command runs; refused as soon as the token is not current.
    pub async fn keep_hold(
        &self,
        resource: &ResourceName,
        election: &ElectionName,
        mine: &Credential,
    ) -> Result<(), Error> {
        if let Some(decider) = self.store().decider() {
            return insist(self.patience, || decider.keep_hold(resource, election, mine)).await;
        }
        let key = Key::Fence(resource.clone());
        self.change_fence(&key, election, Persistence::Synced, |found, sight| match found {
            Some(found) => fence::keep(found, mine, sight),
            None => Err(gone(resource)),
        })
        .await?;
        Ok(())
    }

    /// Ends a hold. Its command has ended.
    pub async fn leave_hold(&self, resource: &ResourceName, mine: &Credential) -> Result<(), Error> {
        if let Some(decider) = self.store().decider() {
            return insist(self.patience, || decider.leave_hold(resource, mine)).await;
        }
        let key = Key::Fence(resource.clone());
        self.local
            .change(&key, self.patience, |look| match look.record {
                Some(Record::Fence(found)) => Ok(match fence::leave(found, mine)? {
                    Some(next) => {
                        Step::Write(Record::Fence(Box::new(next)), AgeStamp::Reset, Persistence::Synced, ())
                    }
                    None => Step::Done(()),
                }),
                Some(_) | None => Ok(Step::Done(())),
            })
            .await
    }

    /// Binds a resource to an election, or frees it, by the word of an operator. Signed anew as often as somebody else's order comes first.
    pub async fn change_binding(
        &self,
        by: &OperatorKey,
        resource: &ResourceName,
        change: &FenceChange,
    ) -> Result<Fence, Error> {
        let info = self.info().await?;
        let mut attempt = 1;
        loop {
            let found = self.fence(resource).await?.map(|view| view.fence);
            let order = by.sign_fence(&info, resource.clone(), found.as_ref(), change.clone());
            let orders = async || Ok::<_, Error>(self.fence(resource).await?.map(|view| view.fence.orders));
            match self.order_fence(&order).await {
                Err(Error::Refused(Refusal::Invalid { .. }))
                    if attempt < MAX_ATTEMPTS
                        && orders().await? != found.as_ref().map(|fence| fence.orders) =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Carries out a signed change of a resource's binding.
    pub async fn order_fence(&self, order: &SignedFenceOrder) -> Result<Fence, Error> {
        if let Some(decider) = self.store().decider() {
            return insist(self.patience, || decider.order_fence(order)).await;
        }
        // Who the operators are is asked anew: one who was removed orders nothing.
        let info = self.local.fresh_info(self.patience, false).await?;
        let key = Key::Fence(order.order.resource.clone());
        self.local
            .change(&key, self.patience, |look| {
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
    }

    /// A fence as it stands.
    pub async fn fence(&self, resource: &ResourceName) -> Result<Option<FenceView>, Error> {
        let key = Key::Fence(resource.clone());
        let reading = self.local.store.read(&key).await?;
        let age = self.local.memory().observe(&key, &reading);
        Ok(match reading.found {
            Some((Record::Fence(fence), _)) => Some(FenceView { fence: *fence, age }),
            Some(_) | None => None,
        })
    }

    /// All fences.
    pub async fn fences(&self) -> Result<Vec<ResourceName>, Error> {
        let keys = self.local.store.list(&Prefix::Fences).await?;
        let name = |key| if let Key::Fence(name) = key { Some(name) } else { None };
        Ok(keys.into_iter().filter_map(name).collect())
    }

    /// What a fence has accepted, the oldest first: at least the last 16,128 entries ([`LOG_PARTS`] parts less the one that is being replaced).
    pub async fn accepted(&self, resource: &ResourceName) -> Result<Vec<Accepted>, Error> {
        let Some(FenceView { fence, .. }) = self.fence(resource).await? else { return Ok(Vec::new()) };
        let first_here = fence.tail.first().map_or(0, |entry| entry.seq);
        let mut entries = Vec::new();
        let last = first_here / LOG_PART;
        for part in (last + 1).saturating_sub(LOG_PARTS)..=last {
            let reading = self.local.store.read(&Key::FenceLog(resource.clone(), part % LOG_PARTS)).await?;
            if let Some((Record::FenceLog(log), _)) = reading.found {
                let of_part = |entry: &Accepted| entry.seq < first_here && entry.seq / LOG_PART == part;
                entries.extend(log.entries.into_iter().filter(of_part));
            }
        }
        entries.extend(fence.tail);
        Ok(entries)
    }

    async fn bound_election(&self, resource: &ResourceName) -> Result<ElectionName, Error> {
        match self.fence(resource).await? {
            Some(view) => Ok(view.fence.election),
            None => Err(Refusal::invalid(
                format!("the resource `{resource}` is not bound to an election yet"),
                "name it at first use: --election ELECTION",
            )
            .into()),
        }
    }

    async fn guarded(&self, election: &ElectionName) -> Result<(Document, Span), Error> {
        let seen = self.local.see(election).await?;
        match seen.document {
            Some(document) => Ok((document, seen.age)),
            None => Err(Refusal::UnknownElection { election: election.to_string() }.into()),
        }
    }

    /// Every attempt looks at the election anew: a token must be current when it is accepted, not when it was first shown.
    async fn change_fence(
        &self,
        key: &Key,
        election: &ElectionName,
        persistence: Persistence,
        decide: impl Fn(Option<&Fence>, &Sight<'_>) -> Result<Fence, Refusal>,
    ) -> Result<Fence, Error> {
        let mut pace = Pace::new(self.patience);
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
                        Ok(Step::Write(
                            Record::Fence(Box::new(next.clone())),
                            AgeStamp::Reset,
                            persistence,
                            next,
                        ))
                    };
                    self.local.try_change(First::Look, key, &mut unknown, &mut step).await
                }
                Err(error) => Err(error),
            };
            match attempt {
                Err(Error::Store(error)) if error.is_passing() => pace.wait_after(error).await?,
                outcome => return outcome,
            }
        }
    }
}

fn gone(resource: &ResourceName) -> Refusal {
    Refusal::invalid(format!("the fence of `{resource}` is gone"), "the store was wiped")
}
