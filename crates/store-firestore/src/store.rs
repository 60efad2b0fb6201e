//! The store itself.

use std::sync::Arc;
use std::time::Duration;

use baton_election::time::Moment;
use baton_election::{ElectionName, Epoch, Span, WallTime};
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Key,
    Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, Swapped, Trace, Watching, boot,
};
use gcloud_sdk::google::firestore::v1 as api;
use gcloud_sdk::google::firestore::v1::structured_query as query;
use gcloud_sdk::google::firestore::v1::value::ValueType;
use gcloud_sdk::prost_types::Timestamp;

use crate::client::{Client, Snapshot};
use crate::database::DatabasePath;
use crate::election_cache::{CachedDocument, ElectionCache};
use crate::mark::{self, Mark};
use crate::pace::Beat;
use crate::{fault, shape, time, watch};

/// The bound on noting in a mark that its document is gone, which no reader waits for in vain.
const NOTE_LIMIT: Duration = Duration::from_secs(2);

/// A store in Firestore. Clones share its connections.
#[derive(Clone)]
pub struct FirestoreStore {
    pub(crate) inner: Arc<Inner>,
}

/// What the clones of a store share.
pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) place: DatabasePath,
    /// What was last seen of elections.
    pub(crate) memory: ElectionCache,
    /// The shortest lease that is taken.
    pub(crate) shortest: Span,
}

/// A key as it was read.
struct Read {
    found: Option<shape::ParsedDocument>,
    trace: Trace,
    read_time: Timestamp,
}

impl FirestoreStore {
    pub(crate) fn new(client: Client, place: DatabasePath, shortest: Span) -> FirestoreStore {
        FirestoreStore {
            inner: Arc::new(Inner { client, place, memory: ElectionCache::default(), shortest }),
        }
    }

    /// The same store with another bound on every request than 10 s.
    #[must_use]
    pub fn limited_to(self, limit: Duration) -> FirestoreStore {
        let mut client = self.inner.client.clone();
        client.limit = limit;
        FirestoreStore::new(client, self.inner.place.clone(), self.inner.shortest)
    }
}

impl Inner {
    /// Reads a key and keeps in mind what a swap of it needs.
    pub(crate) async fn read(&self, key: &Key) -> Result<Reading, StoreError> {
        let asked_at = boot::now();
        let read = match key.as_election() {
            Some(election) => self.read_election(key, election, asked_at).await?,
            None => {
                let snapshot = self.get(vec![self.place.document(key)]).await?;
                let trace = Trace { epoch: Epoch(0), lease: Span::ZERO };
                Read { found: self.found(key, &snapshot)?, trace, read_time: snapshot.read_time }
            }
        };
        let age = read.found.as_ref().map(|found| time::elapsed(&read.read_time, &found.heartbeat));
        let trace = read.found.is_none().then_some(read.trace);
        let found = read.found.map(|found| (found.record, time::version(&found.update_time)));
        Ok(Reading { found, age, trace, asked_at, received_at: boot::now() })
    }

    /// The time of a reading, whether there is something to read or not.
    async fn wall(&self) -> Result<Option<WallTime>, StoreError> {
        let snapshot = self.get(vec![self.place.document(&Key::Store)]).await?;
        Ok(Some(time::wall(&snapshot.read_time)))
    }

    async fn read_election(
        &self,
        key: &Key,
        election: &ElectionName,
        asked_at: Moment,
    ) -> Result<Read, StoreError> {
        let mark_name = self.place.mark(election);
        let snapshot = self.get(vec![self.place.document(key), mark_name.clone()]).await?;
        let found = self.found(key, &snapshot)?;
        let mark = snapshot.document(&mark_name);
        let mark = mark.map(|mark| Mark::parse(&self.place.shown(&mark_name), mark)).transpose()?;
        let read_time = snapshot.read_time;
        let trace = Mark::trace(mark.as_ref(), &read_time);
        let Some(found) = found else {
            let mark = self.note_gone(mark_name, mark).await;
            self.memory.read(election, None, mark);
            return Ok(Read { found: None, trace, read_time });
        };
        if let Record::Election(document) = &found.record {
            if let Some(mark) = mark.as_ref().filter(|mark| mark.epoch > document.epoch) {
                return Err(StoreError::Corrupt {
                    place: self.place.shown(&self.place.document(key)),
                    why: format!(
                        "its epoch is {}, but {} was given: an old copy was put back",
                        document.epoch, mark.epoch
                    ),
                    hint: "delete this document; the next leader's token is above the highest".to_string(),
                });
            }
            let beaten = asked_at - time::elapsed(&read_time, &found.heartbeat);
            let seen = CachedDocument {
                version: time::version(&found.update_time),
                beat: Beat::of(document),
                beaten,
            };
            self.memory.read(election, Some(seen), mark);
        }
        Ok(Read { found: Some(found), trace, read_time })
    }

