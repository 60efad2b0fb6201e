//! What the documents look like to others.

use baton_election::{AgentName, ElectionName, Span};
use baton_store::conformance::documents::{document, key, led, put, released, renewed, take};
use baton_store::{AgeStamp, Expect, Key, Persistence, Prefix, Record, Store};
use serde_json::{Value, json};

use crate::support::{TestProject, read};

#[tokio::test]
async fn leader_and_token_are_fields_of_the_election() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let (first, _) = take(&store, &key("fleet/eu"), "agent-a").await;
    let seen = place.rest.document("leadership/fleet~eu").await;
    let fields = &seen["fields"];
    assert_eq!(fields["leaderId"], json!({ "stringValue": "agent-a" }), "{seen}");
    assert_eq!(fields["fencingToken"], json!({ "integerValue": "1" }));
    assert_eq!(fields["leaseMs"], json!({ "integerValue": "30000" }));
    assert_eq!(fields["state"], json!({ "stringValue": "held" }));
    assert!(fields["leaseExpiration"]["timestampValue"].is_string(), "{seen}");
    assert!(fields["lastHeartbeat"]["timestampValue"].is_string(), "{seen}");
    let record: Value = serde_json::from_str(fields["record"]["stringValue"].as_str().unwrap()).unwrap();
    assert_eq!(record["coordinator"], "agent-a");
    let (_, version) = document(&store, &key("fleet/eu")).await;
    put(&store, &key("fleet/eu"), Expect::Version(version), &released(&first, Some("done"))).await.unwrap();
    let fields = &place.rest.document("leadership/fleet~eu").await["fields"];
    assert_eq!(fields["leaderId"], json!({ "nullValue": null }), "{fields}");
    assert_eq!(fields["leaseExpiration"], json!({ "nullValue": null }));
    assert_eq!(fields["fencingToken"], json!({ "integerValue": "1" }), "a release keeps the epoch");
}

#[tokio::test]
async fn the_collection_shows_elections_and_nothing_else() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let election = ElectionName::new("e").unwrap();
    let _ = take(&store, &key("e"), "a").await;
    let log = Record::History(baton_election::log::Log::default());
    let history = Key::History(election.clone());
    store.swap(&history, Expect::Absent, &log, AgeStamp::Preserve, Persistence::Durable).await.unwrap();
    assert!(
        read(&store, &history).await.age.is_some(),
        "a new record is stamped, whatever the clock is told"
    );
    assert_eq!(place.rest.ids("leadership").await, ["e"]);
    assert_eq!(place.rest.ids("leadership-records").await, ["e~history"]);
    assert_eq!(place.rest.ids("leadership-marks").await, ["e"]);
    assert_eq!(store.list(&Prefix::Elections).await.unwrap(), [key("e")]);
    assert_eq!(store.list(&Prefix::Candidates(election)).await.unwrap(), []);
    let agent = Key::Candidate(ElectionName::new("e").unwrap(), AgentName::new("history").unwrap());
    assert!(read(&store, &agent).await.found.is_none());
}

#[tokio::test]
async fn only_a_restart_of_the_clock_moves_the_heartbeat() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let (first, version) = take(&store, &key("e"), "a").await;
    let heartbeat = || async { place.rest.document("leadership/e").await["fields"]["lastHeartbeat"].clone() };
    let before = heartbeat().await;
    // The emulator stamps in steps of a millisecond.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let same = Record::Election(Box::new(first.clone()));
    let kept = store
        .swap(&key("e"), Expect::Version(version), &same, AgeStamp::Preserve, Persistence::Durable)
        .await
        .unwrap();
    assert_eq!(heartbeat().await, before);
    put(&store, &key("e"), Expect::Version(kept.version), &renewed(&first)).await.unwrap();
    assert_ne!(heartbeat().await, before);
}

#[tokio::test]
async fn fields_that_somebody_added_stay() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let (first, _) = take(&store, &key("e"), "a").await;
    place.rest.set("leadership/e", &json!({ "note": { "stringValue": "ours" } })).await;
    let (found, version) = document(&store, &key("e")).await;
    assert_eq!(found, first);
    put(&store, &key("e"), Expect::Version(version), &renewed(&first)).await.unwrap();
    let seen = place.rest.document("leadership/e").await;
    assert_eq!(seen["fields"]["note"]["stringValue"], "ours");
}

#[tokio::test]
async fn a_renewal_leaves_the_mark_alone_and_a_release_does_not() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    let (first, version) = take(&store, &key("e"), "a").await;
    let mark = || place.rest.document("leadership-marks/e");
    let granted = mark().await;
    assert_eq!(granted["fields"]["fencingToken"], json!({ "integerValue": "1" }), "{granted}");
    assert_eq!(granted["fields"]["leaseMs"], json!({ "integerValue": "30000" }));
    let second = renewed(&first);
    let version = put(&store, &key("e"), Expect::Version(version), &second).await.unwrap();
    assert_eq!(mark().await, granted, "a renewal is one write");
    put(&store, &key("e"), Expect::Version(version), &released(&second, None)).await.unwrap();
    assert_eq!(mark().await["fields"]["leaseMs"], json!({ "integerValue": "0" }));
    place.rest.delete("leadership/e").await;
    assert_eq!(
        read(&store, &key("e")).await.trace.unwrap().lease,
        Span::ZERO,
        "there is no lease to wait for"
    );
}

#[tokio::test]
async fn names_that_firestore_keeps_for_itself_are_names_here() {
    let Some(place) = TestProject::new() else { return };
    let store = place.store().await;
    for name in ["__all__", "__a/b__", "a/__b__"] {
        let next = led(name, None, "a");
        put(&store, &key(name), Expect::Absent, &next).await.unwrap();
        assert_eq!(document(&store, &key(name)).await.0, next);
    }
    assert_eq!(store.list(&Prefix::Elections).await.unwrap().len(), 3);
}
