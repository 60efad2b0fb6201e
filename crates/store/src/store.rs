//! The trait, and what passes through it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use baton_election::document::Transition;
use baton_election::time::{Moment, Span, WallTime};
use baton_election::{Epoch, Persistence};
use futures_core::Stream;
use serde::Serialize;

use crate::error::StoreError;
use crate::key::{Key, Prefix};
use crate::record::Record;
use crate::waiting::Waiters;

/// A future that can be kept behind a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A stream that can be kept behind a trait object.
pub type BoxStream<T> = Pin<Box<dyn Stream<Item = T> + Send>>;

/// What tells one state of a record from every other that it had or will have. Opaque; compared for equality only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(Arc<str>);

impl Version {
    /// Wraps a store's own notion.
    pub fn new(text: &str) -> Version {
        Version(text.into())
    }

    /// The store's own notion.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a swap expects to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// Exactly this.
    Version(Version),
}

impl Expect {
    /// What a swap after this reading expects.
    pub fn of(version: Option<&Version>) -> Expect {
        version.map_or(Expect::Absent, |version| Expect::Version(version.clone()))
    }
}

/// What a swap does to the stamp that a record's age is counted from.
///
/// A grant, a renewal and the beginning of a vacancy reset it. Every other change preserves it, so that an operator's note does
/// not lengthen a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgeStamp {
    /// The age counts from this swap.
    Reset,
    /// The age counts from where it did before.
    Preserve,
}

/// What was found under a key.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The record and its version; none if there is none.
    pub found: Option<(Record, Version)>,
    /// On a stamped store: a lower bound on the time since the record's clock was restarted.
    pub age: Option<Span>,
    /// Where others can delete records, and nothing was found: what the store still knows.
    pub trace: Option<Trace>,
    /// When the reading was asked for, on this machine's boot-time clock.
    pub asked_at: Moment,
    /// When it was received.
    pub received_at: Moment,
}

impl Reading {
    /// The record, if there is one.
    pub fn record(&self) -> Option<&Record> {
        self.found.as_ref().map(|(record, _)| record)
    }

    /// What a swap after this reading expects.
    pub fn expect(&self) -> Expect {
        Expect::of(self.found.as_ref().map(|(_, version)| version))
    }
}

/// What a store knows of a record that is not there: it may have been deleted by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// No epoch above this was ever given.
    pub epoch: Epoch,
    /// How long the lease of a deleted record may last from now on; zero if the store cannot know of one.
    pub lease: Span,
}

/// A swap that was applied.
#[derive(Clone, Debug)]
pub struct Swapped {
    /// The version that the record has after it.
    pub version: Version,
}

/// That something may have changed. A hint to read again; the reading is the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The record changed, or may have.
    Changed,
    /// Changes may have been missed.
    Gap,
}

/// What a store can and cannot do, as its users must know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreProperties {
    /// What a lease's age is told by.
    pub age: &'static str,
    /// Whether the store stamps, or observers must watch for themselves.
    pub stamped: bool,
    /// How changes are told.
    pub watch: Watching,
    /// What survives a power cut.
    pub durability: Durability,
    /// What happens to epochs when somebody deletes the record.
    pub deletion: Deletion,
    /// Who keeps the list of transitions.
    pub history: HistoryKept,
    /// What a partition does, in words.
    pub partition: &'static str,
    /// What the store is asked to do for a lease.
    pub cost: Cost,
}

/// What the store is asked to do for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Operations, as the store counts or bills them, for one renewal.
    pub per_renewal: u32,
    /// How often in an hour one who waits looks by itself, beside being told.
    pub looks_per_hour: u32,
}

/// How changes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watching {
    /// At once.
    Pushed,
    /// By looking again and again, with jitter.
    Polled,
}

/// What survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Nothing: the store dies with its process.
    Process,
    /// What was answered.
    Synced,
    /// What was answered, as the remote keeps it.
    Remote,
}

/// What happens to epochs when somebody deletes the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deletion {
    /// Nobody can.
    Impossible,
    /// They rise on.
    Survives,
    /// The owner can wipe the store; it then has a new id, which fences refuse.
    NewStoreId,
}

/// Who keeps the list of transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryKept {
    /// A record beside the document, kept by those who change it.
    Beside,
    /// The store itself.
    Native,
}

/// A place for records, changed by compare-and-swap.
pub trait Store: Send + Sync {
    /// Where this is, for people: no secrets.
    fn location(&self) -> String;

    /// What is under a key.
    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>>;

    /// Puts `next` under the key if what is there is what is expected. The errors say what may be assumed. A store may make every
    /// change as durable as it can; it makes none less durable than `persistence` says.
    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>>;

    /// Whether this client could write under a key at this moment, as far as that can be tried without a change. For a client that
    /// will wait for its turn, so that it learns at once what would fail then. Where nothing can be tried, nothing fails.
    fn writable<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    /// The keys under a prefix, in order.
    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>>;

    /// At most so many of the keys under a prefix, in order: the first, or those after this one.
    fn list_part<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(async move {
            let mut keys = self.list(prefix).await?;
            keys.sort_unstable();
            let from = after.map_or(0, |after| keys.partition_point(|key| key <= after));
            Ok(keys.into_iter().skip(from).take(limit).collect())
        })
    }

    /// Tells of changes under a key, from the call on. Never ends by itself.
    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>>;

    /// What the last change showed that a watch of this client told of, where the store tells it along; once.
    ///
    /// It may be outdated by now, so that it is good for a swap, which finds out, and for nothing else. Its `asked_at` is a moment at
    /// which it had not happened yet.
    fn last_pushed(&self, _key: &Key) -> Option<Reading> {
        None
    }

    /// What this store can and cannot do.
    fn properties(&self) -> StoreProperties;

    /// What must be laid out in the store before its first use, as its administrator would write it; none if nothing must.
    fn layout(&self) -> Option<String> {
        None
    }

    /// Lays that out, unless it is there already.
    fn prepare(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    /// The wall clock of the store, where it has one that all its clients share. It names slots of time, and decides nothing about leases.
    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    /// The notes of those who wait to lead, where it shows them.
    fn waiters(&self) -> Option<&dyn Waiters> {
        None
    }

    /// The last transitions of an election, the oldest first, where the store keeps them itself.
    ///
    /// Asked only if [`StoreProperties::history`] is [`HistoryKept::Native`].
    fn native_history<'a>(
        &'a self,
        _election: &'a baton_election::ElectionName,
        _limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Transition>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
