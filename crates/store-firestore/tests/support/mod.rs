//! A place of its own in the emulator.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

#[path = "../../../pubsub/tests/support/http.rs"]
pub(crate) mod http;
#[path = "../../../pubsub/tests/support/proxy.rs"]
pub(crate) mod proxy;
pub(crate) mod rest;

use baton_store::conformance::{Required, required};
use baton_store::{Key, Reading, Store, StoreError};
use baton_store_firestore::FirestoreStore;
use rest::Rest;

/// A project of its own in the emulator: nobody else's documents are in it.
pub(crate) struct TestProject {
    pub(crate) host: String,
    pub(crate) project: String,
    pub(crate) rest: Rest,
}

impl TestProject {
    /// A fresh one; none if there is no emulator.
    pub(crate) fn new() -> Option<TestProject> {
        let Required::At(host) = required("BATON_TEST_FIRESTORE") else { return None };
        let project = format!("t{:016x}", getrandom::u64().unwrap());
        let rest = Rest { host: host.clone(), project: project.clone() };
        Some(TestProject { host, project, rest })
    }

    pub(crate) async fn store(&self) -> FirestoreStore {
        self.store_at(&self.host).await
    }

    /// The same store, reached by another way.
    pub(crate) async fn store_at(&self, host: &str) -> FirestoreStore {
        open(&format!("firestore://{}?emulator={host}", self.project)).await.unwrap()
    }
}

pub(crate) async fn open(url: &str) -> Result<FirestoreStore, StoreError> {
    FirestoreStore::open(&url.parse().unwrap()).await
}

pub(crate) async fn read(store: &FirestoreStore, key: &Key) -> Reading {
    store.read(key).await.unwrap()
}
