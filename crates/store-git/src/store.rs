//! The store itself.

use std::sync::Arc;
use std::time::Duration;

use baton_election::ElectionName;
use baton_election::document::Transition;
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Key,
    Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, StoreUrl, Swapped, Watching,
    boot,
};

use crate::arbiter::Arbiter;
use crate::objects::Objects;
use crate::{open, refs, watch};

/// A store in a git repository. Clones share its processes.
///
/// A value belongs to the tokio runtime that it is first used in. Whoever drops an unfinished swap ends its git, and
/// knows as little as after [`StoreError::Unknown`].
#[derive(Clone)]
pub struct GitStore {
    pub(crate) inner: Arc<Inner>,
}

/// What the clones of a store share.
pub(crate) struct Inner {
    /// Decides between two writers.
    pub(crate) arbiter: Arbiter,
    /// The objects of the clone.
    pub(crate) objects: Objects,
    /// What the memory of this clone about the arbiter is kept under.
    pub(crate) space: String,
}

impl GitStore {
    /// The store that `git:DIR` or `git:DIR?remote=R` names. DIR is any folder inside a repository; R is the name of a
    /// configured remote, a URL, or a path as seen from DIR. Asks nothing of the remote, and blocks for some milliseconds.
    pub fn open(url: &StoreUrl) -> Result<GitStore, StoreError> {
        let (arbiter, space) = open::open(url)?;
        Ok(GitStore::new(arbiter, space))
    }

    /// The same store with another bound on every git process than 30 s.
    #[must_use]
    pub fn limited_to(self, limit: Duration) -> GitStore {
        let mut arbiter = self.inner.arbiter.clone();
        arbiter.git = arbiter.git.limited_to(limit);
        GitStore::new(arbiter, self.inner.space.clone())
    }

    fn new(arbiter: Arbiter, space: String) -> GitStore {
        let objects = Objects::of(arbiter.git.clone());
        GitStore { inner: Arc::new(Inner { arbiter, objects, space }) }
    }
}

impl Store for GitStore {
    fn location(&self) -> String {
        self.inner.arbiter.location.clone()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            let asked_at = boot::now();
            let tip = self.inner.read(key).await?;
            let found = tip.map(|tip| (tip.record, watch::version(&tip.commit.oid)));
            Ok(Reading { found, age: None, trace: None, asked_at, received_at: boot::now() })
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        _clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move { self.inner.swap(key, &expect, next).await })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(async move {
            let names = self.inner.arbiter.names().await?;
            let keys = names.iter().filter_map(|name| refs::key_of(name));
            let mut keys: Vec<Key> = keys.filter(|key| prefix.covers(key)).collect();
            keys.sort();
            Ok(keys)
        })
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(watch::watch(Arc::clone(&self.inner), refs::of(key)))
    }

    fn properties(&self) -> StoreProperties {
        let here = self.inner.arbiter.is_here();
        StoreProperties {
            age: "how long this observer has itself seen the record unchanged",
            stamped: false,
            watch: Watching::Polled,
            durability: if here { Durability::Synced } else { Durability::Remote },
            deletion: Deletion::NewStoreId,
            history: HistoryKept::Native,
            partition: if here {
                "cannot happen: one repository"
            } else {
                "a client that cannot reach the remote can neither take nor renew a lease, and loses its own"
            },
            cost: Cost { per_renewal: 1, looks_per_hour: if here { 24_000 } else { 2_400 } },
        }
    }

    fn native_history<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Transition>, StoreError>> {
        Box::pin(self.inner.history(election, limit))
    }
}