    /// Notes in the mark since when its document is gone, if it had a lease and nobody has noted it yet.
    ///
    /// Whoever may not write cannot, and then the whole lease is waited for at every look.
    async fn note_gone(&self, name: String, mark: Option<Mark>) -> Option<Mark> {
        let mark = mark?;
        if mark.lease == Span::ZERO || mark.gone.is_some() {
            return Some(mark);
        }
        let note = self.client.commit(vec![mark::note_gone(name, &mark)]);
        match tokio::time::timeout(NOTE_LIMIT, note).await {
            Ok(Ok(times)) => times.first().map(|time| Mark { update_time: *time, ..mark }),
            // What stands there is read before the next swap.
            Ok(Err(_)) | Err(_) => Some(mark),
        }
    }

    async fn get(&self, names: Vec<String>) -> Result<Snapshot, StoreError> {
        let got = self.client.get(names).await;
        got.map_err(|failure| fault::reading(&self.place.location, &failure))
    }

    fn found(&self, key: &Key, snapshot: &Snapshot) -> Result<Option<shape::ParsedDocument>, StoreError> {
        let name = self.place.document(key);
        let document = snapshot.document(&name);
        document.map(|document| shape::parse(&self.place.shown(&name), key, document)).transpose()
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Key>, StoreError> {
        let (collection, range) = self.place.range(prefix);
        let names = self.client.names(named(collection, range)).await;
        let names = names.map_err(|failure| fault::reading(&self.place.location, &failure))?;
        let keys = names.iter().filter_map(|name| self.place.key_of(name));
        let mut keys: Vec<Key> = keys.filter(|key| prefix.covers(key)).collect();
        keys.sort();
        Ok(keys)
    }
}

/// The query for the names of the documents of a collection, or of those between two names.
fn named(collection: String, range: Option<(String, String)>) -> api::StructuredQuery {
    use query::field_filter::Operator;
    use query::filter::FilterType;
    let name = || Some(query::FieldReference { field_path: "__name__".to_string() });
    let compared = |op: Operator, with: String| query::Filter {
        filter_type: Some(FilterType::FieldFilter(query::FieldFilter {
            field: name(),
            op: i32::from(op),
            value: Some(api::Value { value_type: Some(ValueType::ReferenceValue(with)) }),
        })),
    };
    let both = |(from, to)| query::Filter {
        filter_type: Some(FilterType::CompositeFilter(query::CompositeFilter {
            op: i32::from(query::composite_filter::Operator::And),
            filters: vec![compared(Operator::GreaterThanOrEqual, from), compared(Operator::LessThan, to)],
        })),
    };
    api::StructuredQuery {
        select: name().map(|field| query::Projection { fields: vec![field] }),
        from: vec![query::CollectionSelector { collection_id: collection, all_descendants: false }],
        r#where: range.map(both),
        ..api::StructuredQuery::default()
    }
}

impl Store for FirestoreStore {
    fn location(&self) -> String {
        self.inner.place.location.clone()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(self.inner.read(key))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move { self.inner.swap(key, &expect, next, clock).await })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(self.inner.list(prefix))
    }

    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        Box::pin(self.inner.wall())
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        let name = self.inner.place.document(key);
        Box::pin(watch::watch(self.inner.client.clone(), self.inner.place.location.clone(), name))
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "Firestore's time of the reading, less its time of the last renewal",
            stamped: true,
            watch: Watching::Pushed,
            durability: Durability::Remote,
            deletion: Deletion::Survives,
            history: HistoryKept::Beside,
            partition: "a client that cannot reach Firestore can neither take nor renew a lease, and loses its own",
            // One write: a renewal begins from what its holder wrote last, and leaves the mark alone.
            cost: Cost { per_renewal: 1, looks_per_hour: 0 },
        }
    }
}
