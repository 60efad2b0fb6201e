//! Bad input, foreign documents, and servers that fail.

use std::sync::Arc;
use std::time::Duration;

use baton_store::conformance::documents::{document, key, led, put, renewed, take};
use baton_store::{BoxFuture, Expect, Prefix, Store, StoreError, conformance};
use serde_json::json;

use crate::support::proxy::Proxy;
use crate::support::{TestProject, open, read};

#[tokio::test]
async fn documents_that_no_baton_wrote_are_refused_and_left_alone() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let text = |text: &str| json!({ "stringValue": text });
    let whole = led("whole", None, "a");
    let json_of = |document| baton_store::Record::Election(Box::new(document)).to_json();
    let cut = &json_of(whole.clone())[..200];
    let newer = json_of(whole.clone()).replacen("\"format\": 1", "\"format\": 99", 1);
    assert!(newer.contains("99"));
    let cases = [
        (
            "foreign",
            json!({ "leaderId": text("x"), "fencingToken": { "integerValue": "3" } }),
            "no Baton wrote it",
        ),
        ("cut", json!({ "record": text(cut) }), "not a record of Baton"),
        ("newer", json!({ "record": text(&newer) }), "newer Baton"),
        ("moved", json!({ "record": text(&json_of(whole.clone())) }), "a record of something else"),
        ("whole", json!({ "record": text(&json_of(whole)) }), "contradicts its record"),
        ("number", json!({ "record": { "integerValue": "1" } }), "no Baton wrote it"),
    ];
    for (name, fields, why) in cases {
        let path = format!("leadership/{name}");
        place.rest.set(&path, &fields).await;
        let before = place.rest.document(&path).await;
        let error = store.read(&key(name)).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Newer { .. }), why == "newer Baton", "{error:?}");
        assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. }), "{error:?}");
        assert!(error.to_string().contains(why) && error.to_string().contains(&path), "{error}");
        assert!(!error.hint().is_empty());
        let next = led(name, None, "b");
        assert!(put(&store, &key(name), Expect::Absent, &next).await.is_err());
        assert_eq!(place.rest.document(&path).await, before, "nothing was overwritten");
    }
    assert_eq!(
        store.list(&Prefix::Elections).await.unwrap().len(),
        6,
        "a list does not fail for one of them"
    );
}

#[tokio::test]
async fn fields_changed_by_hand_contradict_the_record() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    for (name, fields) in [
        ("a", json!({ "leaderId": { "stringValue": "me" } })),
        ("b", json!({ "fencingToken": { "integerValue": "9" } })),
        ("c", json!({ "state": { "stringValue": "vacant" } })),
        ("d", json!({ "leaseMs": { "integerValue": "1" } })),
        ("e", json!({ "lastHeartbeat": { "stringValue": "yesterday" } })),
    ] {
        let (held, version) = take(&store, &key(name), "a").await;
        place.rest.set(&format!("leadership/{name}"), &fields).await;
        let error = store.read(&key(name)).await.unwrap_err();
        let field = fields.as_object().unwrap().keys().next().unwrap().clone();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains(&field), "{error}");
        let error = put(&store, &key(name), Expect::Version(version), &renewed(&held)).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict), "{error:?}");
    }
    let (held, _) = take(&store, &key("f"), "a").await;
    place.rest.set("leadership/f", &json!({ "leaseExpiration": { "nullValue": null } })).await;
    assert_eq!(document(&store, &key("f")).await.0, held, "what is for people decides nothing");
}

