//! Rows that somebody else changed.

use baton_election::{Epoch, Span};
use baton_store::conformance::documents::{key, led, put, renewed, take};
use baton_store::{Expect, Key, Prefix, StoreError};

use crate::support::TestSchema;

#[tokio::test]
async fn a_row_that_is_not_intact_is_corrupt_and_is_not_overwritten() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("");
    for (number, (change, words)) in [
        ("record = '{}'", "not a record of Baton"),
        ("record = '{\"format\": 1, \"epoch\": 7}'", "not a record of Baton"),
        ("record = (record::jsonb || '{\"format\": 99}')::json", "newer Baton"),
        ("record = (record::jsonb || '{\"election\": \"else\"}')::json", "something else"),
        ("leader = 'mallory'", "column leader says mallory, its record a"),
        ("fencing_token = 9", "column fencing_token says 9, its record 1"),
        ("fencing_token = NULL", "column fencing_token says nothing"),
        ("state = 'vacant'", "column state says vacant, its record held"),
        ("kind = 'fence'", "column kind"),
        ("lease_ms = 1", "column lease_ms"),
        ("store = 'x'", "column store"),
        ("election = 'x'", "column election"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("e{number}");
        let (document, version) = take(&*store, &key(&name), "a").await;
        let _ = place.by_hand(&format!("UPDATE baton SET {change} WHERE key = '{name}'")).await;
        let rows = format!("SELECT baton::text FROM baton WHERE key = '{name}'");
        let before = place.by_hand(&rows).await;
        let error = store.read(&key(&name)).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Newer { .. }), words == "newer Baton", "{change}: {error:?}");
        assert!(
            matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. }),
            "{change}: {error:?}"
        );
        let said = error.to_string();
        assert!(said.contains(words) && said.contains(&format!("row `{name}`")), "{change}: {said}");
        assert!(!error.hint().is_empty());
        for expect in [Expect::Version(version), Expect::Absent] {
            let swapped = put(&*store, &key(&name), expect, &renewed(&document)).await;
            assert!(matches!(swapped, Err(StoreError::Conflict)), "{change}: {swapped:?}");
        }
        assert_eq!(place.by_hand(&rows).await, before, "{change}: nothing was overwritten");
    }
}

#[tokio::test]
async fn a_foreign_row_is_neither_listed_nor_overwritten() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("");
    let _ = take(&*store, &key("ours"), "a").await;
    let _ = place
        .by_hand("INSERT INTO baton (key, kind, record) VALUES ('Not A Name', 'election', '{}'), ('theirs', 'election', '[]')")
        .await;
    let listed = store.list(&Prefix::Elections).await.unwrap();
    assert_eq!(listed, [key("ours"), key("theirs")]);
    assert_eq!(store.read(&key("theirs")).await.unwrap_err().code(), "corrupt");
    let error = put(&*store, &key("theirs"), Expect::Absent, &led("theirs", None, "a")).await;
    assert!(matches!(error, Err(StoreError::Conflict)), "{error:?}");
}

#[tokio::test]
async fn a_record_that_was_deleted_while_held_leaves_its_lease_behind() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, observer) = (place.store(""), place.store("&clock=observed"));
    for (number, deletion) in ["DELETE FROM baton WHERE key = 'e0'", "TRUNCATE baton"].into_iter().enumerate()
    {
        let name = key(&format!("e{number}"));
        let _ = take(&*store, &name, "a").await;
        let _ = take(&*store, &name, "b").await;
        let _ = place.by_hand("UPDATE baton SET beat = beat - interval '10 s'").await;
        let _ = place.by_hand(deletion).await;
        let trace = store.read(&name).await.unwrap().trace.unwrap();
        assert_eq!(trace.epoch, Epoch(2));
        assert!(trace.lease <= Span::secs(20) && trace.lease > Span::secs(5), "{}", trace.lease);
        let trace = observer.read(&name).await.unwrap().trace.unwrap();
        assert_eq!((trace.epoch, trace.lease), (Epoch(2), Span::secs(30)), "an observer counts for itself");
    }
    let never = store.read(&key("never")).await.unwrap().trace.unwrap();
    assert_eq!((never.epoch, never.lease), (Epoch(0), Span::ZERO));
    assert_eq!(store.read(&Key::Store).await.unwrap().trace, None, "only elections give epochs");
}

#[tokio::test]
async fn a_deletion_that_no_trigger_saw_leaves_the_whole_lease() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("");
    let _ = take(&*store, &key("e"), "a").await;
    let _ = place.by_hand("SET session_replication_role = replica; DELETE FROM baton").await;
    let trace = store.read(&key("e")).await.unwrap().trace.unwrap();
    assert_eq!((trace.epoch, trace.lease), (Epoch(1), Span::secs(30)));
}

#[tokio::test]
async fn a_clock_that_went_back_ages_nothing() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("");
    let _ = take(&*store, &key("e"), "a").await;
    let _ = place.by_hand("UPDATE baton SET beat = beat + interval '1 hour'").await;
    assert_eq!(store.read(&key("e")).await.unwrap().age, Some(Span::ZERO));
    let _ = place.by_hand("DELETE FROM baton").await;
    let trace = store.read(&key("e")).await.unwrap().trace.unwrap();
    assert_eq!(trace.lease, Span::secs(30));
}
