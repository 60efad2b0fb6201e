//! A store between several servers and what they share, to be held back, cut off and wiped.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_election::command::Acquire;
use baton_election::time::Span;
use baton_election::{AgentName, Credential, ElectionName, Incarnation, LeaseKey};
use baton_store::conformance::{Swap, Wrapped};
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Expect, Key, MemoryStore, Persistence, Prefix, Reading, Store,
    StoreError, StoreProperties, Swapped,
};
use tokio::sync::watch;

/// One server's way to a store.
#[derive(Clone)]
pub(crate) struct Held {
    inner: Arc<Mutex<MemoryStore>>,
    /// Swaps of elections wait while this is true.
    pub(crate) hold: watch::Sender<bool>,
    pub(crate) holding: Arc<AtomicUsize>,
    /// Readings of items wait while this is true.
    pub(crate) hold_items: watch::Sender<bool>,
    pub(crate) holding_items: Arc<AtomicUsize>,
    /// Counts all swaps.
    pub(crate) swapped: Arc<AtomicUsize>,
    /// Counts the swaps of items.
    pub(crate) items_swapped: Arc<AtomicUsize>,
    /// The next swap of an election is applied, and the answer lost.
    pub(crate) lose_answer: Arc<AtomicBool>,
    /// It does not reach the store.
    pub(crate) cut: Arc<AtomicBool>,
    /// It does not tell of changes.
    pub(crate) untold: Arc<AtomicBool>,
    /// It does not tell how old a record is.
    pub(crate) ageless: bool,
    /// It tells that every record is so much older than it is.
    pub(crate) aged: Span,
    /// It writes whatever it is given, over whatever is there.
    pub(crate) careless: bool,
}

impl Held {
    pub(crate) fn on(inner: &MemoryStore) -> Held {
        Held {
            inner: Arc::new(Mutex::new(inner.clone())),
            hold: watch::Sender::new(false),
            holding: Arc::default(),
            hold_items: watch::Sender::new(false),
            holding_items: Arc::default(),
            swapped: Arc::default(),
            items_swapped: Arc::default(),
            lose_answer: Arc::default(),
            cut: Arc::default(),
            untold: Arc::default(),
            ageless: false,
            aged: Span::ZERO,
            careless: false,
        }
    }

    /// Nothing is left but what the store knows of itself.
    pub(crate) async fn wipe(&self) {
        let info = self.memory().read(&Key::Store).await.unwrap().found;
        let empty = MemoryStore::default();
        if let Some((record, _)) = info {
            empty
                .swap(&Key::Store, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable)
                .await
                .unwrap();
        }
        *self.inner.lock().unwrap() = empty;
    }

    fn memory(&self) -> MemoryStore {
        self.inner.lock().unwrap().clone()
    }

    fn reached(&self) -> Result<(), StoreError> {
        match self.cut.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(self.unavailable("it is cut off")),
        }
    }
}

impl Wrapped for Held {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.memory())
    }

    fn reads<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            self.reached()?;
            let reading = self.memory().read(key).await?;
            if let Key::Item(..) = key {
                self.holding_items.fetch_add(1, Ordering::SeqCst);
                let _ = self.hold_items.subscribe().wait_for(|hold| !hold).await;
                self.holding_items.fetch_sub(1, Ordering::SeqCst);
            }
            let age = reading.age.filter(|_| !self.ageless).map(|age| age.plus(self.aged));
            Ok(Reading { age, ..reading })
        })
    }

    fn swaps<'a>(&'a self, swap: Swap<'a>) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            self.reached()?;
            self.swapped.fetch_add(1, Ordering::SeqCst);
            let election = swap.is_of_election();
            if election {
                self.holding.fetch_add(1, Ordering::SeqCst);
                let _ = self.hold.subscribe().wait_for(|hold| !hold).await;
                self.holding.fetch_sub(1, Ordering::SeqCst);
            }
            if let Key::Item(..) = swap.key {
                self.items_swapped.fetch_add(1, Ordering::SeqCst);
            }
            let swapped = if self.careless && election {
                let expect = self.memory().read(swap.key).await?.expect();
                Swap { expect, ..swap }.at(&self.memory()).await?
            } else {
                swap.at(&self.memory()).await?
            };
            if election && self.lose_answer.swap(false, Ordering::SeqCst) {
                return Err(self.unknown());
            }
            Ok(swapped)
        })
    }

    fn lists<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(async move {
            self.reached()?;
            self.memory().list(prefix).await
        })
    }

    fn watches<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(async move {
            match self.untold.load(Ordering::SeqCst) {
                false => self.memory().watch(key).await,
                true => Err(self.unavailable("it tells nothing")),
            }
        })
    }

    fn has_strengths(&self) -> StoreProperties {
        StoreProperties { stamped: !self.ageless, ..self.memory().properties() }
    }
}

pub(crate) fn election() -> ElectionName {
    ElectionName::new("e").unwrap()
}

pub(crate) fn credential(number: u8) -> Credential {
    Credential { incarnation: Incarnation([number; 8]), key: LeaseKey([number; 16]) }
}

pub(crate) fn acquire(number: u8, ttl: Span) -> Acquire {
    Acquire {
        ttl: Some(ttl),
        ..Acquire::new(
            AgentName::new(&format!("agent-{number}")).unwrap(),
            credential(number).incarnation,
            credential(number).key.hash(),
        )
    }
}

/// Waits for a condition, with a bound on a hang.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited).await.expect("this hangs");
}
