//! What a server warns of.

use baton_store::alerts::Alerts;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::there::insist;

impl Coordinator {
    /// What is wrong with elections, as the server sees it. Without a server nobody looks.
    pub async fn alerts(&self) -> Result<Alerts, Error> {
        let warns = self.store().decider().and_then(|decider| decider.warns());
        let warns = warns.ok_or_else(|| {
            baton_election::Refusal::invalid(
                format!("{} warns of nothing: nobody looks after its elections", self.store().location()),
                "alerts are a server's: --store http://HOST:PORT",
            )
        })?;
        insist(self.patience, || warns.alerts()).await
    }
}
