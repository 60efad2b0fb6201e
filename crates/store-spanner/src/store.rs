//! The store itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_election::WallTime;
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Key,
    Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, StoreUrl, Swapped, Watching,
};

use crate::client::Client;
use crate::{open, prepare, reader, watch, writer};

/// A store in a Spanner database. Clones share its connection.
///
/// A value belongs to the tokio runtime that it is first used in. Whoever drops an unfinished swap knows as little as
/// after [`StoreError::Unknown`].
#[derive(Clone)]
pub struct SpannerStore {
    client: Arc<Client>,
}

impl SpannerStore {
    /// The store that `spanner://PROJECT/INSTANCE/DATABASE` names. Sends nothing: the connection is made when it is needed.
    ///
    /// Parameters: `table` (`Leadership`; the two other tables are named after it), `poll` (`1s`: a watcher looks after
    /// this to twice this), `timeout` (`10s`: the bound on every operation), and for an emulator `emulator=HOST:PORT`
    /// and `rest=HOST:PORT`; without them the variable `SPANNER_EMULATOR_HOST` is honoured as everywhere.
    pub fn open(url: &StoreUrl) -> Result<SpannerStore, StoreError> {
        Ok(SpannerStore { client: Arc::new(Client::new(open::settings(url)?)) })
    }

    /// How many statements this value and its clones have sent so far, for whoever wants to know what something costs.
    pub fn statements(&self) -> u64 {
        self.client.statements.load(Ordering::Relaxed)
    }
}

impl Store for SpannerStore {
    fn location(&self) -> String {
        self.client.location()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(reader::read(&self.client, key))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move { writer::swap(&self.client, key, &expect, next, clock).await })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(reader::list(&self.client, prefix))
    }

    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        Box::pin(reader::wall(&self.client))
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(watch::watch(Arc::clone(&self.client), key.clone()))
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "Spanner's own clock, the same for everybody to within 10 ms",
            stamped: true,
            watch: Watching::Polled,
            durability: Durability::Remote,
            deletion: Deletion::Survives,
            history: HistoryKept::Beside,
            partition: "a client that cannot reach Spanner can neither take nor renew a lease, and loses its own",
            // The statement and the commit.
            cost: Cost { per_renewal: 2, looks_per_hour: watch::looks_per_hour(self.client.settings.poll) },
        }
    }

    fn layout(&self) -> Option<String> {
        Some(prepare::layout(&self.client.settings))
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(prepare::prepare(&self.client))
    }
}
