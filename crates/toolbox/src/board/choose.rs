//! Who shall do a task: by capability and capacity.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use baton_election::{AgentName, Refusal};

use super::{Outcome, Task};

/// An agent that does tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Who.
    pub agent: AgentName,
    /// What it can do.
    pub capabilities: BTreeSet<String>,
    /// How much it can have at once.
    pub capacity: u64,
    /// How much it has.
    pub load: u64,
}

impl Worker {
    /// How much more it can have.
    pub fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.load)
    }

    fn lacks<'a>(&self, task: &'a Task) -> Vec<&'a str> {
        task.needs.iter().filter(|need| !self.capabilities.contains(*need)).map(String::as_str).collect()
    }
}

/// Who shall do it: of those that can and have room, first who has not failed at it before, then who has the most room, then by name.
pub fn choose<'a>(workers: &'a [Worker], task: &Task) -> Result<&'a Worker, Refusal> {
    let failed = |agent: &AgentName| {
        task.attempts.iter().any(|a| a.agent == *agent && a.outcome == Some(Outcome::Failed))
    };
    let able: Vec<&Worker> = workers.iter().filter(|worker| worker.lacks(task).is_empty()).collect();
    let fitting = able.iter().filter(|worker| worker.room() >= task.size);
    let best = fitting.min_by_key(|worker| (failed(&worker.agent), Reverse(worker.room()), &worker.agent));
    match (best, able.is_empty()) {
        (Some(worker), _) => Ok(worker),
        (None, true) => {
            let needs: Vec<&str> = task.needs.iter().map(String::as_str).collect();
            Err(Refusal::NotEligible {
                why: format!("no worker can do all of {}", needs.join(", ")),
                retry_in: None,
            })
        }
        (None, false) => Err(Refusal::Exhausted {
            why: format!("nobody who could do it has room for {} more", task.size),
            retry_in: None,
        }),
    }
}
