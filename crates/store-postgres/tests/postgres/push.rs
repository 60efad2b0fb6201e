//! Being told, and what happens when one cannot be.

use std::time::Duration;

use baton_store::conformance::documents::{key, put, renewed, take};
use baton_store::{AgeStamp, BoxStream, Change, Expect, Key, Persistence, Record, Watching};
use futures_util::StreamExt;

use crate::support::proxy::Proxy;
use crate::support::{TestSchema, store};

/// Well below the pause of the safety net: what arrives by then was pushed.
const SOON: Duration = Duration::from_secs(10);

async fn next(changes: &mut BoxStream<Change>) -> Option<Change> {
    tokio::time::timeout(SOON, changes.next()).await.expect("nothing was told")
}

#[tokio::test]
async fn a_change_is_pushed_whoever_makes_it() {
    let Some(place) = TestSchema::new().await else { return };
    let (watcher, writer) = (place.store(""), place.store(""));
    let (document, version) = take(&*writer, &key("e"), "a").await;
    let mut changes = watcher.watch(&key("e")).await.unwrap();
    assert_eq!(watcher.properties().watch, Watching::Pushed);
    let _ = take(&*writer, &key("other"), "a").await;
    let _ = put(&*writer, &key("e"), Expect::Version(version), &renewed(&document)).await.unwrap();
    assert_eq!(next(&mut changes).await, Some(Change::Changed));
    for (statement, told) in [
        ("UPDATE baton SET leader = 'x' WHERE key = 'e'", Change::Changed),
        ("UPDATE baton SET key = 'f' WHERE key = 'e'", Change::Changed),
        ("UPDATE baton SET key = 'e' WHERE key = 'f'", Change::Changed),
        ("DELETE FROM baton WHERE key = 'e'", Change::Changed),
        ("TRUNCATE baton", Change::Gap),
    ] {
        let _ = place.by_hand(statement).await;
        assert_eq!(next(&mut changes).await, Some(told), "{statement}");
    }
    let quiet = tokio::time::timeout(Duration::from_millis(200), changes.next()).await;
    assert!(quiet.is_err(), "there is nothing more to tell: {quiet:?}");
}

#[tokio::test]
async fn a_watcher_is_told_of_a_gap_when_its_session_was_ended() {
    let Some(place) = TestSchema::new().await else { return };
    let name = format!("w{}", place.schema);
    let watcher = place.store(&format!("&application_name={name}"));
    let mut changes = watcher.watch(&key("e")).await.unwrap();
    let end =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'");
    assert!(!place.by_hand(&end).await.is_empty());
    assert_eq!(next(&mut changes).await, Some(Change::Gap));
    let _ = take(&*place.store(""), &key("e"), "a").await;
    assert_eq!(next(&mut changes).await, Some(Change::Changed), "it is told again");
}

#[tokio::test]
async fn a_watcher_is_told_of_a_gap_when_the_way_was_cut() {
    let Some(place) = TestSchema::new().await else { return };
    let proxy = Proxy::before(&place.server).await;
    let watcher = store(&format!("{}?table={}.baton&sslmode=disable", proxy.server, place.schema)).unwrap();
    let mut changes = watcher.watch(&key("e")).await.unwrap();
    proxy.cut(true).await;
    let error = watcher.read(&key("e")).await.unwrap_err();
    assert_eq!(error.code(), "unavailable", "{error}");
    let _ = take(&*place.store(""), &key("e"), "a").await;
    proxy.cut(false).await;
    assert_eq!(next(&mut changes).await, Some(Change::Gap));
    assert!(watcher.read(&key("e")).await.unwrap().found.is_some());
}

#[tokio::test]
async fn a_watcher_that_does_not_listen_for_long_is_told_of_a_gap() {
    let Some(place) = TestSchema::new().await else { return };
    let (watcher, writer) = (place.store(""), place.store(""));
    let mut changes = watcher.watch(&key("e")).await.unwrap();
    let _ = place
        .by_hand("SELECT pg_notify(current_schema || '.baton', 'x ' || n) FROM generate_series(1, 600) AS n")
        .await;
    let _ = take(&*writer, &key("e"), "a").await;
    // Another watcher of the same store hears the last word, so the first was told of all of them.
    let mut other = watcher.watch(&key("o")).await.unwrap();
    let _ = take(&*writer, &key("o"), "a").await;
    assert_eq!(next(&mut other).await, Some(Change::Changed));
    assert_eq!(next(&mut changes).await, Some(Change::Gap));
}

#[tokio::test]
async fn behind_a_pooler_a_watcher_looks_for_itself_and_says_so() {
    let Some(place) = TestSchema::at("BATON_TEST_PGBOUNCER").await else { return };
    let (watcher, writer) = (place.store("&poll=100ms"), place.store(""));
    let mut changes = watcher.watch(&key("e")).await.unwrap();
    let properties = watcher.properties();
    assert_eq!((properties.watch, properties.cost.looks_per_hour), (Watching::Polled, 24_000));
    let (_, version) = take(&*writer, &key("e"), "a").await;
    assert_eq!(next(&mut changes).await, Some(Change::Changed));
    let pooled = crate::support::connect(&place.server).await;
    let left = format!("SELECT c FROM pg_listening_channels() AS c WHERE c LIKE '{}%'", place.schema);
    let left = crate::support::rows(&pooled, &left).await.unwrap();
    assert!(left.is_empty(), "the pooler's session is left as it was found: {left:?}");
    let (document, _) = baton_store::conformance::documents::document(&*writer, &key("e")).await;
    let record = Record::Election(Box::new(renewed(&document)));
    let swapped = writer
        .swap(&key("e"), Expect::Version(version), &record, AgeStamp::Reset, Persistence::Durable)
        .await;
    assert!(swapped.is_ok());
    assert_eq!(next(&mut changes).await, Some(Change::Changed));
    assert!(watcher.watch(&Key::Store).await.is_ok(), "another watch does not try again");
}
