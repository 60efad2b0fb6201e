//! A command that shows a region is decided on what this engine knows of the region.
//!
//! The region is looked at before the election that is asked for is locked, so that two elections are never held at once. What happens to the
//! region between the look and the decision is not seen; the next renewal sees it.

use std::borrow::Cow;
use std::sync::Arc;

use baton_election::Command;
use baton_election::command::{Acquire, Renew};
use baton_election::region::{Proof, RegionReading};
use baton_store::StoreError;

use super::{Engine, View};

impl Engine {
    /// The command with what is known here of the region that it shows, if it shows one.
    pub(super) async fn seeing_region<'a>(
        &self,
        command: &'a Command,
    ) -> Result<Cow<'a, Command>, StoreError> {
        Ok(match command {
            Command::Acquire(acquire @ Acquire { region: Some(proof), .. }) => {
                let region = Some(Box::pin(self.looked_at(proof)).await?);
                Cow::Owned(Command::Acquire(Acquire { region, ..acquire.clone() }))
            }
            Command::Renew(renew @ Renew { region: Some(proof), .. }) => {
                let region = Some(Box::pin(self.looked_at(proof)).await?);
                Cow::Owned(Command::Renew(Renew { region, ..renew.clone() }))
            }
            Command::Acquire(_)
            | Command::Renew(_)
            | Command::Release(_)
            | Command::Pass(_)
            | Command::Checkpoint(_)
            | Command::Acknowledge(_)
            | Command::Report(_)
            | Command::Operate(_) => Cow::Borrowed(command),
        })
    }

    async fn looked_at(&self, proof: &Proof) -> Result<Proof, StoreError> {
        let View { document, age } = self.view(&proof.election).await?;
        Ok(Proof { seen: Some(Arc::new(RegionReading { document, age })), ..proof.clone() })
    }
}