#[tokio::test]
async fn a_store_that_cannot_be_is_refused_with_a_hint() {
    for (url, why) in [
        ("firestore://", "no name of a project"),
        ("firestore://p?collection=a/b", "no name of a collection"),
        ("firestore://p?remote=x", "no parameter `remote`"),
        ("firestore://p?emulator=a b", "invalid"),
    ] {
        let error = open(url).await.err().unwrap();
        assert_eq!(matches!(error, StoreError::Misnamed { .. }), !url.contains("emulator"), "{error:?}");
        assert_eq!(matches!(error, StoreError::Refused { .. }), url.contains("emulator"), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(!error.hint().is_empty());
    }
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_does_not_answer() {
    let at = |address: String| -> BoxFuture<'_, Arc<dyn Store>> {
        let url = format!("firestore://p?emulator={address}");
        Box::pin(async move { Arc::new(open(&url).await.unwrap()) as Arc<dyn Store> })
    };
    conformance::plain_words(&at).await;
    conformance::bounded(&at, Duration::from_secs(14)).await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable_and_comes_back() {
    let Some(place) = TestProject::new() else { return };
    let mut proxy = Proxy::to(&place.host).await;
    let store = place.store_at(&proxy.address).await;
    let (held, version) = take(&store, &key("e"), "a").await;
    let expect = Expect::Version(version);
    proxy.down().await;
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    let error = put(&store, &key("e"), expect.clone(), &renewed(&held)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "nothing was sent: {error:?}");
    assert!(store.list(&Prefix::Elections).await.is_err());
    proxy.up().await;
    assert_eq!(document(&store, &key("e")).await.0, held, "without opening it again");
    put(&store, &key("e"), expect, &renewed(&held)).await.unwrap();
}

#[tokio::test]
async fn a_swap_without_an_answer_may_have_been_applied() {
    let Some(place) = TestProject::new() else { return };
    let proxy = Proxy::to(&place.host).await;
    let store = place.store_at(&proxy.address).await.limited_to(Duration::from_secs(8));
    let (held, version) = take(&store, &key("e"), "a").await;
    proxy.swallow_answers(true);
    let next = renewed(&held);
    let error = put(&store, &key("e"), Expect::Version(version), &next).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert_eq!(document(&place.store().await, &key("e")).await.0, next, "as it was here");
}

#[tokio::test]
async fn a_server_killed_in_the_middle_of_swaps_loses_and_doubles_nothing() {
    let Some(place) = TestProject::new() else { return };
    let mut proxy = Proxy::to(&place.host).await;
    let store = place.store_at(&proxy.address).await;
    let (mut held, _) = take(&store, &key("e"), "a").await;
    let judge = place.store().await;
    // What was sent without an answer may be applied as long as what it expected is there.
    let mut on_the_way = Vec::new();
    for turn in 0..8_u64 {
        let (before, version) = document(&judge, &key("e")).await;
        assert!(before == held || on_the_way.contains(&before));
        let next = led("e", Some(&before), &format!("a{turn}"));
        let e = key("e");
        let swapping = put(&store, &e, Expect::Version(version), &next);
        let (outcome, ()) = tokio::join!(swapping, async {
            tokio::time::sleep(Duration::from_millis(turn)).await;
            proxy.down().await;
        });
        let (found, _) = document(&judge, &key("e")).await;
        match outcome {
            Ok(_) => assert_eq!(found, next),
            Err(StoreError::Unknown { .. }) => on_the_way.push(next),
            Err(StoreError::Unavailable { .. } | StoreError::Conflict) => {
                assert_ne!(found, next, "it said that nothing was applied");
            }
            Err(other) => panic!("{other:?}"),
        }
        assert!(found.epoch >= held.epoch);
        held = found;
        proxy.up().await;
    }
    assert!(read(&store, &key("e")).await.found.is_some());
}

#[tokio::test]
async fn a_document_that_another_s_transaction_holds_is_tried_again() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let (held, version) = take(&store, &key("e"), "a").await;
    let transaction = place.rest.hold("leadership/e").await;
    let next = led("e", Some(&held), "b");
    let e = key("e");
    let swapping = put(&store, &e, Expect::Version(version), &next);
    let (outcome, ()) = tokio::join!(swapping, async {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        place.rest.let_go(&transaction).await;
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(document(&store, &key("e")).await.0, next);
}
