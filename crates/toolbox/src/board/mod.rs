//! The task board.
//!
//! A task is queued, assigned to an agent, accepted by it, and ends. Each time that it is assigned is an *attempt*; the list of them stays, so
//! that a successor sees what was tried. An assignment is an *instruction* of the epoch in which it was given: a worker says with which
//! highest epoch it was last instructed, and one of an older epoch is refused until the leader gives it again. At its acceptance the worker
//! mints a key, whose hash the attempt keeps: only who has it reports on the task, and only until it is taken back.

mod add;
mod adopt;
mod choose;
mod order;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use baton_election::time::{Span, WallTime, as_optional_millis};
use baton_election::{AgentName, ElectionName, Epoch, ItemName, KeyHash};
use serde::{Deserialize, Serialize};

pub use add::{AddTasks, Added, MAX_ADDED, MAX_UNLED, NewTask, add};
pub use adopt::Adopt;
pub use choose::{Worker, choose};
pub use order::{Accept, Assign, Complete, Fail, MAX_ATTEMPTS, Order, Report, Withdraw, carry_out};

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It waits for somebody.
    Queued,
    /// Somebody was told to do it.
    Assigned,
    /// It is being done.
    Working,
    /// It is done.
    Done,
    /// Its worker could not do it.
    Failed,
    /// It shall not be done.
    Cancelled,
}

impl State {
    /// All of them.
    pub const ALL: [State; 6] =
        [State::Queued, State::Assigned, State::Working, State::Done, State::Failed, State::Cancelled];
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Queued => "queued",
            State::Assigned => "assigned",
            State::Working => "working",
            State::Done => "done",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        })
    }
}

/// That a word is no state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoState;

impl fmt::Display for NoState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task is queued, assigned, working, done, failed or cancelled")
    }
}

impl core::error::Error for NoState {}

impl FromStr for State {
    type Err = NoState;
    fn from_str(text: &str) -> Result<State, NoState> {
        use alloc::string::ToString;
        State::ALL.into_iter().find(|state| state.to_string() == text).ok_or(NoState)
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The worker did it.
    Done,
    /// The worker could not do it.
    Failed,
    /// The leader took it back, to be tried anew.
    Withdrawn,
    /// The leader cancelled the task.
    Cancelled,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Withdrawn => "withdrawn",
            Outcome::Cancelled => "cancelled",
        })
    }
}

/// One time that somebody was told to do a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attempt {
    /// The agent that was told.
    pub agent: AgentName,
    /// The epoch of the instruction.
    pub epoch: Epoch,
    /// When it was given, for people.
    pub assigned: WallTime,
    /// When it was accepted, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<WallTime>,
    /// The hash of the worker's key, from its acceptance on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_hash: Option<KeyHash>,
    /// How it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What was said about that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// How far it came, in percent.
    #[serde(default)]
    pub percent: u8,
    /// When it ended, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<WallTime>,
}

/// How far a task is, as its worker says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Progress {
    /// In percent.
    pub percent: u8,
    /// How long it will still take, if the worker says so.
    #[serde(
        default,
        rename = "estimate_ms",
        with = "as_optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub estimate: Option<Span>,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When that was said, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<WallTime>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// Whose board it is on.
    pub election: ElectionName,
    /// By what it is known.
    pub id: ItemName,
    /// One line for people.
    pub title: String,
    /// What is to be done, in as many words as it takes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// What whoever does it must be able to do.
    #[serde(default)]
    pub needs: BTreeSet<String>,
    /// How much of a worker's capacity it takes.
    pub size: u64,
    /// How it stands.
    pub state: State,
    /// The highest epoch in which a leader wrote it. No leader of a lower one ever writes it again.
    pub fence: Epoch,
    /// How many orders of leaders have changed it.
    #[serde(default)]
    pub orders: u64,
    /// Who put it there.
    pub by: AgentName,
    /// When, for people.
    pub added: WallTime,
    /// How far it is.
    #[serde(default)]
    pub progress: Progress,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The assignments, the last one last.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
}

impl Task {
    /// The attempt that is under way, if one is.
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.outcome.is_none())
    }

    /// The agent that has the task, or had it last.
    pub fn worker(&self) -> Option<&AgentName> {
        self.attempts.last().map(|attempt| &attempt.agent)
    }

    /// Whether it waits and was queued while nobody led.
    pub fn is_unled(&self) -> bool {
        self.state == State::Queued && self.fence == Epoch(0)
    }

    /// Whether somebody's capacity is taken up by it.
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, State::Assigned | State::Working)
    }
}
