//! What the server warns of, and when its access tokens were used.

use std::collections::BTreeMap;

use baton_api::alerts::Alerts;
use baton_api::elections::{BoxResult, Uses, Warns};
use baton_api::endpoints::Endpoint;
use baton_api::records::TokensResponse;
use baton_api::uses::TokenUse;
use baton_election::TokenId;

use crate::records::HttpElections;

impl Warns for HttpElections {
    fn alerts(&self) -> BoxResult<'_, Alerts> {
        Box::pin(async move {
            let shown = self.client.get(&Endpoint::Alerts.target(&[])).await;
            shown.map_err(|fault| fault.of_reading(&self.client.base).into())
        })
    }
}

impl Uses for HttpElections {
    fn uses(&self) -> BoxResult<'_, BTreeMap<TokenId, TokenUse>> {
        Box::pin(async move {
            let shown: Result<TokensResponse, _> = self.client.get(&Endpoint::Tokens.target(&[])).await;
            shown.map(|used| used.uses).map_err(|fault| fault.of_reading(&self.client.base).into())
        })
    }
}
