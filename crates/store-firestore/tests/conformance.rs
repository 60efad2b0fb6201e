//! The suite, against the emulator.

#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::sync::Arc;

use crate::support::TestProject;
use baton_pubsub::Notified;
use baton_pubsub::google::Route;
use baton_store::conformance::{Required, required};
use baton_store::{BoxFuture, Key, Store, conformance};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_suite() {
    let Some(place) = TestProject::new() else { return };
    let open = || {
        let store = place.store();
        Box::pin(async move { Arc::new(store.await) as Arc<dyn Store> }) as BoxFuture<'_, _>
    };
    assert_eq!(conformance::run(&open).await, 14);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_suite_with_push() {
    let Some(place) = TestProject::new() else { return };
    let Required::At(pubsub) = required("BATON_TEST_PUBSUB") else { return };
    let (place, route) = (&place, &Route::Emulator(pubsub));
    let notified = || async move {
        let store = Arc::new(place.store().await);
        Arc::new(Notified::open(store, &place.project, "changes", route).await.unwrap()) as Arc<dyn Store>
    };
    notified().await.prepare().await.unwrap();
    let open = || Box::pin(notified()) as BoxFuture<'_, _>;
    assert_eq!(conformance::run(&open).await, 14);
}

#[tokio::test]
async fn epochs_survive_a_deletion() {
    let Some(place) = TestProject::new() else { return };
    let open = || {
        let store = place.store();
        Box::pin(async move { Arc::new(store.await) as Arc<dyn Store> }) as BoxFuture<'_, _>
    };
    let rest = &place.rest;
    let delete = |key: Key| {
        Box::pin(async move { rest.delete(&format!("leadership/{key}")).await }) as BoxFuture<'_, ()>
    };
    conformance::survived(&open, &delete).await;
    conformance::begun_once(&open, &delete).await;
    assert_eq!(place.rest.ids("leadership").await, [""; 0], "it was deleted");
}
