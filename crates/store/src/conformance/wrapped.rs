//! A store around another, for tests: it does by itself what a test is about, and leaves everything else to the one within.

use std::sync::Arc;

use baton_election::document::Transition;
use baton_election::{ElectionName, Persistence, WallTime};

use crate::error::StoreError;
use crate::key::{Key, Prefix};
use crate::record::Record;
use crate::store::{
    AgeStamp, BoxFuture, BoxStream, Change, Expect, Reading, Store, StoreProperties, Swapped,
};

/// A swap, as it was asked for.
#[derive(Clone, Debug)]
pub struct Swap<'a> {
    /// Of which record.
    pub key: &'a Key,
    /// What is expected there.
    pub expect: Expect,
    /// What shall be there.
    pub next: &'a Record,
    /// What becomes of its clock.
    pub clock: AgeStamp,
    /// How durable it must be.
    pub persistence: Persistence,
}

impl Swap<'_> {
    /// Whether it is one of an election's document.
    pub fn is_of_election(&self) -> bool {
        matches!(self.key, Key::Election(_))
    }

    /// Asks a store for it.
    pub async fn at(self, store: &dyn Store) -> Result<Swapped, StoreError> {
        store.swap(self.key, self.expect, self.next, self.clock, self.persistence).await
    }
}

/// What is a [`Store`] by being around another. Each act is the inner store's unless it is written anew.
pub trait Wrapped: Send + Sync {
    /// The store within.
    fn inner(&self) -> Arc<dyn Store>;

    /// Reads.
    fn reads<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move { self.inner().read(key).await })
    }

    /// Swaps.
    fn swaps<'a>(&'a self, swap: Swap<'a>) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move { swap.at(&*self.inner()).await })
    }

    /// Lists.
    fn lists<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(async move { self.inner().list(prefix).await })
    }

    /// Tells of changes.
    fn watches<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(async move { self.inner().watch(key).await })
    }

    /// Its wall clock.
    fn walls(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        Box::pin(async move { self.inner().wall().await })
    }

    /// What it can and cannot do.
    fn has_strengths(&self) -> StoreProperties {
        self.inner().properties()
    }

    /// That what was asked was not done.
    fn unavailable(&self, why: &str) -> StoreError {
        let hint = "this is a test".to_string();
        StoreError::Unavailable { location: self.inner().location(), why: why.to_string(), hint }
    }

    /// That nobody knows whether it was.
    fn unknown(&self) -> StoreError {
        StoreError::Unknown { location: self.inner().location(), why: "the reply is lost".to_string() }
    }
}

impl<W: Wrapped> Store for W {
    fn location(&self) -> String {
        self.inner().location()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        self.reads(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        self.swaps(Swap { key, expect, next, clock, persistence })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        self.lists(prefix)
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        self.watches(key)
    }

    fn properties(&self) -> StoreProperties {
        self.has_strengths()
    }

    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        self.walls()
    }

    fn native_history<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Transition>, StoreError>> {
        Box::pin(async move { self.inner().native_history(election, limit).await })
    }
}
