//! What is counted of the toolboxes, for the page of metrics. It decides nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use baton::Error;
use baton_election::Refusal;
use baton_store::toolbox::{Answer, Command, Order, State};

use super::index::Index;
use crate::metrics::{At, Counter, Meters};

/// The commands, by the names under which they are counted.
const COMMANDS: [&str; 14] = [
    "add",
    "assign",
    "retry",
    "cancel",
    "accept",
    "progress",
    "complete",
    "fail",
    "propose",
    "rule",
    "set-quota",
    "draw",
    "put",
    "adopt",
];
/// What came of one.
const OUTCOMES: [&str; 3] = ["done", "refused", "failed"];

/// How often which command was carried out, refused, or failed.
#[derive(Default)]
pub(super) struct Tally {
    commands: [[Counter; OUTCOMES.len()]; COMMANDS.len()],
}

/// How large a board is, as it was last seen.
#[derive(Default)]
pub(super) struct Size {
    pub(super) items: AtomicU64,
    pub(super) weight: AtomicU64,
    tasks: [AtomicU64; State::ALL.len()],
}

/// What the page shows of all toolboxes.
#[derive(Default)]
pub(crate) struct Tools {
    /// Command, outcome, how often.
    pub(crate) commands: Vec<(&'static str, &'static str, u64)>,
    /// Commands that wait for their turn, or are at it.
    pub(crate) waiting: u64,
    /// Items in memory.
    pub(crate) items: u64,
    /// How much they weigh.
    pub(crate) weight: u64,
    /// Tasks of them, by state.
    pub(crate) tasks: [u64; State::ALL.len()],
}

impl Tally {
    pub(super) fn count(&self, meters: &Meters, command: &Command, outcome: &Result<Answer, Error>) {
        let came = match outcome {
            Ok(_) => 0,
            Err(Error::Refused(refusal)) => {
                if let Refusal::Stale { .. } = refusal {
                    meters.stale(At::Toolbox);
                }
                1
            }
            Err(_) => 2,
        };
        self.commands[place(command)][came].one();
    }

    pub(super) fn read(&self) -> Vec<(&'static str, &'static str, u64)> {
        let rows = COMMANDS.iter().zip(&self.commands);
        rows.flat_map(|(command, counters)| {
            OUTCOMES.iter().zip(counters).map(|(outcome, counter)| (*command, *outcome, counter.value()))
        })
        .collect()
    }
}

impl Size {
    pub(super) fn store(&self, index: &Index) {
        self.items.store(index.len(), Ordering::Relaxed);
        self.weight.store(index.weight(), Ordering::Relaxed);
        let counts = index.counts();
        let by_state =
            [counts.queued, counts.assigned, counts.working, counts.done, counts.failed, counts.cancelled];
        for (kept, count) in self.tasks.iter().zip(by_state) {
            kept.store(count, Ordering::Relaxed);
        }
    }

    pub(super) fn add_to(&self, tools: &mut Tools) {
        tools.items += self.items.load(Ordering::Relaxed);
        tools.weight += self.weight.load(Ordering::Relaxed);
        for (sum, kept) in tools.tasks.iter_mut().zip(&self.tasks) {
            *sum += kept.load(Ordering::Relaxed);
        }
    }
}

fn place(command: &Command) -> usize {
    match command {
        Command::Add(_) => 0,
        Command::Order(_, Order::Assign(_)) => 1,
        Command::Order(_, Order::Retry(_)) => 2,
        Command::Order(_, Order::Cancel(_)) => 3,
        Command::Order(_, Order::Accept(_)) => 4,
        Command::Order(_, Order::Progress(_)) => 5,
        Command::Order(_, Order::Complete(_)) => 6,
        Command::Order(_, Order::Fail(_)) => 7,
        Command::Propose(_) => 8,
        Command::Rule(..) => 9,
        Command::SetQuota(..) => 10,
        Command::Draw(..) => 11,
        Command::Put(..) => 12,
        Command::Order(_, Order::Adopt(_)) => 13,
    }
}
