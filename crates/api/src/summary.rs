//! Elections as lists and load balancers see them.

use baton_election::document::{Cause, Pause, Phase, Question, State, Transition};
use baton_election::operator::PublicKey;
use baton_election::region::Region;
use baton_election::time::WallTime;
use baton_election::{AgentName, ElectionName, Epoch};
use serde::{Deserialize, Serialize};

use crate::describe::Suspicion;

/// The leader of an election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderResponse {
    /// The leader.
    pub agent: AgentName,
    /// Its token.
    pub token: Epoch,
    /// Where it is reached, if it said so.
    pub contact: Option<String>,
    /// The region from which it leads, if it leads from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// How much longer its lease lasts.
    pub remaining_ms: u64,
}

/// An election as a list shows it: without the state that its checkpoint carries, which may be large.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElectionSummary {
    /// The election.
    pub election: ElectionName,
    /// Whether anybody leads it.
    pub state: State,
    /// Its highest token so far.
    pub token: Epoch,
    /// The holder of the lease, while it lasts.
    pub leader: Option<HolderSummary>,
    /// The agent whose leadership was ended from outside while its lease may still be running.
    pub outgoing: Option<HolderSummary>,
    /// How much longer the lease of either may last.
    pub lease_ms: u64,
    /// What is coordinated, in words.
    pub task: Option<String>,
    /// The only agent that may lead next, for now.
    pub reserved_for: Option<AgentName>,
    /// When, by whom and why it was paused, if it is.
    pub paused: Option<Pause>,
    /// The open question to an operator, if there is one.
    pub question: Option<Question>,
    /// How the last leadership ended, while there is no new one.
    pub departure: Option<DepartureSummary>,
    /// True if an election that had a leader has none, and its work is not done.
    pub degraded: bool,
    /// When the last leader said that its work is done, if nobody has led since.
    pub finished: Option<WallTime>,
    /// Since when there has been no leader, for people, if that is known.
    pub leaderless_since: Option<WallTime>,
    /// The last change of leader.
    pub last_transition: Option<Transition>,
    /// How many followers know of the last change of leader. Null in events.
    pub participation: Option<Participation>,
    /// How many agents wait in line to lead, up to a bound. Null in events.
    pub in_line: Option<usize>,
    /// The last act of an operator.
    pub last_act: Option<ActSummary>,
    /// True in the event that says that an operator retired the election.
    pub forgotten: bool,
    /// Why the record cannot be read. Then the other fields say nothing.
    pub trouble: Option<String>,
}

/// The holder of a lease.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HolderSummary {
    /// The holder.
    pub agent: AgentName,
    /// Its token.
    pub token: Epoch,
    /// How far it is with taking over.
    pub phase: Phase,
    /// Where it is reached, if it said so.
    pub contact: Option<String>,
    /// How long the lease lasts after each renewal.
    pub ttl_ms: u64,
    /// It leads after one renewal.
    pub offered: bool,
    /// The region from which it leads, if it leads from one.
    pub region: Option<Region>,
    /// The suspicion level (φ), if the agent has a session. For people: the lease alone decides. Absent in events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub suspicion: Option<Suspicion>,
}

/// How many of the sessions that followed an election at its last change of leader know of that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Participation {
    /// How many know of it.
    pub acknowledged: u64,
    /// How many followed.
    pub expected: u64,
}

/// An operator's act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActSummary {
    /// Its number in the election's audit log.
    pub number: u64,
    /// Its name.
    pub act: String,
    /// The operator.
    pub by: PublicKey,
    /// When, for people.
    pub at: WallTime,
    /// The agent whose leadership it ended, if any.
    pub ended: Option<AgentName>,
}

/// How a leadership ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DepartureSummary {
    /// The agent that led.
    pub agent: AgentName,
    /// The cause.
    pub cause: Cause,
    /// The same in words.
    pub reason: String,
    /// When, for people.
    pub at: WallTime,
}

/// What changes about an election without a change of its record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttendanceEvent {
    /// The election.
    pub election: ElectionName,
    /// How many followers know of the last change of leader.
    pub participation: Option<Participation>,
    /// How many agents wait in line to lead, up to a bound.
    pub in_line: usize,
    /// The suspicion level of a leader that is suspected to be gone; null for the others.
    pub suspicion: Option<Suspicion>,
}
