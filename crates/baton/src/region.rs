//! A region that an agent leads, under which it may lead the election above.
//!
//! Assumes that whoever makes one tells the region's deadline as the region's own holder knows it, or an earlier one. Guarantees that what is led
//! under it has no later deadline than it, and that each grant and renewal shows the region's lease. Does not guarantee that the fleet's token is refused
//! in the moment in which the region is lost: see `baton_election::region`.

use std::fmt;
use std::sync::Arc;

use baton_api::elections::Decides;
use baton_api::served;
use baton_election::region::{Proof, RegionReading};
use baton_election::time::{Moment, Span};
use baton_election::{Credential, ElectionName, Refusal};
use baton_store::boot;
use tokio::sync::watch;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::leadership::{Leadership, Validity};
use crate::lease_state::Status;

/// A region that this agent leads.
#[derive(Clone)]
pub struct Region {
    /// A client of the store that the region is in.
    coordinator: Coordinator,
    election: ElectionName,
    credential: Credential,
    ttl: Span,
    validity: watch::Receiver<Validity>,
    /// How its leadership stands, where that is known in this process.
    status: Option<watch::Receiver<Status>>,
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("election", &self.election).finish_non_exhaustive()
    }
}

impl Region {
    /// The one that is led here. Give back what is led under it before it.
    pub fn of(lead: &Leadership) -> Region {
        Region {
            status: Some(lead.status()),
            ..Region::led(
                lead.coordinator(),
                lead.election(),
                lead.credential(),
                lead.grant().ttl,
                lead.validity(),
            )
        }
    }

    /// One that another process renews: `validity` tells what is heard of that. When nothing more is heard, the last deadline stands.
    pub fn led(
        coordinator: &Coordinator,
        election: &ElectionName,
        credential: Credential,
        ttl: Span,
        validity: watch::Receiver<Validity>,
    ) -> Region {
        let (coordinator, election) = (coordinator.clone(), election.clone());
        Region { coordinator, election, credential, ttl, validity, status: None }
    }

    /// Its name.
    pub fn election(&self) -> &ElectionName {
        &self.election
    }

    /// How long its lease lasts after each renewal.
    pub fn ttl(&self) -> Span {
        self.ttl
    }

    /// When whatever is done under it must have stopped, unless it is renewed.
    pub fn deadline(&self) -> Moment {
        if self.lost().is_some() { Moment::default() } else { self.validity.borrow().deadline }
    }

    /// Why it is lost, where that is known in this process.
    pub(crate) fn lost(&self) -> Option<String> {
        match &*self.status.as_ref()?.borrow() {
            Status::Lost(why) => Some(format!("it lost {}: {why}", self.election)),
            Status::Safe | Status::Jeopardy(_) | Status::AwaitingApproval => None,
        }
    }

    /// What is shown of it.
    pub(crate) fn proof(&self) -> Proof {
        let (election, epoch) = (self.election.clone(), self.validity.borrow().token);
        Proof { election, epoch, credential: self.credential, seen: None }
    }

    /// The proof of this region's lease that a renewal of the election above carries, with the region document that the committer read. A
    /// server reads that document itself.
    ///
    /// # Errors
    /// [`Error::Store`] if the region cannot be looked at; [`Error::Refused`] where there are no regions.
    pub async fn shown_to(&self, fleet: &Coordinator) -> Result<Proof, Error> {
        match fleet.decides() {
            Decides::Here => {}
            Decides::Server => return Ok(self.proof()),
            Decides::Store => {
                return Err(Error::Refused(Refusal::invalid(
                    "the elections of this store know no regions",
                    "keep the election above in a store that Baton decides on",
                )));
            }
        }
        let region = &self.coordinator.backend;
        let seen = region.view(&self.election).await?;
        // How old a lease is that servers decide on, only they know.
        served::only_unserved(seen.document.as_ref(), &|| region.location())?;
        let seen = RegionReading { document: seen.document, age: seen.age };
        Ok(Proof { seen: Some(Arc::new(seen)), ..self.proof() })
    }

    /// Waits for the next news of it. Says why it is lost, if it is.
    pub(crate) async fn changed(&mut self) -> Option<String> {
        let here = self.status.is_some();
        let status = &mut self.status;
        let stands = async {
            match status {
                Some(status) => lost(status).await,
                None => std::future::pending().await,
            }
        };
        let validity = &mut self.validity;
        tokio::select! {
            why = stands => Some(format!("it lost {}: {why}", self.election)),
            told = validity.changed() => match told {
                Ok(()) => None,
                Err(_) if here => Some(format!("{} is not renewed any more", self.election)),
                // The last deadline stands; whoever waits for it sees it pass.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Waits until it is lost, and says why.
    pub(crate) async fn over(&self) -> String {
        let mut heard = self.clone();
        loop {
            let deadline = heard.deadline();
            if let Some(why) = heard.lost() {
                return why;
            }
            if boot::now() >= deadline {
                return format!("the lease of {} was not renewed in time", self.election);
            }
            tokio::select! {
                why = heard.changed() => if let Some(why) = why { return why },
                _ = boot::sleep_until(deadline) => {}
            }
        }
    }
}

async fn lost(status: &mut watch::Receiver<Status>) -> String {
    loop {
        if let Status::Lost(why) = &*status.borrow_and_update() {
            return why.clone();
        }
        if status.changed().await.is_err() {
            return "its renewals have stopped".to_string();
        }
    }
}
