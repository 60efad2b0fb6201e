//! Items of all kinds, and what may be asked of them.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use baton_election::document::Pulse;
use baton_election::time::{Span, WallTime};
use baton_election::{AgentName, Document, ElectionName, Epoch, ItemName, Refusal};
use serde::{Deserialize, Serialize};

use crate::board::{AddTasks, Added, MAX_UNLED, Order, State, Task};
use crate::breaker::Breaker;
use crate::proposal::{Proposal, Propose, Ruling};
use crate::quota::{Draw, Drawn, Quota, SetQuota};
use crate::value::{Put, Value};

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A task of the board.
    Task,
    /// A proposal.
    Proposal,
    /// A quota.
    Quota,
    /// A value of the state.
    Value,
    /// A circuit breaker.
    Breaker,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Task, Kind::Proposal, Kind::Quota, Kind::Value, Kind::Breaker];

    /// The word under which they are kept.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Task => "tasks",
            Kind::Proposal => "proposals",
            Kind::Quota => "quotas",
            Kind::Value => "state",
            Kind::Breaker => "breakers",
        }
    }

    /// One of them, in a word.
    pub fn singular(self) -> &'static str {
        match self {
            Kind::Task => "task",
            Kind::Proposal => "proposal",
            Kind::Quota => "quota",
            Kind::Value => "value",
            Kind::Breaker => "breaker",
        }
    }

    /// The kind that is kept under this word.
    pub fn of_plural(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.plural() == word)
    }

    /// The most items of this kind that one election has. What is settled can be put away by nobody: a board is for one project.
    pub fn most(self) -> usize {
        match self {
            Kind::Task => 200_000,
            Kind::Proposal => 10_000,
            Kind::Quota => 1_000,
            Kind::Value | Kind::Breaker => 10_000,
        }
    }

    /// Refuses one more than the most.
    pub fn check_room(self, there: usize) -> Result<(), Refusal> {
        if there < self.most() {
            return Ok(());
        }
        let why = format!("there are {there} {} already; at most {} are allowed", self.plural(), self.most());
        Err(Refusal::Exhausted { why, retry_in: None })
    }

    /// That there is none of this name.
    pub fn no_such(self, name: &ItemName) -> Refusal {
        Refusal::NoSuchItem { item: format!("{self} `{name}`") }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Task => "task",
            Kind::Proposal => "proposal",
            Kind::Quota => "quota",
            Kind::Value => "value",
            Kind::Breaker => "breaker",
        })
    }
}

/// An item. As JSON it is what it is, without a word for its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Item {
    /// A task.
    Task(Task),
    /// A proposal.
    Proposal(Proposal),
    /// A quota.
    Quota(Quota),
    /// A value.
    Value(Value),
    /// A circuit breaker.
    Breaker(Breaker),
}

impl Item {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Item::Task(_) => Kind::Task,
            Item::Proposal(_) => Kind::Proposal,
            Item::Quota(_) => Kind::Quota,
            Item::Value(_) => Kind::Value,
            Item::Breaker(_) => Kind::Breaker,
        }
    }

    /// Its election and its name.
    pub fn place(&self) -> (&ElectionName, &ItemName) {
        match self {
            Item::Task(task) => (&task.election, &task.id),
            Item::Proposal(proposal) => (&proposal.election, &proposal.id),
            Item::Quota(quota) => (&quota.election, &quota.name),
            Item::Value(value) => (&value.election, &value.name),
            Item::Breaker(breaker) => (&breaker.election, &breaker.name),
        }
    }

    /// The highest epoch in which a leader wrote it. It never goes back.
    pub fn fence(&self) -> Epoch {
        match self {
            Item::Task(task) => task.fence,
            Item::Proposal(proposal) => proposal.ruling.as_ref().map_or(Epoch(0), |ruling| ruling.epoch),
            Item::Quota(quota) => quota.fence,
            Item::Value(value) => value.fence,
            // No leader writes it.
            Item::Breaker(_) => Epoch(0),
        }
    }

    /// What its clock is told by, if it has one.
    pub fn pulse(&self) -> Option<Pulse> {
        match self {
            Item::Quota(quota) => Some(Pulse { holder: None, epoch: Epoch(0), beat: quota.windows }),
            Item::Breaker(breaker) => Some(Pulse { holder: None, epoch: Epoch(0), beat: breaker.turns }),
            Item::Task(_) | Item::Proposal(_) | Item::Value(_) => None,
        }
    }
}

/// Something to be done to an item of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Put tasks on the board.
    Add(AddTasks),
    /// Change a task.
    Order(ItemName, Order),
    /// Make a proposal.
    Propose(Propose),
    /// Decide on a proposal.
    Rule(ItemName, Ruling),
    /// Set a quota.
    SetQuota(ItemName, SetQuota),
    /// Draw from a quota.
    Draw(ItemName, Draw),
    /// Put a value.
    Put(ItemName, Put),
}

