//! Elections in this process: for the library and for tests.
//!
//! Assumes that all candidates share the value. Guarantees what every store does, stamped by the boot-time clock.
//! Does not survive the process, and is of no use between processes: the command refuses it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_election::Persistence;
use baton_election::time::Moment;
use tokio::sync::watch;

use crate::boot;
use crate::error::StoreError;
use crate::key::{Key, Prefix};
use crate::record::Record;
use crate::store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Reading, Store,
    StoreProperties, Swapped, Version, Watching,
};

/// A store in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    entries: Mutex<BTreeMap<Key, Entry>>,
    changed: watch::Sender<u64>,
}

struct Entry {
    record: Record,
    version: u64,
    stamp: Moment,
}

impl MemoryStore {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.shared.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_now(&self, key: &Key) -> Reading {
        let asked_at = boot::now();
        let entries = self.entries();
        let entry = entries.get(key);
        Reading {
            found: entry.map(|entry| (entry.record.clone(), version(entry.version))),
            age: entry.map(|entry| asked_at.since(entry.stamp)),
            trace: None,
            asked_at,
            received_at: boot::now(),
        }
    }

    fn swap_now(
        &self,
        key: &Key,
        expect: &Expect,
        next: &Record,
        clock: AgeStamp,
    ) -> Result<Swapped, StoreError> {
        let stamp = boot::now();
        let mut entries = self.entries();
        let found = entries.get(key);
        match (expect, found) {
            (Expect::Absent, None) => {}
            (Expect::Version(expected), Some(entry)) if *expected == version(entry.version) => {}
            (Expect::Absent | Expect::Version(_), Some(_) | None) => return Err(StoreError::Conflict),
        }
        let stamp = match (clock, found) {
            (AgeStamp::Preserve, Some(entry)) => entry.stamp,
            (AgeStamp::Reset, Some(_)) | (AgeStamp::Reset | AgeStamp::Preserve, None) => stamp,
        };
        let number = found.map_or(1, |entry| entry.version + 1);
        entries.insert(key.clone(), Entry { record: next.clone(), version: number, stamp });
        drop(entries);
        self.shared.changed.send_modify(|count| *count += 1);
        Ok(Swapped { version: version(number) })
    }
}

fn version(number: u64) -> Version {
    Version::new(&number.to_string())
}

impl Store for MemoryStore {
    fn location(&self) -> String {
        "mem:".to_string()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move { Ok(self.read_now(key)) })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move { self.swap_now(key, &expect, next, clock) })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(async move { Ok(self.entries().keys().filter(|key| prefix.covers(key)).cloned().collect()) })
    }

    fn watch<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(async move {
            let changes = self.shared.changed.subscribe();
            let stream = futures_util::stream::unfold(changes, |mut changes| async move {
                changes.changed().await.ok()?;
                Some((Change::Changed, changes))
            });
            Ok(Box::pin(stream) as BoxStream<Change>)
        })
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "this machine's boot-time clock",
            stamped: true,
            watch: Watching::Pushed,
            durability: Durability::Process,
            deletion: Deletion::Impossible,
            history: HistoryKept::Beside,
            partition: "cannot happen: one process",
            cost: Cost { per_renewal: 1, looks_per_hour: 0 },
        }
    }
}
