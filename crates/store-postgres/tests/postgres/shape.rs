//! What the database's own tools show.

use baton_election::Span;
use baton_store::conformance::documents::{key, put, released, renewed, take};
use baton_store::{AgeStamp, Expect, Persistence};

use crate::support::TestSchema;

#[tokio::test]
async fn a_select_shows_leader_and_token() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("");
    let _ = take(&*store, &key("refactor-auth"), "agent-a").await;
    let (document, version) = take(&*store, &key("refactor-auth"), "agent-b").await;
    let shown =
        "SELECT concat_ws(' ', key, kind, leader, fencing_token, state, store, record->>'task') FROM baton";
    let row = "refactor-auth election agent-b 2 held 0707070707070707 refactor authentication";
    assert_eq!(place.by_hand(shown).await, [row]);
    let lease = "SELECT lease_expiration - beat FROM baton WHERE lease_expiration > clock_timestamp()";
    assert_eq!(place.by_hand(lease).await, ["00:00:30"]);
    let version = put(&*store, &key("refactor-auth"), Expect::Version(version), &released(&document, None))
        .await
        .unwrap();
    let row = "refactor-auth election 2 vacant 0707070707070707 refactor authentication";
    assert_eq!(place.by_hand(shown).await, [row]);
    assert_eq!(place.by_hand("SELECT version FROM baton").await, [version.as_str()]);
    assert_eq!(place.by_hand("SELECT lease_expiration FROM baton").await, ["NULL"]);
}

#[tokio::test]
async fn the_expiry_for_people_follows_the_beat() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("");
    let (document, version) = take(&*store, &key("e"), "a").await;
    let shown = "SELECT beat::text || lease_expiration FROM baton";
    let before = place.by_hand(shown).await;
    let record = baton_store::Record::Election(Box::new(renewed(&document)));
    let kept = store
        .swap(&key("e"), Expect::Version(version), &record, AgeStamp::Preserve, Persistence::Durable)
        .await
        .unwrap();
    assert_eq!(place.by_hand(shown).await, before, "a note does not lengthen a lease");
    let _ = store
        .swap(&key("e"), Expect::Version(kept.version), &record, AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    assert_ne!(place.by_hand(shown).await, before);
    let age = store.read(&key("e")).await.unwrap().age.unwrap();
    assert!(age < Span::secs(20), "{age}");
}
