//! What a server warns of, as it is told.

use core::fmt;

use baton_election::ElectionName;
use baton_election::time::WallTime;
use serde::{Deserialize, Serialize};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// Nobody leads an election that somebody waits for.
    NoLeader,
    /// The leader changes too often.
    Flapping,
    /// Two agents say at once that they lead.
    TwoLeaders,
    /// Too many want to lead one election at once.
    HighContention,
    /// There are more elections than are usual.
    FrequentElections,
    /// A change of leader took too long.
    SlowTransition,
    /// Not everybody who follows an election has heard of its new leader.
    LowParticipation,
    /// The leader is silent, and suspected to be gone while its lease runs.
    SuspectedLeader,
    /// Many requests with one access token, or without one that is known, are refused.
    UnauthorisedBurst,
    /// Most of what a server keeps, in all or for one access token, is used.
    QuotaNearlyUsed,
}

impl AlertKind {
    /// All of them.
    pub const ALL: [AlertKind; 10] = [
        AlertKind::NoLeader,
        AlertKind::Flapping,
        AlertKind::TwoLeaders,
        AlertKind::HighContention,
        AlertKind::FrequentElections,
        AlertKind::SlowTransition,
        AlertKind::LowParticipation,
        AlertKind::SuspectedLeader,
        AlertKind::UnauthorisedBurst,
        AlertKind::QuotaNearlyUsed,
    ];

    /// How it is called, also as a file among the runbooks.
    pub fn name(self) -> &'static str {
        match self {
            AlertKind::NoLeader => "no-leader",
            AlertKind::Flapping => "flapping",
            AlertKind::TwoLeaders => "two-leaders",
            AlertKind::HighContention => "high-contention",
            AlertKind::FrequentElections => "frequent-elections",
            AlertKind::SlowTransition => "slow-transition",
            AlertKind::LowParticipation => "low-participation",
            AlertKind::SuspectedLeader => "suspected-leader",
            AlertKind::UnauthorisedBurst => "unauthorised-burst",
            AlertKind::QuotaNearlyUsed => "quota-nearly-used",
        }
    }

    /// How much it matters.
    pub fn severity(self) -> Severity {
        match self {
            AlertKind::NoLeader | AlertKind::Flapping | AlertKind::TwoLeaders | AlertKind::HighContention => {
                Severity::Alert
            }
            AlertKind::FrequentElections
            | AlertKind::SlowTransition
            | AlertKind::LowParticipation
            | AlertKind::SuspectedLeader
            | AlertKind::UnauthorisedBurst
            | AlertKind::QuotaNearlyUsed => Severity::Warning,
        }
    }
}

impl fmt::Display for AlertKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How much something matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Somebody should look at it.
    Alert,
    /// Somebody may want to know.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Alert => "alert",
            Severity::Warning => "warning",
        })
    }
}

/// Something that is wrong, with an election or with a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alert {
    /// What.
    pub alert: AlertKind,
    /// How much it matters.
    pub severity: Severity,
    /// With which election, if it is one's.
    pub election: Option<ElectionName>,
    /// With which access token, if it is one's; `none` stands for requests without a token that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Since when the server knows, for people.
    pub since: WallTime,
    /// How long that is.
    pub age_ms: u64,
    /// In words.
    pub what: String,
    /// What to do first.
    pub hint: String,
    /// Where it stands what else to do.
    pub runbook: String,
}

/// What is wrong at a server, by how much it matters and by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alerts {
    /// All that is told.
    pub alerts: Vec<Alert>,
    /// How many more there are.
    #[serde(default)]
    pub more: u64,
    /// Nobody is the operator of the store: nobody can appoint, pause or approve.
    #[serde(default)]
    pub no_operator: bool,
}
