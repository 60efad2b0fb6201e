//! A topic of its own in the emulator, stores whose own watches are silent, and records to write.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

pub(crate) mod http;
pub(crate) mod proxy;

use std::sync::Arc;

use baton_election::id::StoreId;
use baton_election::{Document, ElectionName, Epoch};
use baton_pubsub::Notified;
use baton_pubsub::google::Route;
use baton_store::conformance::{Required, Wrapped, required};
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Key, MemoryStore, Persistence, Record, Store, StoreError, Version,
};
use serde_json::Value;

/// A store that tells nobody of anything.
#[derive(Clone, Default)]
pub(crate) struct Silent {
    inner: MemoryStore,
}

impl Wrapped for Silent {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.inner.clone())
    }

    fn watches<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(async { Ok(Box::pin(futures_util::stream::pending()) as BoxStream<Change>) })
    }
}

/// A project of its own in the emulator, and a store.
pub(crate) struct TestProject {
    pub(crate) host: String,
    pub(crate) project: String,
    pub(crate) store: Silent,
}

impl TestProject {
    /// A fresh one; none if there is no emulator.
    pub(crate) fn new() -> Option<TestProject> {
        let Required::At(host) = required("BATON_TEST_PUBSUB") else { return None };
        let project = format!("t{:016x}", getrandom::u64().unwrap());
        Some(TestProject { host, project, store: Silent::default() })
    }

    /// The same with its topic.
    pub(crate) async fn prepared() -> Option<TestProject> {
        let place = TestProject::new()?;
        place.client().await.prepare().await.unwrap();
        Some(place)
    }

    /// Another client of the store.
    pub(crate) async fn client(&self) -> Notified {
        self.client_at(&self.host).await
    }

    /// The same, reached by another way.
    pub(crate) async fn client_at(&self, host: &str) -> Notified {
        let route = Route::Emulator(host.to_string());
        Notified::open(Arc::new(self.store.clone()), &self.project, "changes", &route).await.unwrap()
    }

    /// What subscriptions there are.
    pub(crate) async fn subscriptions(&self) -> Vec<Value> {
        let path = format!("/v1/projects/{}/subscriptions", self.project);
        let (status, body) = http::ask(&self.host, "GET", &path, &Value::Null).await;
        assert_eq!(status, 200, "{body}");
        body["subscriptions"].as_array().cloned().unwrap_or_default()
    }
}

pub(crate) fn key(name: &str) -> Key {
    Key::Election(ElectionName::new(name).unwrap())
}

/// Writes something else than what is there.
pub(crate) async fn change(store: &dyn Store, key: &Key) -> Result<Version, StoreError> {
    let reading = store.read(key).await?;
    let epoch = match reading.record() {
        Some(Record::Election(document)) => Epoch(document.epoch.0 + 1),
        _ => Epoch(1),
    };
    let Key::Election(election) = key else { panic!("{key} is no election") };
    let next = Document::new(election.clone(), StoreId([7; 8]), epoch, &[]);
    let next = Record::Election(Box::new(next));
    store
        .swap(key, reading.expect(), &next, AgeStamp::Reset, Persistence::Durable)
        .await
        .map(|swapped| swapped.version)
}
