//! Being told of changes, over broken connections too.

use std::time::Duration;

use baton_store::conformance::documents::{key, take};
use baton_store::{BoxStream, Change, Store, StoreError};
use futures_util::StreamExt;

use crate::support::TestProject;
use crate::support::proxy::Proxy;

async fn next(changes: &mut BoxStream<Change>) -> Change {
    tokio::time::timeout(Duration::from_secs(30), changes.next()).await.expect("a watcher hears").unwrap()
}

#[tokio::test]
async fn a_watcher_hears_of_changes_beginnings_and_deletions() {
    let Some(place) = TestProject::new() else { return };
    let (store, watcher) = (place.store().await, place.store().await);
    let mut changes = watcher.watch(&key("e")).await.unwrap();
    let _ = take(&store, &key("e"), "a").await;
    assert_eq!(next(&mut changes).await, Change::Changed);
    let _ = take(&store, &key("e"), "b").await;
    assert_eq!(next(&mut changes).await, Change::Changed);
    place.rest.delete("leadership/e").await;
    assert_eq!(next(&mut changes).await, Change::Changed);
    let _ = take(&store, &key("other"), "a").await;
    let silence = tokio::time::timeout(Duration::from_millis(300), changes.next()).await;
    assert!(silence.is_err(), "others' changes are not told: {silence:?}");
}

#[tokio::test]
async fn a_watch_goes_on_after_the_server_was_gone() {
    let Some(place) = TestProject::new() else { return };
    let mut proxy = Proxy::to(&place.host).await;
    let (store, watcher) = (place.store().await, place.store_at(&proxy.address).await);
    let _ = take(&store, &key("e"), "a").await;
    let mut changes = watcher.watch(&key("e")).await.unwrap();
    for agent in ["b", "c"] {
        proxy.down().await;
        let _ = take(&store, &key("e"), agent).await;
        let quiet = tokio::time::timeout(Duration::from_millis(400), changes.next()).await;
        assert!(quiet.is_err(), "nothing can be told: {quiet:?}");
        proxy.up().await;
        assert_eq!(next(&mut changes).await, Change::Gap);
        let _ = take(&store, &key("e"), "d").await;
        assert_eq!(next(&mut changes).await, Change::Changed);
    }
}

#[tokio::test]
async fn a_watch_that_cannot_begin_says_so() {
    let Some(place) = TestProject::new() else { return };
    let mut proxy = Proxy::to(&place.host).await;
    let store = place.store_at(&proxy.address).await.limited_to(Duration::from_millis(500));
    proxy.swallow_answers(true);
    let error = store.watch(&key("e")).await.err().unwrap();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    proxy.down().await;
    let error = store.watch(&key("e")).await.err().unwrap();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}
