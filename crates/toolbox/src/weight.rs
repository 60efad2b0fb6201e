//! How much room things take: about, and never much less than they do.

use alloc::string::String;

use crate::board::{Attempt, Order, Task};
use crate::breaker::Breaker;
use crate::item::{Command, Item};
use crate::proposal::Proposal;
use crate::quota::Quota;
use crate::value::Value;

/// The most that all items of one election may weigh where somebody keeps them in memory.
pub const MAX_WEIGHT: u64 = 256 << 20;
/// What an item weighs beside its texts: names, numbers, places in lists.
const ITEM: u64 = 512;
/// What each part of a list in an item weighs beside its text.
const PART: u64 = 192;

fn of(text: &str) -> u64 {
    text.len() as u64
}

fn parts(count: usize) -> u64 {
    (count as u64).saturating_mul(PART)
}

impl Item {
    /// How much room it takes, in bytes.
    pub fn weight(&self) -> u64 {
        let texts = match self {
            Item::Task(task) => of_task(task),
            Item::Proposal(Proposal { title, body, about, ruling, .. }) => {
                let reason = ruling.as_ref().map_or(0, |ruling| of(&ruling.reason));
                of(title) + of(body) + of(about) + reason
            }
            Item::Quota(Quota { shares, drawn, .. }) => parts(shares.len() + drawn.len()),
            Item::Value(Value { versions, .. }) => {
                versions.iter().map(|version| of(&version.value) + PART).sum()
            }
            Item::Breaker(Breaker { capability, counted, reason, .. }) => {
                of(capability) + of(reason) + parts(counted.len())
            }
        };
        ITEM + texts
    }
}

fn of_task(task: &Task) -> u64 {
    let attempt = |attempt: &Attempt| of(&attempt.note) + PART;
    let attempts: u64 = task.attempts.iter().map(attempt).sum();
    let needs: u64 = task.needs.iter().map(|need| of(need) + PART).sum();
    let result = task.result.as_deref().map_or(0, of);
    of(&task.title) + of(&task.body) + result + of(&task.reason) + of(&task.progress.note) + attempts + needs
}

impl Command {
    /// How much room it takes, and at most what it adds to the items, in bytes.
    pub fn weight(&self) -> u64 {
        match self {
            Command::Add(add) => {
                let needs = |needs: &String| of(needs) + PART;
                let one = |task: &crate::board::NewTask| {
                    let key = task.key.as_deref().map_or(0, of);
                    ITEM + key + of(&task.title) + of(&task.body) + task.needs.iter().map(needs).sum::<u64>()
                };
                add.tasks.iter().map(one).sum()
            }
            Command::Order(_, order) => {
                PART + match order {
                    Order::Assign(_) | Order::Adopt(_) | Order::Accept(_) => 0,
                    Order::Retry(withdraw) | Order::Cancel(withdraw) => of(&withdraw.reason),
                    Order::Progress(report) => of(&report.note),
                    Order::Complete(complete) => of(&complete.result),
                    Order::Fail(fail) => of(&fail.reason),
                }
            }
            Command::Propose(propose) => ITEM + of(&propose.title) + of(&propose.body) + of(&propose.about),
            Command::Rule(_, ruling) => PART + of(&ruling.reason),
            Command::SetQuota(_, set) => ITEM + parts(set.shares.len()),
            Command::Draw(..) => PART,
            Command::Put(_, put) => ITEM + PART + of(&put.value),
        }
    }
}
