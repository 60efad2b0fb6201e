//! The suite against the real server: by its clock, by the observers' clocks, and behind a pooler.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::sync::Arc;

use crate::support::TestSchema;
use baton_store::{Key, Store, Watching, conformance};

async fn run(place: &TestSchema, more: &str) {
    let checks = conformance::run(&|| {
        let store = place.store(more);
        Box::pin(async move { store as Arc<dyn Store> })
    })
    .await;
    assert_eq!(checks, 14);
}

async fn survives(place: &TestSchema, more: &str) {
    let delete = |key: Key| -> baton_store::BoxFuture<'_, ()> {
        Box::pin(async move {
            let _ = place.by_hand(&format!("DELETE FROM baton WHERE key = '{key}'")).await;
        })
    };
    let open = || {
        let store = place.store(more);
        Box::pin(async move { store as Arc<dyn Store> }) as baton_store::BoxFuture<'_, _>
    };
    conformance::survived(&open, &delete).await;
    conformance::begun_once(&open, &delete).await;
    assert_eq!(place.by_hand("SELECT count(*) FROM baton").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_the_server_s_clock() {
    let Some(place) = TestSchema::new().await else { return };
    run(&place, "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_the_observers_clocks() {
    let Some(place) = TestSchema::new().await else { return };
    assert!(!place.store("&clock=observed").properties().stamped);
    run(&place, "&clock=observed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_pgbouncer() {
    let Some(place) = TestSchema::at("BATON_TEST_PGBOUNCER").await else { return };
    run(&place, "&poll=50ms").await;
    let store = place.store("&poll=50ms");
    let _watch = store.watch(&Key::Store).await.unwrap();
    assert_eq!(store.properties().watch, Watching::Polled, "a pooler swallows notifications");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_transactions_are_serializable_by_default() {
    let Some(place) = TestSchema::new().await else { return };
    run(&place, "&options=-c%20default_transaction_isolation%3Dserializable").await;
}

#[tokio::test]
async fn epochs_survive_a_delete() {
    let Some(place) = TestSchema::new().await else { return };
    survives(&place, "").await;
}

#[tokio::test]
async fn epochs_survive_a_delete_by_the_observers_clocks() {
    let Some(place) = TestSchema::new().await else { return };
    survives(&place, "&clock=observed").await;
}

#[tokio::test]
async fn epochs_survive_a_delete_behind_pgbouncer() {
    let Some(place) = TestSchema::at("BATON_TEST_PGBOUNCER").await else { return };
    survives(&place, "").await;
}
