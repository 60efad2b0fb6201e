//! A command that shows a region is decided on what this engine knows of the region.
//!
//! The region is looked at before the election that is asked for is locked, so that two elections are never held at once. What happens to the
//! region between the look and the decision is not seen; the next renewal sees it.

use std::borrow::Cow;
use std::sync::Arc;

use baton_election::Command;
use baton_election::region::{Proof, RegionReading};
use baton_store::StoreError;

use super::{Engine, View};

impl Engine {
    /// The command with what is known here of the region that it shows, if it shows one.
    pub(super) async fn seeing_region<'a>(
        &self,
        command: &'a Command,
    ) -> Result<Cow<'a, Command>, StoreError> {
        let Some(shown) = command.region() else { return Ok(Cow::Borrowed(command)) };
        let seen = Box::pin(self.looked_at(shown)).await?;
        Ok(Cow::Owned(command.with_region(seen)))
    }

    async fn looked_at(&self, proof: &Proof) -> Result<Proof, StoreError> {
        let View { document, age } = self.view(&proof.election).await?;
        Ok(Proof { seen: Some(Arc::new(RegionReading { document, age })), ..proof.clone() })
    }
}
