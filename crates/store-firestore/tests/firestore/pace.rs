//! Firestore bears about one write a second to a document.

use std::time::{Duration, Instant};

use baton_election::Span;
use baton_store::conformance::documents::{key, led_above, put, released, renewed, take};
use baton_store::{AgeStamp, Expect, Persistence, Record, Store};
use baton_store_firestore::FirestoreStore;

use crate::support::TestProject;

#[tokio::test]
async fn a_renewal_right_after_another_write_waits_and_nothing_else_does() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    // Three writes that are each a second apart would take three seconds from the renewal on, every time. A busy machine does so some times.
    let mut took = Vec::new();
    for name in ["e", "f", "g", "h"] {
        took.push(rest_after_a_renewal(&store, name).await);
        if took.iter().any(|took| *took < Duration::from_millis(2_900)) {
            return;
        }
    }
    panic!("writes that are no renewals wait: {took:?}");
}

/// How long the writes take that come right after a renewal, which itself has waited.
async fn rest_after_a_renewal(store: &FirestoreStore, name: &str) -> Duration {
    let (first, version) = take(store, &key(name), "a").await;
    let claimed = renewed(&first);
    // From before the write that the next one keeps its distance from.
    let began = Instant::now();
    let version = put(store, &key(name), Expect::Version(version), &claimed).await.unwrap();
    let second = renewed(&claimed);
    let version = put(store, &key(name), Expect::Version(version), &second).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(900), "it came too soon: {:?}", began.elapsed());
    let began = Instant::now();
    let note = Record::Election(Box::new(second.clone()));
    let kept = store
        .swap(&key(name), Expect::Version(version), &note, AgeStamp::Preserve, Persistence::Durable)
        .await
        .unwrap();
    let version =
        put(store, &key(name), Expect::Version(kept.version), &released(&second, None)).await.unwrap();
    let next = led_above(name, Some(&released(&second, None)), "b", second.epoch, None);
    put(store, &key(name), Expect::Version(version), &next).await.unwrap();
    began.elapsed()
}

#[tokio::test]
async fn a_short_lease_is_renewed_in_time() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let mut held = led_above("e", None, "a", baton_election::Epoch(0), Some(Span::secs(1)));
    let mut version = put(&store, &key("e"), Expect::Absent, &held).await.unwrap();
    for _ in 0..4 {
        held = renewed(&held);
        version = put(&store, &key("e"), Expect::Version(version), &held).await.unwrap();
    }
    let reading = store.read(&key("e")).await.unwrap();
    assert_eq!(reading.record(), Some(&Record::Election(Box::new(held))));
}
