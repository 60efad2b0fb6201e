//! Fences and holds on resources.

use baton_election::{AgentName, Credential, ElectionName, Epoch};
use serde::{Deserialize, Serialize};

/// Admits a token to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AdmitRequest {
    /// The token.
    pub token: Epoch,
    /// The election of the token; needed for a resource that has no fence yet.
    pub election: Option<ElectionName>,
    /// The agent that uses the resource, for the fence's log.
    pub agent: Option<AgentName>,
    /// What it does there, for the fence's log.
    #[serde(default)]
    pub note: String,
    /// Keeps the resource for a while after the leadership ends.
    pub hold: Option<HoldTerms>,
}

/// The terms of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HoldTerms {
    /// The hold, and the key to it. The client makes both.
    pub credential: Credential,
    /// How long the hold lasts without being kept.
    pub ttl_ms: u64,
    /// The key of the leader's lease. A hold longer than a minute needs it.
    pub lease: Option<Credential>,
}

/// Renews a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KeepHoldRequest {
    /// The election that the fence is bound to.
    pub election: ElectionName,
    /// The hold, and the key to it.
    pub credential: Credential,
}

/// Ends a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaveHoldRequest {
    /// The hold, and the key to it.
    pub credential: Credential,
}
