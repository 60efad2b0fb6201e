//! Sessions with a store that decides: one sign of life for many leases, and a word to those who follow.
//!
//! A session is an agent that is known to be there. Leases ride on it: each heartbeat renews every one of them, by the same decision as
//! a renewal of its own. Guarantees that a heartbeat that was answered renewed all that its answer does not name, and that what was lost is
//! named in every answer until the client drops it, so that a lost answer hides nothing. A session itself promises nothing: it lives in
//! memory, and who finds it gone announces it anew.

use baton_election::{AgentName, Credential, Document, ElectionName, Epoch, Incarnation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::describe::{Description, Suspicion};

/// The most leases that one request adds, drops or announces.
pub const MAX_AT_ONCE: usize = 500;
/// The most leases that ride on one session.
pub const MAX_SESSION_LEASES: usize = 10_000;
/// The most elections that one session follows.
pub const MAX_FOLLOWS: usize = 1_000;
/// The most elections that one session follows of which the server does not know that they exist.
pub const MAX_UNKNOWN_FOLLOWS: usize = 32;
/// The largest word on health or progress, as JSON.
pub const MAX_WORD_BYTES: usize = 1_024;

/// The most elections that one session says that it leads.
pub const MAX_CLAIMS: usize = 100;

/// That an agent leads, by its own word. It proves nothing and changes nothing: a server shows it, and warns if two say so at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LeadershipClaim {
    /// Which election, or group of peers.
    pub election: ElectionName,
    /// In which term or epoch.
    pub term: u64,
}

/// A lease that rides on a session: the session's key is its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionLease {
    /// Of which election.
    pub election: ElectionName,
    /// Its token.
    pub token: Epoch,
    /// The life that was granted it. Each lease has one of its own.
    pub incarnation: Incarnation,
}

/// Which lease is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseRef {
    /// Of which election.
    pub election: ElectionName,
    /// Its token.
    pub token: Epoch,
}

/// An agent says that it is there. To say it again is harmless; what it says replaces what it said before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Announce {
    /// Who.
    pub agent: AgentName,
    /// Its session, and the key to it and to every lease that rides on it.
    pub credential: Credential,
    /// Rises with every request of the session, so that one that comes late is known as such.
    #[serde(default)]
    pub number: u64,
    /// What it follows.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_FOLLOWS)))]
    pub follows: Vec<ElectionName>,
    /// What rides on it. More is added by heartbeats.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_AT_ONCE)))]
    pub leases: Vec<SessionLease>,
}

/// A sign of life, which renews every lease that rides on the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The session.
    pub credential: Credential,
    /// Rises with every request of the session, so that one that comes late is known as such.
    #[serde(default)]
    pub number: u64,
    /// What rides on it from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_AT_ONCE)))]
    pub add: Vec<SessionLease>,
    /// What no longer does; also what was said to be lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_AT_ONCE)))]
    pub drop: Vec<LeaseRef>,
    /// What it follows from here on, all of it; none if nothing has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Vec<ElectionName>>,
    /// A word on its health, kept and shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Value>,
    /// A word on its progress, kept and shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Value>,
    /// How it is, all of it; none if nothing has changed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::describe::in_heartbeat"
    )]
    pub description: Option<Description>,
    /// What it leads by its own word, all of it; none if it says nothing about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_CLAIMS)))]
    pub leads: Option<Vec<LeadershipClaim>>,
}

/// The answer to an announcement or a heartbeat. Every lease that rides and is not named was renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeartbeatReply {
    /// After what time the next one is wanted.
    pub heartbeat_ms: u64,
    /// Up to so much later, at random.
    pub jitter_ms: u64,
    /// After how many missed ones the session is forgotten.
    pub missed: u64,
    /// How many leases were renewed. Who expects another number announces anew, and takes none for renewed.
    pub riding: u64,
    /// What is lost for good, until it is dropped.
    #[serde(default)]
    pub lost: Vec<LeaseFailure>,
    /// What could not be renewed this time.
    #[serde(default)]
    pub failed: Vec<LeaseFailure>,
    /// What was renewed and is not as it was.
    #[serde(default)]
    pub changed: Vec<LeaseChange>,
    /// What the session asked to follow and does not: the server knows no such elections, or the session's token, or without one its agent,
    /// follows as many as one may. A client looks at these by itself, and asks again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfollowed: Vec<ElectionName>,
}

/// A lease that was not renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseFailure {
    /// Of which election.
    pub election: ElectionName,
    /// Its token, as the session has it.
    pub token: Epoch,
    /// Why.
    pub why: String,
}

/// A lease that was renewed, and of which there is more to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseChange {
    /// Of which election.
    pub election: ElectionName,
    /// Its token, as the session has it.
    pub token: Epoch,
    /// Its token as it is: higher after an approval.
    #[serde(rename = "new_token")]
    pub epoch: Epoch,
    /// Its token is refused until an operator approves.
    pub awaiting_approval: bool,
}

/// Asks for news of what the session follows, and acknowledges what it was told before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewsRequest {
    /// The session.
    pub credential: Credential,
    /// Everything up to here is known. Without it, all that is followed is told as it stands.
    #[serde(default)]
    pub acknowledged: Option<String>,
    /// How long to wait for something new.
    #[serde(default)]
    pub wait_ms: u64,
}

/// What happened to the elections that a session follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NewsResponse {
    /// What to acknowledge once all of this is known.
    pub event: String,
    /// Elections that changed, as they stand.
    pub news: Vec<ElectionNews>,
}

/// An election as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElectionNews {
    /// Which.
    pub election: ElectionName,
    /// The document; none if there is no such election.
    pub document: Option<Box<Document>>,
    /// A lower bound on the time since its last beat.
    pub age_ms: u64,
}

/// Ends a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EndSession {
    /// Which.
    pub credential: Credential,
    /// The work under every lease that rides on it has stopped: they are released. Otherwise they run out.
    #[serde(default)]
    pub stopped: bool,
}

/// What came of the leases of a session that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndSessionResponse {
    /// How many were released.
    pub released: u64,
    /// What could not be: it runs out.
    #[serde(default)]
    pub failed: Vec<LeaseFailure>,
}

/// A session as it is shown. No key, and nothing by which another could speak for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionView {
    /// Whose.
    pub agent: AgentName,
    /// How long ago it was announced.
    pub age_ms: u64,
    /// How long ago it was last heard of.
    pub silent_ms: u64,
    /// How long it may be silent.
    pub lasts_ms: u64,
    /// What it follows.
    pub follows: Vec<ElectionName>,
    /// How many leases ride on it.
    pub leases: u64,
    /// Its last word on its health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Value>,
    /// Its last word on its progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Value>,
    /// How it described itself last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Description>,
    /// The suspicion level (φ). For people: it decides nothing.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub suspicion: Suspicion,
    /// What it leads by its own word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leads: Vec<LeadershipClaim>,
}

/// The followers that were told of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotifyReport {
    /// How many followers have acknowledged it.
    pub told: u64,
    /// The agents that have not.
    pub silent: Vec<AgentName>,
    /// How long that took.
    pub waited_ms: u64,
}
