//! The agents that wait to lead an election, for people to see.

use baton_election::AgentName;
use baton_election::time::WallTime;
use serde::{Deserialize, Serialize};

/// The most that are shown of one election.
pub const MOST_SHOWN: usize = 1_000;

/// One that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiting {
    /// Who.
    pub agent: AgentName,
    /// Since when, for people.
    pub since: WallTime,
}
