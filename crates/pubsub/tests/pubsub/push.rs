//! A watcher gets every change.

use std::time::{Duration, Instant};

use baton_store::{BoxStream, Change, Store, Watching};
use futures_util::StreamExt;

use crate::support::{TestProject, change, key};

pub(crate) async fn next(changes: &mut BoxStream<Change>) -> Change {
    tokio::time::timeout(Duration::from_secs(30), changes.next()).await.expect("a watcher hears").unwrap()
}

#[tokio::test]
async fn a_watcher_in_another_client_hears_within_one_delivery() {
    let Some(place) = TestProject::prepared().await else { return };
    let (writer, follower) = (place.client().await, place.client().await);
    let mut changes = follower.watch(&key("e")).await.unwrap();
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        change(&writer, &key("e")).await.unwrap();
        assert_eq!(next(&mut changes).await, Change::Changed);
        quickest = quickest.min(began.elapsed());
    }
    assert!(quickest < Duration::from_secs(1), "the quickest took {quickest:?}");
    assert_eq!(follower.properties().watch, Watching::Pushed);
}

#[tokio::test]
async fn a_watcher_hears_of_its_own_key_only() {
    let Some(place) = TestProject::prepared().await else { return };
    let client = place.client().await;
    let mut one = client.watch(&key("one")).await.unwrap();
    let mut two = client.watch(&key("two")).await.unwrap();
    change(&client, &key("one")).await.unwrap();
    assert_eq!(next(&mut one).await, Change::Changed);
    let silence = tokio::time::timeout(Duration::from_millis(300), two.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    change(&client, &key("two")).await.unwrap();
    assert_eq!(next(&mut two).await, Change::Changed);
}

#[tokio::test]
async fn a_swap_that_was_not_applied_is_not_told() {
    let Some(place) = TestProject::prepared().await else { return };
    let client = place.client().await;
    change(&client, &key("e")).await.unwrap();
    let mut changes = client.watch(&key("e")).await.unwrap();
    let record = client.read(&key("e")).await.unwrap().record().cloned().unwrap();
    let lost = client
        .swap(
            &key("e"),
            baton_store::Expect::Absent,
            &record,
            baton_store::AgeStamp::Reset,
            baton_store::Persistence::Durable,
        )
        .await;
    assert!(lost.is_err());
    let silence = tokio::time::timeout(Duration::from_millis(300), changes.next()).await;
    assert!(silence.is_err(), "{silence:?}");
}

#[tokio::test]
async fn one_subscription_serves_a_process_and_is_deleted_after_the_last_watch() {
    let Some(place) = TestProject::prepared().await else { return };
    let client = place.client().await;
    let watches = [client.watch(&key("a")).await.unwrap(), client.watch(&key("b")).await.unwrap()];
    let there = place.subscriptions().await;
    assert_eq!(there.len(), 1, "{there:?}");
    assert_eq!(there[0]["messageRetentionDuration"], "600s", "{there:?}");
    assert_eq!(there[0]["expirationPolicy"]["ttl"], "86400s");
    drop(watches);
    // Whoever watches again soon is served by the same one.
    let mut again = client.watch(&key("a")).await.unwrap();
    change(&client, &key("a")).await.unwrap();
    assert_eq!(next(&mut again).await, Change::Changed);
    assert_eq!(place.subscriptions().await.len(), 1);
    drop(again);
    let gone = async {
        while !place.subscriptions().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it is deleted");
    let mut later = client.watch(&key("a")).await.unwrap();
    change(&client, &key("a")).await.unwrap();
    assert_eq!(next(&mut later).await, Change::Changed, "a new one is made for a new watch");
}
