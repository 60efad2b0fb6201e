//! A disk whose sync fails: the engine stops granting and says so, keeps what it had answered, and goes on when the disk is well.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use baton_api::CommandError;
use baton_api::command::Decided;
use baton_election::command::Renew;
use baton_election::time::Span;
use baton_election::{Answer, Command, ElectionName, Epoch};
use baton_server::Engine;
use baton_store::conformance::{Swap, Wrapped};
use baton_store::{BoxFuture, Key, MemoryStore, Reading, Store, StoreError, Swapped};

use crate::support;
use crate::support::credential;

const WELL: u8 = 0;
/// The next write may have been applied, and was; after it nothing can be read or written.
const SYNC_FAILS: u8 = 1;
const CLOSED: u8 = 2;

/// A store that behaves as one on a disk does whose sync fails: the outcome of that write is not known, and then it is closed.
#[derive(Clone, Default)]
struct OnDisk {
    inner: MemoryStore,
    state: Arc<AtomicU8>,
    writes: Arc<AtomicUsize>,
}

impl OnDisk {
    fn open(&self) -> Result<(), StoreError> {
        match self.state.load(Ordering::SeqCst) {
            WELL => Ok(()),
            _ => Err(self.unavailable("an error of the disk")),
        }
    }
}

impl Wrapped for OnDisk {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.inner.clone())
    }

    fn reads<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            if self.state.load(Ordering::SeqCst) == CLOSED {
                self.open()?;
            }
            self.inner.read(key).await
        })
    }

    fn swaps<'a>(&'a self, swap: Swap<'a>) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            self.writes.fetch_add(1, Ordering::SeqCst);
            let syncs = self.state.compare_exchange(SYNC_FAILS, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
            if syncs.is_ok() {
                swap.at(&self.inner).await?;
                return Err(self.unknown());
            }
            self.open()?;
            swap.at(&self.inner).await
        })
    }
}

async fn acquire(engine: &Engine, election: &str, number: u8) -> Result<Decided, CommandError> {
    let acquire = support::acquire(number, Span::secs(600));
    engine.acquire(&ElectionName::new(election).unwrap(), acquire, Span::ZERO).await
}

fn granted(outcome: Result<Decided, CommandError>) -> (Epoch, bool) {
    match outcome.unwrap().answer {
        Answer::Granted { epoch, repeated, .. } => (epoch, repeated),
        other => panic!("{other:?}"),
    }
}

async fn renew(engine: &Engine, election: &str, number: u8, epoch: Epoch) -> Result<Decided, CommandError> {
    let renew = Command::Renew(Renew::new(epoch, credential(number)));
    engine.execute(&ElectionName::new(election).unwrap(), &renew).await
}

#[tokio::test]
async fn a_sync_that_fails_stops_grants_and_says_so_until_the_disk_is_well() {
    let store = OnDisk::default();
    let engine = Engine::start(Arc::new(store.clone())).await.unwrap();
    let (held, _) = granted(acquire(&engine, "held", 1).await);
    engine.ready().await.unwrap();
    store.state.store(SYNC_FAILS, Ordering::SeqCst);
    let failed = acquire(&engine, "doubtful", 2).await.unwrap_err();
    assert!(
        matches!(failed, CommandError::Store(StoreError::Unknown { .. })),
        "it may have been granted: {failed:?}"
    );
    for _ in 0..3 {
        let failed = acquire(&engine, "new", 3).await.unwrap_err();
        assert!(matches!(failed, CommandError::Store(StoreError::Unavailable { .. })), "{failed:?}");
        assert!(matches!(engine.ready().await, Err(StoreError::Unavailable { .. })));
        // What needs no disk goes on.
        renew(&engine, "held", 1, held).await.unwrap();
        assert!(engine.view(&ElectionName::new("held").unwrap()).await.unwrap().document.is_some());
    }
    store.state.store(WELL, Ordering::SeqCst);
    // Whoever asked in doubt finds out that it leads, and nobody else does.
    assert_eq!(granted(acquire(&engine, "doubtful", 2).await), (Epoch(1), true));
    assert!(acquire(&engine, "doubtful", 4).await.is_err());
    assert_eq!(granted(acquire(&engine, "new", 3).await), (Epoch(1), false));
    engine.ready().await.unwrap();
    renew(&engine, "held", 1, held).await.unwrap();
}

/// Nobody writes while a load balancer keeps everybody away: it finds out by itself, and not by a write for every question.
#[tokio::test]
async fn it_is_ready_again_also_if_nobody_writes() {
    let store = OnDisk::default();
    let engine = Engine::start(Arc::new(store.clone())).await.unwrap();
    store.state.store(SYNC_FAILS, Ordering::SeqCst);
    acquire(&engine, "e", 1).await.unwrap_err();
    store.state.store(WELL, Ordering::SeqCst);
    let before = store.writes.load(Ordering::SeqCst);
    let begun = std::time::Instant::now();
    let mut asked = 0;
    while engine.ready().await.is_err() {
        asked += 1;
        assert!(begun.elapsed() < Duration::from_secs(60), "it is never ready again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.writes.load(Ordering::SeqCst) - before, 1, "{asked} questions");
    for _ in 0..10 {
        engine.ready().await.unwrap();
    }
    assert_eq!(store.writes.load(Ordering::SeqCst) - before, 1, "none while writes succeed");
}
