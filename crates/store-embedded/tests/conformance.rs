//! The suite. Clients of one process share the store: nobody else can open it.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::sync::Arc;

use baton_store::{Store, conformance};

use crate::support::TestStore;

#[tokio::test]
async fn the_whole_suite() {
    let place = TestStore::new();
    let store = place.store();
    let open = || {
        let store = store.clone();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> }) as baton_store::BoxFuture<'_, _>
    };
    assert!(conformance::run(&open).await >= 14);
}
