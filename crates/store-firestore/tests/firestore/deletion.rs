//! Documents that somebody deletes, puts back, or deletes along with their marks.

use baton_election::{Epoch, Span};
use baton_store::conformance::documents::{document, key, led_above, put, renewed, take};
use baton_store::{Expect, Store, StoreError};
use serde_json::json;

use crate::support::{TestProject, read};

#[tokio::test]
async fn a_document_deleted_while_held_is_waited_for_and_its_token_is_not_given_again() {
    let Some(place) = TestProject::new() else { return };
    let (store, other) = (place.store().await, place.store().await);
    let (held, version) = take(&store, &key("e"), "a").await;
    place.rest.delete("leadership/e").await;
    let gone = read(&other, &key("e")).await;
    let trace = gone.trace.unwrap();
    assert_eq!(
        (trace.epoch, trace.lease),
        (Epoch(1), Span::secs(30)),
        "the whole lease from the first look on"
    );
    let conflict = put(&store, &key("e"), Expect::Version(version), &renewed(&held)).await.unwrap_err();
    assert!(matches!(conflict, StoreError::Conflict), "its holder cannot renew: {conflict:?}");
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    for client in [&store, &other, &place.store().await] {
        let later = read(client, &key("e")).await.trace.unwrap();
        assert!(later.lease < Span::millis(29_960), "the lease runs out for all of them: {}", later.lease);
        assert_eq!(later.epoch, Epoch(1));
    }
    let (next, _) = take(&other, &key("e"), "b").await;
    assert_eq!(next.epoch, Epoch(2));
    let mark = place.rest.document("leadership-marks/e").await;
    assert!(mark["fields"]["goneSince"].is_null(), "it is back: {mark}");
}

#[tokio::test]
async fn who_decided_on_an_old_trace_does_not_give_a_token_again() {
    let Some(place) = TestProject::new() else { return };
    let (late, store) = (place.store().await, place.store().await);
    let trace = read(&late, &key("e")).await.trace.unwrap();
    let decided = led_above("e", None, "late", trace.epoch, None);
    let _ = take(&store, &key("e"), "a").await;
    place.rest.delete("leadership/e").await;
    let conflict = put(&late, &key("e"), Expect::Absent, &decided).await.unwrap_err();
    assert!(matches!(conflict, StoreError::Conflict), "{conflict:?}");
    assert!(place.rest.document("leadership/e").await.is_null());
    // A client that has read nothing reads first.
    let fresh = place.store().await;
    let conflict = put(&fresh, &key("e"), Expect::Absent, &decided).await.unwrap_err();
    assert!(matches!(conflict, StoreError::Conflict), "{conflict:?}");
    // Nor does a token that is high enough help whoever has not seen that there was a leader meanwhile.
    let high = led_above("e", None, "late", Epoch(7), None);
    let conflict = put(&late, &key("e"), Expect::Absent, &high).await.unwrap_err();
    assert!(matches!(conflict, StoreError::Conflict), "{conflict:?}");
    assert_eq!(read(&late, &key("e")).await.trace.unwrap().epoch, Epoch(1));
    put(&late, &key("e"), Expect::Absent, &high).await.unwrap();
}

#[tokio::test]
async fn an_old_copy_that_is_put_back_is_refused() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let _ = take(&store, &key("e"), "a").await;
    let old = place.rest.document("leadership/e").await["fields"].clone();
    let _ = take(&store, &key("e"), "b").await;
    place.rest.set("leadership/e", &old).await;
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("an old copy was put back"), "{error}");
    place.rest.delete("leadership/e").await;
    assert_eq!(take(&store, &key("e"), "c").await.0.epoch, Epoch(3), "as its hint says");
}

#[tokio::test]
async fn a_mark_that_is_deleted_is_written_again() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let (held, version) = take(&store, &key("e"), "a").await;
    place.rest.delete("leadership-marks/e").await;
    let next = renewed(&held);
    let _ = put(&store, &key("e"), Expect::Version(version), &next).await;
    let (found, version) = document(&store, &key("e")).await;
    put(&store, &key("e"), Expect::Version(version), &renewed(&found)).await.unwrap();
    let mark = place.rest.document("leadership-marks/e").await;
    assert_eq!(mark["fields"]["fencingToken"], json!({ "integerValue": "1" }), "{mark}");
}

#[tokio::test]
async fn a_mark_that_no_baton_wrote_is_left_alone() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    for (name, fields) in [
        ("a", json!({ "fencingToken": { "stringValue": "7" } })),
        ("b", json!({ "fencingToken": { "integerValue": "-1" }, "leaseMs": { "integerValue": "1" } })),
        (
            "c",
            json!({ "fencingToken": { "integerValue": "1" }, "leaseMs": { "integerValue": "1" },
                      "goneSince": { "integerValue": "1" } }),
        ),
    ] {
        place.rest.set(&format!("leadership-marks/{name}"), &fields).await;
        let error = store.read(&key(name)).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("leadership-marks/{name}")), "{error}");
        let next = led_above(name, None, "x", Epoch(9), None);
        assert!(put(&store, &key(name), Expect::Absent, &next).await.is_err());
        assert_eq!(place.rest.document(&format!("leadership-marks/{name}")).await["fields"], fields);
    }
}
