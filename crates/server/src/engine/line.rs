//! Candidates that wait for an election, in the order in which they came. Only the first is woken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_election::ElectionName;
use baton_election::command::Acquire;
use tokio::sync::oneshot;

use super::{Outcome, Shared};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// One who waits.
pub(super) struct Waiter {
    number: u64,
    pub(super) acquire: Acquire,
    outcome: oneshot::Sender<Outcome>,
}

impl Waiter {
    /// Ends its waiting.
    pub(super) fn tell(self, outcome: Outcome) {
        let _ = self.outcome.send(outcome);
    }
}

/// Everybody who waits for one election.
#[derive(Default)]
pub(super) struct Line {
    waiters: VecDeque<Waiter>,
}

impl Line {
    pub(super) fn join(&mut self, waiter: Waiter) {
        self.waiters.push_back(waiter);
    }

    /// The first whose caller is still there.
    pub(super) fn first(&mut self) -> Option<Waiter> {
        std::iter::from_fn(|| self.waiters.pop_front()).find(|waiter| !waiter.outcome.is_closed())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// It goes on waiting, in front.
    pub(super) fn put_back(&mut self, waiter: Waiter) {
        self.waiters.push_front(waiter);
    }
}

/// A place in line, as the one who waits knows it. Who drops it no longer waits.
pub(super) struct Place {
    shared: Arc<Shared>,
    election: ElectionName,
    number: u64,
    outcome: oneshot::Receiver<Outcome>,
}

/// A place at the end of the line, and what stands there.
pub(super) fn place(shared: Arc<Shared>, election: ElectionName, acquire: Acquire) -> (Place, Waiter) {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let (sender, outcome) = oneshot::channel();
    (Place { shared, election, number, outcome }, Waiter { number, acquire, outcome: sender })
}

impl Place {
    /// What came of it.
    pub(super) async fn settled(&mut self) -> Outcome {
        (&mut self.outcome).await.unwrap_or_else(|_| Err(self.shared.stopping()))
    }

    /// Waits no longer. Returns what came of it, if it was settled already or is being settled.
    pub(super) fn leave(mut self) -> Option<Outcome> {
        self.remove();
        self.outcome.close();
        self.outcome.try_recv().ok()
    }

    fn remove(&self) {
        let mut shard = self.shared.shard(&self.election);
        if let Some(line) = shard.lines.get_mut(&self.election) {
            line.waiters.retain(|waiter| waiter.number != self.number);
            if line.is_empty() {
                shard.lines.remove(&self.election);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.remove();
    }
}
