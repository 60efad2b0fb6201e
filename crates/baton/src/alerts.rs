//! What a server warns of, and when its access tokens were used.

use baton_api::alerts::Alerts;
use baton_api::retried;

use crate::coordinator::Coordinator;
use crate::error::Error;

impl Coordinator {
    /// What is wrong with elections, as the server sees it. Without a server nobody looks.
    pub async fn alerts(&self) -> Result<Alerts, Error> {
        let warns = self.backend.warns();
        let warns = warns.ok_or_else(|| {
            baton_election::Refusal::invalid(
                format!("{} warns of nothing: nobody looks after its elections", self.backend.location()),
                "alerts are a server's: --store http://HOST:PORT",
            )
        })?;
        Ok(retried(self.patience, || warns.alerts()).await?)
    }
}
