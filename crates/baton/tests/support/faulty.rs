//! A store over another one that fails on demand: before or after the change, slowly, or not at all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use baton::election::{Moment, Span};
use baton::store::conformance::{Swap, Wrapped};
use baton::store::{BoxFuture, Key, Prefix, Reading, Store, StoreError, Swapped, boot};
use tokio::sync::watch;

/// What happens to one swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not applied, and that is said.
    Before,
    /// It is applied, and that is not said.
    After,
    /// The same, and from then on nothing gets through.
    Cut,
    /// It is applied when the silence is ended, which begins with it.
    Late,
}

/// What happens to everything, at random, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chaos {
    pub(crate) before: u32,
    pub(crate) after: u32,
    pub(crate) reads: u32,
    /// The longest delay of an answer.
    pub(crate) delay: Span,
}

/// The keys that are meant.
type KeyFilter = fn(&Key) -> bool;

#[derive(Default)]
struct FaultPlan {
    planned: VecDeque<(KeyFilter, Fault)>,
    partitioned: bool,
    failing_reads: u64,
    chaos: Chaos,
    /// When each swap of an election was sent that was applied.
    applied: Vec<Moment>,
}

/// The store. Clones share it.
#[derive(Clone)]
pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    plan: Arc<Mutex<FaultPlan>>,
    /// While this is set, nothing is answered.
    silent: watch::Sender<bool>,
    operations: Arc<AtomicU64>,
}

pub(crate) fn is_election(key: &Key) -> bool {
    matches!(key, Key::Election(_))
}

pub(crate) fn is_fence(key: &Key) -> bool {
    matches!(key, Key::Fence(_))
}

pub(crate) fn is_history(key: &Key) -> bool {
    matches!(key, Key::History(_))
}

fn per_mille() -> u32 {
    getrandom::u32().unwrap() % 1_000
}

impl Faulty {
    pub(crate) fn over(inner: impl Store + 'static) -> Faulty {
        Faulty::over_shared(Arc::new(inner))
    }

    pub(crate) fn over_shared(inner: Arc<dyn Store>) -> Faulty {
        let (plan, operations) = (Arc::default(), Arc::default());
        Faulty { inner, plan, silent: watch::Sender::new(false), operations }
    }

    fn faults(&self) -> MutexGuard<'_, FaultPlan> {
        self.plan.lock().unwrap()
    }

    /// The next swaps of such keys fail so, one after the other.
    pub(crate) fn plan(&self, of: KeyFilter, faults: &[Fault]) {
        self.faults().planned.extend(faults.iter().map(|fault| (of, *fault)));
    }

    /// Whether all that was planned has happened.
    pub(crate) fn is_over(&self) -> bool {
        self.faults().planned.is_empty() && self.faults().failing_reads == 0
    }

    /// The next readings fail.
    pub(crate) fn fail_reads(&self, count: u64) {
        self.faults().failing_reads = count;
    }

    /// Nothing gets through, and that is said.
    pub(crate) fn partition(&self, partitioned: bool) {
        self.faults().partitioned = partitioned;
    }

    /// What is sent gets through, and no answer comes back until this is ended.
    pub(crate) fn silence(&self, silent: bool) {
        self.silent.send_replace(silent);
    }

    pub(crate) fn chaos(&self, chaos: Chaos) {
        self.faults().chaos = chaos;
    }

    /// When each swap of an election was sent that was applied.
    pub(crate) fn applied(&self) -> Vec<Moment> {
        self.faults().applied.clone()
    }

    /// How many times the store was asked for something.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Before a request goes out.
    fn send(&self) -> Result<(), StoreError> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        if self.faults().partitioned { Err(self.unavailable("partitioned")) } else { Ok(()) }
    }

    /// Before an answer comes back.
    async fn answer(&self) {
        let mut silent = self.silent.subscribe();
        silent.wait_for(|silent| !silent).await.unwrap();
        let longest = self.faults().chaos.delay;
        if longest > Span::ZERO {
            boot::sleep(longest.scaled(per_mille().into(), 1_000)).await.unwrap();
        }
    }

    fn fails_to_read(&self) -> bool {
        let mut plan = self.faults();
        if plan.failing_reads > 0 {
            plan.failing_reads -= 1;
            return true;
        }
        per_mille() < plan.chaos.reads
    }

    fn fault_of(&self, key: &Key) -> Option<Fault> {
        let mut plan = self.faults();
        if let Some((_, fault)) = plan.planned.pop_front_if(|(of, _)| of(key)) {
            return Some(fault);
        }
        let (dice, chaos) = (per_mille(), plan.chaos);
        if dice < chaos.before {
            return Some(Fault::Before);
        }
        (dice < chaos.before + chaos.after).then_some(Fault::After)
    }

    async fn do_swap(&self, swap: Swap<'_>) -> Result<Swapped, StoreError> {
        let key = swap.key;
        self.send()?;
        let fault = self.fault_of(key);
        if fault == Some(Fault::Before) {
            return Err(self.unavailable("failed before"));
        }
        let sent = boot::now();
        if fault == Some(Fault::Cut) {
            // Before anybody can see it applied.
            self.partition(true);
        }
        if fault == Some(Fault::Late) {
            self.silence(true);
            self.answer().await;
        }
        let swapped = swap.at(&*self.inner).await;
        if swapped.is_ok() && is_election(key) {
            self.faults().applied.push(sent);
        }
        self.answer().await;
        match (swapped, fault) {
            (Ok(_), Some(Fault::After | Fault::Cut)) => Err(self.unknown()),
            (outcome, _) => outcome,
        }
    }
}

impl Wrapped for Faulty {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::clone(&self.inner)
    }

    fn reads<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            self.send()?;
            if self.fails_to_read() {
                return Err(self.unavailable("a reading failed"));
            }
            let reading = self.inner.read(key).await;
            self.answer().await;
            reading
        })
    }

    fn swaps<'a>(&'a self, swap: Swap<'a>) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(self.do_swap(swap))
    }

    fn lists<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(async move {
            self.send()?;
            let keys = self.inner.list(prefix).await;
            self.answer().await;
            keys
        })
    }
}
