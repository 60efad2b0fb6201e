//! The prefix of etcd's own elections as a store: to be watched, and to say how strong it is. It holds no records.

use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Key,
    NativeElections, Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, Swapped,
    Watching,
};

use super::EtcdElections;

pub(super) struct NativeStore {
    pub(super) elections: EtcdElections,
}

impl NativeStore {
    fn no_records<T: Send + 'static>(&self) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(std::future::ready(Err(StoreError::Refused {
            place: self.elections.location(),
            why: "etcd's own elections keep no records of Baton's".to_string(),
            hint: "run, acquire, renew, release, status and watch work here; for all else use another prefix without ?election=etcd".to_string(),
        })))
    }
}

impl Store for NativeStore {
    fn location(&self) -> String {
        self.elections.location()
    }

    fn read<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        self.no_records()
    }

    fn swap<'a>(
        &'a self,
        _key: &'a Key,
        _expect: Expect,
        _next: &'a Record,
        _clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        self.no_records()
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        match prefix {
            Prefix::Elections => Box::pin(self.elections.elections_now()),
            Prefix::Candidates(_) | Prefix::Fences | Prefix::Audits | Prefix::Items(..) => self.no_records(),
        }
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        match key {
            Key::Election(election) => self.elections.watch(election),
            Key::Store
            | Key::Tokens
            | Key::Candidate(..)
            | Key::History(_)
            | Key::Fence(_)
            | Key::FenceLog(..)
            | Key::Audit(..)
            | Key::Item(..) => self.no_records(),
        }
    }

    fn native(&self) -> Option<&dyn NativeElections> {
        Some(&self.elections)
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "etcd itself ends a lease that is not kept alive",
            stamped: false,
            watch: Watching::Pushed,
            durability: Durability::Synced,
            deletion: Deletion::Survives,
            history: HistoryKept::Beside,
            partition: "a client that reaches no majority of etcd's members can neither be a candidate nor stay leader",
            // A keep-alive and a linearizable read.
            cost: Cost { per_renewal: 2, looks_per_hour: 0 },
        }
    }
}
