//! Candidates that wait for an election, in the order in which they came. Only the first is woken.
//!
//! A candidate asks anew every few seconds, perhaps at another server. It says for how long it has waited, and gets its place back: nothing
//! of it must be remembered here. Its word is believed, since a place in line decides on nothing but the order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use baton_api::waiting::WaitingCandidate;
use baton_election::command::Acquire;
use baton_election::time::{Moment, Span};
use baton_election::{ElectionName, Incarnation, WallTime};
use baton_store::boot;
use tokio::sync::oneshot;

use super::{Engine, Outcome, Shared};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// One who waits.
pub(super) struct Waiter {
    number: u64,
    pub(super) acquire: Acquire,
    /// When it came, by this engine's clock.
    since: Moment,
    /// The same for people.
    came: WallTime,
    outcome: oneshot::Sender<Outcome>,
    /// Its time is over: it is not put back into the line.
    over: Arc<AtomicBool>,
}

impl Waiter {
    /// Whether its caller is still there.
    pub(super) fn waits(&self) -> bool {
        !self.outcome.is_closed()
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends its waiting.
    pub(super) fn tell(self, outcome: Outcome) {
        let _ = self.outcome.send(outcome);
    }
}

/// Everybody who waits for one election.
#[derive(Default)]
pub(super) struct WaitingLine {
    waiters: VecDeque<Waiter>,
}

impl WaitingLine {
    pub(super) fn join(&mut self, waiter: Waiter) {
        // Most come last.
        let earlier = self.waiters.iter().rposition(|other| other.since <= waiter.since);
        self.waiters.insert(earlier.map_or(0, |place| place + 1), waiter);
    }

    /// The first whose caller is still there.
    pub(super) fn first(&mut self) -> Option<Waiter> {
        std::iter::from_fn(|| self.waiters.pop_front()).find(Waiter::waits)
    }

    /// The one of this incarnation.
    pub(super) fn take(&mut self, incarnation: Incarnation) -> Option<Waiter> {
        let place = self.waiters.iter().position(|waiter| waiter.acquire.incarnation == incarnation)?;
        self.waiters.remove(place)
    }

    /// What those in line ask for.
    pub(super) fn wishes(&self) -> impl Iterator<Item = &Acquire> {
        self.waiters.iter().map(|waiter| &waiter.acquire)
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// The first of those whose callers are still there.
    fn waiting(&self, limit: usize) -> Vec<WaitingCandidate> {
        let there = self.waiters.iter().filter(|waiter| waiter.waits()).take(limit);
        there
            .map(|waiter| WaitingCandidate { agent: waiter.acquire.agent.clone(), since: waiter.came })
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// It goes on waiting, in front.
    pub(super) fn put_back(&mut self, waiter: Waiter) {
        self.waiters.push_front(waiter);
    }
}

impl Engine {
    /// The agents that wait in line to lead an election, in their order; at most so many.
    pub fn waiting(&self, election: &ElectionName, limit: usize) -> Vec<WaitingCandidate> {
        let shard = self.shared.shard(election);
        shard.lines.get(election).map_or(Vec::new(), |line| line.waiting(limit))
    }
}

/// A place in line, as the one who waits knows it. Who drops it no longer waits.
pub(super) struct WaitHandle {
    shared: Arc<Shared>,
    election: ElectionName,
    number: u64,
    outcome: oneshot::Receiver<Outcome>,
    over: Arc<AtomicBool>,
}

/// A place in line, and what stands there.
pub(super) fn place(shared: Arc<Shared>, election: ElectionName, acquire: Acquire) -> (WaitHandle, Waiter) {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let (sender, outcome) = oneshot::channel();
    let over = Arc::new(AtomicBool::new(false));
    let waited = acquire.waited.unwrap_or(Span::ZERO);
    let since = shared.clock.now() - waited;
    let came = WallTime::from_unix_millis(boot::wall().as_unix_millis().saturating_sub(waited.as_millis()));
    let waiter = Waiter { number, acquire, since, came, outcome: sender, over: Arc::clone(&over) };
    (WaitHandle { shared, election, number, outcome, over }, waiter)
}

impl WaitHandle {
    /// What came of it.
    pub(super) async fn settled(&mut self) -> Outcome {
        (&mut self.outcome).await.unwrap_or_else(|_| Err(self.shared.broke_off()))
    }

    /// Waits no longer. Says whether it did: who did not is being settled, and is told what comes of that.
    pub(super) fn leave(&self) -> bool {
        // Under the lock: whoever would put it back does so before this, or sees that its time is over.
        let mut shard = self.shared.shard(&self.election);
        self.over.store(true, Ordering::Relaxed);
        let Some(line) = shard.lines.get_mut(&self.election) else { return false };
        let before = line.waiters.len();
        line.waiters.retain(|waiter| waiter.number != self.number);
        let left = line.waiters.len() < before;
        if line.is_empty() {
            shard.lines.remove(&self.election);
        }
        left
    }
}

impl Drop for WaitHandle {
    fn drop(&mut self) {
        self.leave();
    }
}
