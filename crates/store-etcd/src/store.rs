//! The store itself: one key a record, swapped by transactions on its revision.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use baton_election::time::Moment;
use baton_election::{Epoch, Span};
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Key,
    Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, StoreUrl, Swapped, Trace,
    Version, Watching, boot,
};

use crate::client::{Client, Effect};
use crate::native::candidate;
use crate::open::{PASSWORD, Settings};
use crate::shape::{self, Area, Keys};
use crate::watch;
use crate::wire::etcdserverpb::response_op::Response;
use crate::wire::etcdserverpb::{RangeResponse, TxnRequest, TxnResponse};
use crate::wire::mvccpb::KeyValue;

/// How many keys are listed at once.
const PAGE: i64 = 1_000;
/// How many keys are looked at for traces of etcd's own elections.
const GLANCE: i64 = 1_000;

/// Records under a prefix of an etcd. Clones share its connections.
#[derive(Clone)]
pub struct EtcdStore {
    client: Arc<Client>,
    keys: Keys,
    /// What watches of this client told.
    pushed: watch::LastPushed,
}

impl EtcdStore {
    /// The store that `etcd://HOSTS/PREFIX` names. Asks nothing of etcd.
    pub async fn open(url: &StoreUrl) -> Result<EtcdStore, StoreError> {
        let settings = Settings::of(url, std::env::var(PASSWORD).ok())?;
        if settings.native {
            return Err(StoreError::Refused {
                place: settings.location(),
                why: "it names etcd's own elections, which are no store".to_string(),
                hint: "leave out ?election=etcd".to_string(),
            });
        }
        EtcdStore::of(&settings)
    }

    /// The same store with another bound on every request than ten seconds.
    #[must_use]
    pub fn limited_to(self, limit: Duration) -> EtcdStore {
        EtcdStore { client: Arc::new(self.client.limited_to(limit)), ..self }
    }

    pub(crate) fn of(settings: &Settings) -> Result<EtcdStore, StoreError> {
        let client = Client::of(settings)?;
        let keys = Keys::of(&settings.prefix, &client.location);
        Ok(EtcdStore { client: Arc::new(client), keys, pushed: watch::LastPushed::default() })
    }

    async fn read_now(&self, key: &Key) -> Result<Reading, StoreError> {
        let asked_at = boot::now();
        let text = self.keys.text(key);
        let answer = self.client.range(&Area::only(&text).request()).await;
        let answer = answer.map_err(|fault| fault.of_reading(&self.client.location))?;
        match (answer.kvs.first(), key.as_election()) {
            (Some(found), _) => {
                let found = Some(self.keys.record(key, found)?);
                Ok(Reading { found, age: None, trace: None, asked_at, received_at: boot::now() })
            }
            (None, Some(_)) => self.read_alone(key, &text, asked_at).await,
            (None, None) => Ok(absent(shape::revision(answer.header.as_ref()), asked_at)),
        }
    }

    /// Reads an election that was not there, and makes sure that etcd's own recipe does not run it.
    async fn read_alone(&self, key: &Key, text: &str, asked_at: Moment) -> Result<Reading, StoreError> {
        let below = Area::below(text);
        let request = TxnRequest {
            compare: vec![below.without_lease()],
            success: vec![shape::look(Area::only(text).request())],
            failure: vec![shape::look(Area::only(text).request()), shape::look(below.keys(GLANCE))],
        };
        let answer = self.client.txn(Effect::Repeatable, &request).await;
        let answer = answer.map_err(|fault| fault.of_reading(&self.client.location))?;
        let mut ranges = ranges(&answer);
        if let Some(found) = ranges.next().and_then(|range| range.kvs.first()) {
            let found = Some(self.keys.record(key, found)?);
            return Ok(Reading { found, age: None, trace: None, asked_at, received_at: boot::now() });
        }
        if !answer.succeeded {
            return Err(self.mixed(ranges.next().map_or(&[], |range| &range.kvs), text));
        }
        Ok(absent(shape::revision(answer.header.as_ref()), asked_at))
    }

    async fn swap_now(&self, key: &Key, expect: &Expect, next: &Record) -> Result<Swapped, StoreError> {
        let text = self.keys.text(key);
        let success = vec![shape::put(&text, next.to_json())];
        let compare = match expect {
            Expect::Absent => vec![shape::is_absent(&text)],
            // A version that this store did not give is not there.
            Expect::Version(version) => match version.as_str().parse() {
                Ok(revision) if revision > 0 => vec![shape::is_at(&text, revision)],
                Ok(_) | Err(_) => return Err(StoreError::Conflict),
            },
        };
        let mut request = TxnRequest { compare, success, failure: Vec::new() };
        match (key, expect) {
            (Key::Store, Expect::Absent) => self.refuse_elections_of_etcd().await?,
            (Key::Election(election), Expect::Absent) => {
                // Whoever decided on a look before another record was made, and deleted, would give its epochs again.
                let (begun, epoch) = (self.keys.begun(election), first_epoch(next));
                request.compare.push(shape::is_older_than(&begun, epoch.0));
                request.success.push(shape::put(&begun, epoch.to_string()));
                let below = Area::below(&text);
                request.compare.push(below.without_lease());
                request.failure =
                    vec![shape::look(Area::only(&text).keys(1)), shape::look(below.keys(GLANCE))];
            }
            (
                Key::Tokens
                | Key::Candidate(..)
                | Key::History(_)
                | Key::Fence(_)
                | Key::FenceLog(..)
                | Key::Audit(..)
                | Key::Item(..),
                Expect::Absent,
            )
            | (_, Expect::Version(_)) => {}
        }
        let answer = self.client.txn(Effect::Once, &request).await;
        let answer = answer.map_err(|fault| fault.of_writing(&self.client.location))?;
        if answer.succeeded {
            let version = Version::new(&shape::revision(answer.header.as_ref()).to_string());
            return Ok(Swapped { version });
        }
        let mut ranges = ranges(&answer);
        match (ranges.next(), ranges.next()) {
            (Some(record), Some(below))
                if record.kvs.is_empty() && below.kvs.iter().any(|found| found.lease != 0) =>
            {
                Err(self.mixed(&below.kvs, &text))
            }
            (_, _) => Err(StoreError::Conflict),
        }
    }

