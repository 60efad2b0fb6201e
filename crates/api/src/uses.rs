//! When and from where access tokens were used, as a server tells it.

use baton_election::time::WallTime;
use serde::{Deserialize, Serialize};

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
