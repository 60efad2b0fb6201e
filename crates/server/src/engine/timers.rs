//! When which election must be looked at: exact, without a sweep, and nothing for elections that nobody waits for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_election::ElectionName;
use baton_election::time::Moment;
use baton_store::boot;
use tokio::sync::Notify;

/// The looks that are due some time.
#[derive(Default)]
pub(super) struct Timers {
    due: Mutex<BinaryHeap<Reverse<(Moment, ElectionName)>>>,
    sooner: Notify,
}

impl Timers {
    fn due(&self) -> MutexGuard<'_, BinaryHeap<Reverse<(Moment, ElectionName)>>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at an election at this moment. A renewal does not change that: whoever looks too early sets another.
    pub(super) fn set(&self, at: Moment, election: ElectionName) {
        let mut due = self.due();
        let first = due.peek().is_none_or(|Reverse((first, _))| at < *first);
        due.push(Reverse((at, election)));
        drop(due);
        if first {
            self.sooner.notify_one();
        }
    }

    /// The next moment that has come, and its election.
    pub(super) async fn next(&self) -> (Moment, ElectionName) {
        loop {
            let first = {
                let mut due = self.due();
                match due.peek() {
                    Some(Reverse((at, _))) if *at <= boot::now() => {
                        if let Some(Reverse(first)) = due.pop() {
                            return first;
                        }
                        None
                    }
                    Some(Reverse((at, _))) => Some(*at),
                    None => None,
                }
            };
            match first {
                Some(at) => {
                    tokio::select! {
                        _ = boot::sleep_until(at) => {}
                        () = self.sooner.notified() => {}
                    }
                }
                None => self.sooner.notified().await,
            }
        }
    }
}
