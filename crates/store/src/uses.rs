//! When and from where access tokens were used, as a server tells it.

use std::collections::BTreeMap;

use baton_election::TokenId;
use baton_election::time::WallTime;
use serde::{Deserialize, Serialize};

use crate::decider::Decision;

/// The last use of an access token since its server began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenUse {
    /// When a request showed it last, for people.
    pub last_used: WallTime,
    /// From where: an address, or `uid N` over the Unix socket.
    pub last_address: String,
    /// How many requests with it were refused.
    pub refused: u64,
}

/// A store that knows when its access tokens were used.
pub trait Uses: Send + Sync {
    /// The last use of each token that was used.
    fn uses(&self) -> Decision<'_, BTreeMap<TokenId, TokenUse>>;
}
