//! What a server warns of, and when its access tokens were used.

use std::collections::BTreeMap;

use baton_api::alerts::Alerts;
use baton_api::uses::TokenUse;
use baton_election::TokenId;

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

    /// The last use of each access token that was used since the server began. None without a server.
    pub async fn token_uses(&self) -> Result<Option<BTreeMap<TokenId, TokenUse>>, Error> {
        match self.store().decider().and_then(|decider| decider.uses()) {
            Some(uses) => insist(self.patience, || uses.uses()).await.map(Some),
            None => Ok(None),
        }
    }
}
