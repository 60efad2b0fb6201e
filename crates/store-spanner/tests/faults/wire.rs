//! Requests and replies that are lost on the way.

use std::time::Duration;

use baton_store::{AgeStamp, Change, Expect, Key, Persistence, Record, Store, StoreError, Version};
use baton_store_spanner::SpannerStore;
use futures_util::StreamExt;

use crate::support::proxy::Proxy;
use crate::support::{Database, Server, election, led, renewed, swap_at_last};

/// A store behind a wire that can be cut, with an election that is held.
async fn behind_a_wire(server: &Server) -> (Proxy, Database, SpannerStore, Key, Record, Version) {
    let proxy = Proxy::to(&server.grpc).await;
    let direct = server.database().await;
    let mut database = direct.clone();
    database.server.grpc = proxy.address.clone();
    let store = database.store_with("&timeout=6s");
    let (name, key) = election("fleet/eu");
    let held = led(&name, "agent-a", 0);
    let version =
        store.swap(&key, Expect::Absent, &held, AgeStamp::Reset, Persistence::Durable).await.unwrap().version;
    (proxy, direct, store, key, held, version)
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_may_have_been_applied() {
    let Some(server) = Server::shared() else { return };
    let (proxy, direct, store, key, held, version) = behind_a_wire(&server).await;
    let next = renewed(&held);
    proxy.lose_reply(2);
    let swapped = store
        .swap(&key, Expect::Version(version.clone()), &next, AgeStamp::Reset, Persistence::Durable)
        .await;
    assert!(matches!(swapped, Err(StoreError::Unknown { .. })), "{swapped:?}");
    let found = direct.store().read(&key).await.unwrap();
    assert_eq!(found.record(), Some(&next), "it was applied");
    proxy.up();
    let reading = store.read(&key).await.unwrap();
    assert_eq!(reading.record(), Some(&next), "and reading again tells, without opening again");
    let again =
        store.swap(&key, Expect::Version(version), &next, AgeStamp::Reset, Persistence::Durable).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    assert!(
        store
            .swap(&key, reading.expect(), &renewed(&next), AgeStamp::Reset, Persistence::Durable)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_commit_that_is_lost_itself_is_not_known_to_be() {
    let Some(server) = Server::shared() else { return };
    let (proxy, direct, store, key, held, version) = behind_a_wire(&server).await;
    let next = renewed(&held);
    proxy.lose_request(2);
    let swapped = store
        .swap(&key, Expect::Version(version.clone()), &next, AgeStamp::Reset, Persistence::Durable)
        .await;
    assert!(matches!(swapped, Err(StoreError::Unknown { .. })), "{swapped:?}");
    assert_eq!(direct.store().read(&key).await.unwrap().record(), Some(&held), "it was not applied");
    proxy.up();
    let _ = swap_at_last(&store, &key, Expect::Version(version), &next).await;
    assert_eq!(store.read(&key).await.unwrap().record(), Some(&next));
}

#[tokio::test]
async fn before_the_commit_nothing_was_applied() {
    let Some(server) = Server::shared() else { return };
    let (proxy, direct, store, key, held, version) = behind_a_wire(&server).await;
    let next = renewed(&held);
    for lose in [Proxy::lose_reply, Proxy::lose_request] {
        lose(&proxy, 1);
        let swapped = store
            .swap(&key, Expect::Version(version.clone()), &next, AgeStamp::Reset, Persistence::Durable)
            .await;
        assert!(matches!(swapped, Err(StoreError::Unavailable { .. })), "{swapped:?}");
        assert_eq!(direct.store().read(&key).await.unwrap().record(), Some(&held));
        proxy.up();
    }
    let _ = swap_at_last(&store, &key, Expect::Version(version), &next).await;
}

#[tokio::test]
async fn a_connection_that_was_cut_is_made_anew() {
    let Some(server) = Server::shared() else { return };
    let (proxy, direct, store, key, held, _) = behind_a_wire(&server).await;
    let mut changes = store.watch(&key).await.unwrap();
    proxy.down();
    let read = store.read(&key).await;
    assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    // The watcher looks in vain while the wire is down, and a change passes it by.
    let missed = tokio::time::timeout(Duration::from_millis(500), changes.next()).await;
    assert!(missed.is_err(), "{missed:?}");
    let other = direct.store();
    let reading = other.read(&key).await.unwrap();
    let next = renewed(&held);
    assert!(other.swap(&key, reading.expect(), &next, AgeStamp::Reset, Persistence::Durable).await.is_ok());
    proxy.up();
    let change = tokio::time::timeout(Duration::from_secs(60), changes.next()).await.unwrap();
    assert_eq!(change, Some(Change::Gap));
    assert_eq!(store.read(&key).await.unwrap().record(), Some(&next));
    let reading = other.read(&key).await.unwrap();
    assert!(
        other
            .swap(&key, reading.expect(), &renewed(&next), AgeStamp::Reset, Persistence::Durable)
            .await
            .is_ok()
    );
    let change = tokio::time::timeout(Duration::from_secs(60), changes.next()).await.unwrap();
    assert_eq!(change, Some(Change::Changed));
}

#[tokio::test]
async fn one_store_serves_many_at_once_and_survives_who_gives_up() {
    let Some(server) = Server::shared() else { return };
    let database = server.database().await;
    let store = database.store();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12_u32 {
        let store = store.clone();
        tasks.spawn(async move {
            let (name, key) = election(&format!("e{number}"));
            let held = led(&name, "agent-a", 0);
            let swapped = store.swap(&key, Expect::Absent, &held, AgeStamp::Reset, Persistence::Durable);
            if number % 3 == 0 {
                // Somebody who does not wait for the end of it.
                let _ = tokio::time::timeout(Duration::from_millis(u64::from(number)), swapped).await;
                return true;
            }
            let swapped = swapped.await;
            assert!(swapped.is_ok(), "{number}: {swapped:?}");
            store.read(&key).await.unwrap().record() == Some(&held)
        });
    }
    assert!(tasks.join_all().await.into_iter().all(|found| found));
}