    /// A prefix whose elections etcd's recipe runs is not made a store of Baton's.
    async fn refuse_elections_of_etcd(&self) -> Result<(), StoreError> {
        let answer = self.client.range(&self.keys.all().keys(GLANCE)).await;
        let answer = answer.map_err(|fault| fault.of_reading(&self.client.location))?;
        match answer.kvs.iter().find(|found| candidate::is_one(found)) {
            None => Ok(()),
            Some(found) => Err(self.mixed(std::slice::from_ref(found), "")),
        }
    }

    /// Keys that are bound to leases are not Baton's, and an election that etcd's own recipe runs is left alone.
    fn mixed(&self, below: &[KeyValue], text: &str) -> StoreError {
        let bound = below.iter().find(|found| found.lease != 0);
        StoreError::Refused {
            place: self.keys.place(bound.map_or(text.as_bytes(), |found| &found.key)),
            why: "it is bound to a lease, as the candidates of etcd's own elections are".to_string(),
            hint: "join them with ?election=etcd, or use another prefix or name".to_string(),
        }
    }

    async fn list_now(&self, prefix: &Prefix) -> Result<Vec<Key>, StoreError> {
        let mut area = self.keys.area(prefix);
        let mut keys = Vec::new();
        loop {
            let answer = self.client.range(&area.keys(PAGE)).await;
            let answer = answer.map_err(|fault| fault.of_reading(&self.client.location))?;
            let found = answer.kvs.iter().filter(|found| !candidate::is_one(found));
            let found = found.filter_map(|found| self.keys.key_of(&found.key));
            keys.extend(found.filter(|key| prefix.covers(key)));
            match answer.kvs.last() {
                Some(last) if answer.more => {
                    area.from = [last.key.as_slice(), &[0]].concat();
                }
                Some(_) | None => break,
            }
        }
        keys.sort();
        Ok(keys)
    }
}

/// The epoch that an election's record begins with.
fn first_epoch(record: &Record) -> Epoch {
    match record {
        Record::Election(document) => document.epoch,
        other => unreachable!("the key of an election has an election's record, not {other:?}"),
    }
}

/// A reading of nothing. Whatever was deleted there, no epoch was above the revision of etcd.
fn absent(revision: u64, asked_at: Moment) -> Reading {
    let trace = Some(Trace { epoch: Epoch(revision), lease: Span::ZERO });
    Reading { found: None, age: None, trace, asked_at, received_at: boot::now() }
}

/// What the reading parts of a transaction found.
pub(crate) fn ranges(answer: &TxnResponse) -> impl Iterator<Item = &RangeResponse> {
    answer.responses.iter().filter_map(|part| match &part.response {
        Some(Response::ResponseRange(range)) => Some(range),
        Some(Response::ResponsePut(_) | Response::ResponseDeleteRange(_)) | None => None,
    })
}

impl Store for EtcdStore {
    fn location(&self) -> String {
        self.client.location.clone()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(self.read_now(key))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        _clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move { self.swap_now(key, &expect, next).await })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(self.list_now(prefix))
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        let area = Area::only(&self.keys.text(key));
        let pushed = matches!(key, Key::Election(_)).then(|| Arc::clone(&self.pushed));
        Box::pin(watch::watch(Arc::clone(&self.client), area, pushed))
    }

    fn last_pushed(&self, key: &Key) -> Option<Reading> {
        let text = self.keys.text(key);
        let news = self.pushed.lock().unwrap_or_else(PoisonError::into_inner).remove(text.as_bytes())?;
        let found = Some(self.keys.record(key, &news.found).ok()?);
        Some(Reading { found, age: None, trace: None, asked_at: news.after, received_at: news.received_at })
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "how long this observer has itself seen the record unchanged",
            stamped: false,
            watch: Watching::Pushed,
            durability: Durability::Synced,
            deletion: Deletion::Survives,
            history: HistoryKept::Beside,
            partition: "a client that reaches no majority of etcd's members can neither take nor renew a lease",
            // A transaction.
            cost: Cost { per_renewal: 1, looks_per_hour: 0 },
        }
    }
}