/// What came of it.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one answer to a command, and it is taken apart at once"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The tasks stand on the board.
    Added(Vec<Added>),
    /// The item as it is from here on.
    Item(Item),
    /// It was drawn.
    Drawn(Drawn),
}

/// Which items to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only those that come after this one.
    pub after: Option<ItemName>,
    /// At most so many.
    pub limit: usize,
    /// Tasks only in this state.
    pub state: Option<State>,
    /// Tasks only that this agent has or last had, proposals and breakers only of this agent.
    pub agent: Option<AgentName>,
}

impl Query {
    /// Whether an item is wanted.
    pub fn wants(&self, item: &Item) -> bool {
        match item {
            Item::Task(task) => {
                self.state.is_none_or(|state| state == task.state)
                    && self.agent.as_ref().is_none_or(|agent| task.worker() == Some(agent))
            }
            Item::Proposal(proposal) => self.agent.as_ref().is_none_or(|agent| *agent == proposal.by),
            Item::Breaker(breaker) => self.agent.as_ref().is_none_or(|agent| *agent == breaker.agent),
            Item::Quota(_) | Item::Value(_) => true,
        }
    }
}

/// A part of the items of a kind, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The items.
    pub items: Vec<Item>,
    /// There are more after the last one.
    pub more: bool,
}

/// How many tasks are in which state, and whether anybody leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Tasks that wait for somebody.
    pub queued: u64,
    /// Tasks that somebody was told to do.
    pub assigned: u64,
    /// Tasks that are being done.
    pub working: u64,
    /// Tasks that are done.
    pub done: u64,
    /// Tasks that failed.
    pub failed: u64,
    /// Tasks that were cancelled.
    pub cancelled: u64,
    /// Nobody leads: what is assigned goes on, what is new waits.
    pub degraded: bool,
    /// The leader, if there is one.
    pub leader: Option<AgentName>,
    /// The epoch of the election.
    pub epoch: Epoch,
    /// Tasks that wait and were queued while nobody led; there is a bound on them.
    pub unled: u64,
    /// That bound.
    #[serde(default)]
    pub most_unled: u64,
    /// Since when nobody leads, for people, if that is known.
    #[serde(default)]
    pub since: Option<WallTime>,
    /// Tasks under way that somebody was told to do in an earlier epoch, and that were not adopted in this one.
    #[serde(default)]
    pub inherited: u64,
    /// Changes with every change of any item, on a server; zero elsewhere.
    #[serde(default)]
    pub changes: u64,
    /// Tasks under way, by the epoch of their instruction.
    #[serde(skip)]
    under_way: BTreeMap<Epoch, u64>,
}

impl Counts {
    /// Counts a task.
    pub fn count(&mut self, task: &Task) {
        *match task.state {
            State::Queued => &mut self.queued,
            State::Assigned => &mut self.assigned,
            State::Working => &mut self.working,
            State::Done => &mut self.done,
            State::Failed => &mut self.failed,
            State::Cancelled => &mut self.cancelled,
        } += 1;
        self.unled += u64::from(task.is_unled());
        if let Some(attempt) = task.attempt() {
            *self.under_way.entry(attempt.epoch).or_default() += 1;
        }
    }

    /// Counts it no more.
    pub fn discount(&mut self, task: &Task) {
        let mut one = Counts::default();
        one.count(task);
        for (mine, less) in [
            (&mut self.queued, one.queued),
            (&mut self.assigned, one.assigned),
            (&mut self.working, one.working),
            (&mut self.done, one.done),
            (&mut self.failed, one.failed),
            (&mut self.cancelled, one.cancelled),
            (&mut self.unled, one.unled),
        ] {
            *mine = mine.saturating_sub(less);
        }
        for (epoch, less) in one.under_way {
            if let Some(mine) = self.under_way.get_mut(&epoch) {
                *mine = mine.saturating_sub(less);
            }
        }
        self.under_way.retain(|_, count| *count > 0);
    }

    /// The same under an election as it stands, given the age of its last beat.
    #[must_use]
    pub fn seen(self, document: Option<&Document>, age: Span) -> Counts {
        let leader = document.and_then(|document| document.current_leader(age));
        let epoch = document.map_or(Epoch(0), |document| document.epoch);
        let leaderless = document.and_then(|document| document.leaderless(age));
        Counts {
            degraded: leader.is_none(),
            leader: leader.map(|leader| leader.agent.clone()),
            epoch,
            most_unled: MAX_UNLED,
            since: leaderless.and_then(|leaderless| leaderless.since),
            // Also what the same leader told before an approval: fences refuse that epoch as they do a predecessor's.
            inherited: leader
                .map_or(0, |leader| self.under_way.range(..leader.epoch).map(|(_, count)| count).sum()),
            ..self
        }
    }

    /// All tasks.
    pub fn tasks(&self) -> u64 {
        self.queued + self.assigned + self.working + self.done + self.failed + self.cancelled
    }
}

/// A text for people: an item's name in quotation marks.
pub(crate) fn called(kind: Kind, name: &ItemName) -> String {
    format!("the {kind} `{name}`")
}
