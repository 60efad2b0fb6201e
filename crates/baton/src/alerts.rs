//! What a server warns of, and when its access tokens were used.

use std::collections::BTreeMap;

use baton_api::alerts::Alerts;
use baton_api::retried;
use baton_api::uses::TokenUse;
use baton_election::TokenId;

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

    /// The last use of each access token that was used since the server began. None without a server.
    pub async fn token_uses(&self) -> Result<Option<BTreeMap<TokenId, TokenUse>>, Error> {
        match self.backend.uses() {
            Some(uses) => Ok(Some(retried(self.patience, || uses.uses()).await?)),
            None => Ok(None),
        }
    }
}
