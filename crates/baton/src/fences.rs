//! The check where the work is done.

use baton_election::bindings::{FenceChange, SignedFenceOrder};
use baton_election::fence::{Accepted, Entry, Fence, LOG_PART, LOG_PARTS};
use baton_election::operator::OperatorKey;
use baton_election::{Credential, ElectionName, Refusal, ResourceName, Span};
use baton_store::{Key, Prefix, Record};

use crate::coordinator::Coordinator;
use crate::error::Error;

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

/// The fences of the resources of a store.
#[derive(Clone, Copy)]
pub struct Fences<'a>(pub(crate) &'a Coordinator);

impl Coordinator {
    /// The fences: checked where the work is done, and bound to elections.
    pub fn fences(&self) -> Fences<'_> {
        Fences(self)
    }
}

impl Fences<'_> {
    /// Admits a token to a resource, or refuses it; what is accepted is logged in the same step.
    ///
    /// Without an election the one that the resource is bound to is asked.
    pub async fn admit(self, entry: &Entry<'_>, election: Option<&ElectionName>) -> Result<Fence, Error> {
        Ok(self.0.backend.fences()?.admit(self.0.patience, entry, election).await?)
    }

    /// Keeps a hold while its command runs; refused as soon as the token is not current.
    pub async fn keep(
        self,
        resource: &ResourceName,
        election: &ElectionName,
        mine: &Credential,
    ) -> Result<(), Error> {
        Ok(self.0.backend.fences()?.keep_hold(self.0.patience, resource, election, mine).await?)
    }

    /// Ends a hold. Its command has ended.
    pub async fn leave(self, resource: &ResourceName, mine: &Credential) -> Result<(), Error> {
        Ok(self.0.backend.fences()?.leave_hold(self.0.patience, resource, mine).await?)
    }

    /// Binds a resource to an election, or frees it, by the word of an operator. Signed anew as often as somebody else's order comes first.
    pub async fn bind(
        self,
        by: &OperatorKey,
        resource: &ResourceName,
        change: &FenceChange,
    ) -> Result<Fence, Error> {
        let info = self.0.info().await?;
        let mut attempt = 1;
        loop {
            let found = self.get(resource).await?.map(|view| view.fence);
            let order = by.sign_fence(&info, resource.clone(), found.as_ref(), change.clone());
            let orders = async || Ok::<_, Error>(self.get(resource).await?.map(|view| view.fence.orders));
            match self.order(&order).await {
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
    pub async fn order(self, order: &SignedFenceOrder) -> Result<Fence, Error> {
        Ok(self.0.backend.fences()?.order_fence(self.0.patience, order).await?)
    }

    /// A fence as it stands.
    pub async fn get(self, resource: &ResourceName) -> Result<Option<FenceView>, Error> {
        let key = Key::Fence(resource.clone());
        let reading = self.0.backend.read(&key).await?;
        let age = self.0.backend.memory().lock().observe(&key, &reading);
        Ok(match reading.found {
            Some((Record::Fence(fence), _)) => Some(FenceView { fence: *fence, age }),
            Some(_) | None => None,
        })
    }

    /// All fences.
    pub async fn list(self) -> Result<Vec<ResourceName>, Error> {
        let keys = self.0.backend.list(&Prefix::Fences).await?;
        let name = |key| if let Key::Fence(name) = key { Some(name) } else { None };
        Ok(keys.into_iter().filter_map(name).collect())
    }

    /// What a fence has accepted, the oldest first: at least the last 16,128 entries ([`LOG_PARTS`] parts less the one that is being replaced).
    pub async fn accepted(self, resource: &ResourceName) -> Result<Vec<Accepted>, Error> {
        let Some(FenceView { fence, .. }) = self.get(resource).await? else { return Ok(Vec::new()) };
        let first_here = fence.tail.first().map_or(0, |entry| entry.seq);
        let mut entries = Vec::new();
        let last = first_here / LOG_PART;
        for part in (last + 1).saturating_sub(LOG_PARTS)..=last {
            let reading = self.0.backend.read(&Key::FenceLog(resource.clone(), part % LOG_PARTS)).await?;
            if let Some((Record::FenceLog(log), _)) = reading.found {
                let of_part = |entry: &Accepted| entry.seq < first_here && entry.seq / LOG_PART == part;
                entries.extend(log.entries.into_iter().filter(of_part));
            }
        }
        entries.extend(fence.tail);
        Ok(entries)
    }
}
