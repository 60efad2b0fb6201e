//! The candidates that wait to lead, for people to see.
//!
//! Guarantees nothing and decides nothing: a candidate leads whether or not it is shown here, and one that was killed is shown until its note lapses.

use baton_election::time::{Span, WallTime};
use baton_election::{AgentName, ElectionName, Incarnation};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::store::BoxFuture;

/// How long a note counts unless it is written again.
pub const NOTE_LASTS: Span = Span::secs(60);
/// How often it is written again.
pub const NOTE_EVERY: Span = Span::secs(20);

/// The most that are shown of one election.
pub const MOST_SHOWN: usize = 1_000;

/// A candidate that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingCandidate {
    /// The candidate.
    pub agent: AgentName,
    /// Since when, for people.
    pub since: WallTime,
}

/// The notes of those who wait.
pub trait Waiters: Send + Sync {
    /// Notes that this one waits, or still does. Counts for [`NOTE_LASTS`].
    fn note<'a>(
        &'a self,
        election: &'a ElectionName,
        waiting: &'a WaitingCandidate,
        incarnation: Incarnation,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Takes the note back.
    fn leave<'a>(
        &'a self,
        election: &'a ElectionName,
        agent: &'a AgentName,
        incarnation: Incarnation,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Those who wait, whoever came first before the others; at most so many, and at most [`MOST_SHOWN`]. Writes nothing.
    fn waiting<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<WaitingCandidate>, StoreError>>;
}
