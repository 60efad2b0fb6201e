//! Topics that are missing, subscriptions that vanish, and a Pub/Sub that cannot be reached.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_pubsub::Notified;
use baton_pubsub::google::Route;
use baton_store::{Change, Store, StoreError};
use futures_util::StreamExt;
use serde_json::Value;

use crate::pubsub::push::next;
use crate::support::proxy::Proxy;
use crate::support::{Silent, TestProject, change, http, key};

#[tokio::test]
async fn a_missing_topic_is_refused_until_it_is_prepared() {
    let Some(place) = TestProject::new() else { return };
    let client = place.client().await;
    for _ in 0..2 {
        let error = change(&client, &key("e")).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
        assert!(error.hint().contains("gcloud pubsub topics create"), "{}", error.hint());
        assert!(client.read(&key("e")).await.unwrap().found.is_none(), "nothing was applied");
        let error = client.watch(&key("e")).await.err().unwrap();
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    }
    assert!(client.layout().unwrap().contains("gcloud pubsub topics create changes"));
    client.prepare().await.unwrap();
    client.prepare().await.unwrap();
    let mut changes = client.watch(&key("e")).await.unwrap();
    change(&client, &key("e")).await.unwrap();
    assert_eq!(next(&mut changes).await, Change::Changed);
}

#[tokio::test]
async fn odd_names_of_topics_are_refused() {
    for odd in ["", "ab", "1abc", "a b c", "projects/p/topics/t", "google-topic"] {
        let route = Route::Emulator("127.0.0.1:1".to_string());
        let error = Notified::open(Arc::new(Silent::default()), "p", odd, &route).await.err().unwrap();
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_pub_sub_that_cannot_be_reached_fails_no_swap_and_no_watch() {
    let Some(place) = TestProject::prepared().await else { return };
    let mut proxy = Proxy::to(&place.host).await;
    proxy.down().await;
    let (client, follower) = (place.client_at(&proxy.address).await, place.client_at(&proxy.address).await);
    let mut changes = follower.watch(&key("e")).await.unwrap();
    for _ in 0..3 {
        change(&client, &key("e")).await.unwrap();
    }
    proxy.up().await;
    assert_eq!(next(&mut changes).await, Change::Gap, "it may have missed something");
    change(&client, &key("e")).await.unwrap();
    assert_eq!(next(&mut changes).await, Change::Changed);
}

#[tokio::test]
async fn a_pub_sub_that_does_not_answer_delays_a_swap_only_a_little_and_only_once() {
    let Some(place) = TestProject::prepared().await else { return };
    let proxy = Proxy::to(&place.host).await;
    let client = place.client_at(&proxy.address).await;
    change(&client, &key("e")).await.unwrap();
    proxy.swallow_answers(true);
    let all = async {
        for _ in 0..20 {
            change(&client, &key("e")).await.unwrap();
        }
    };
    // Each waiting for its message would take longer than this.
    tokio::time::timeout(Duration::from_secs(12), all).await.expect("swaps do not wait for it");
}

#[tokio::test]
async fn nobody_waits_for_a_pub_sub_that_says_nothing() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let route = Route::Emulator(silent.local_addr().unwrap().to_string());
    let client = Notified::open(Arc::new(Silent::default()), "p", "changes", &route).await.unwrap();
    let begun = Instant::now();
    let _changes = client.watch(&key("e")).await.unwrap();
    change(&client, &key("e")).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    let prepared = tokio::time::timeout(Duration::from_secs(30), client.prepare()).await.unwrap();
    assert!(matches!(prepared, Err(StoreError::Unavailable { .. })), "{prepared:?}");
}

#[tokio::test]
async fn a_watch_goes_on_after_a_break() {
    let Some(place) = TestProject::prepared().await else { return };
    let mut proxy = Proxy::to(&place.host).await;
    let (writer, follower) = (place.client().await, place.client_at(&proxy.address).await);
    let mut changes = follower.watch(&key("e")).await.unwrap();
    change(&writer, &key("e")).await.unwrap();
    assert_eq!(next(&mut changes).await, Change::Changed);
    proxy.down().await;
    change(&writer, &key("e")).await.unwrap();
    let silence = tokio::time::timeout(Duration::from_millis(300), changes.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    proxy.up().await;
    assert_eq!(next(&mut changes).await, Change::Gap);
    change(&writer, &key("e")).await.unwrap();
    assert_eq!(next(&mut changes).await, Change::Changed);
}

#[tokio::test]
async fn a_subscription_that_somebody_deleted_is_made_again_with_the_next_stream() {
    let Some(place) = TestProject::prepared().await else { return };
    let mut proxy = Proxy::to(&place.host).await;
    let client = place.client_at(&proxy.address).await;
    let mut changes = client.watch(&key("e")).await.unwrap();
    let name = place.subscriptions().await[0]["name"].as_str().unwrap().to_string();
    let (status, body) = http::ask(&place.host, "DELETE", &format!("/v1/{name}"), &Value::Null).await;
    assert_eq!(status, 200, "{body}");
    // The service ends the stream then; the emulator does not.
    proxy.down().await;
    proxy.up().await;
    assert_eq!(next(&mut changes).await, Change::Gap);
    change(&client, &key("e")).await.unwrap();
    assert_eq!(next(&mut changes).await, Change::Changed);
}
