//! Rows that somebody else deleted, changed, put back or wrote.

use baton_election::{Epoch, Span};
use baton_store::{AgeStamp, Expect, Key, Persistence, Reading, Store, StoreError};
use baton_store_spanner::SpannerStore;

use crate::support::{ByHand, Server, election, led, renewed};

/// A store with an election that is held with the token 1.
async fn held(server: &Server) -> (SpannerStore, ByHand, Key, Reading) {
    let database = server.database().await;
    let (store, by_hand) = (database.store(), database.by_hand().await);
    let (name, key) = election("fleet/eu");
    let _ = store
        .swap(&key, Expect::Absent, &led(&name, "agent-a", 0), AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    let reading = store.read(&key).await.unwrap();
    (store, by_hand, key, reading)
}

fn corruption(read: Result<Reading, StoreError>) -> (String, String) {
    match read {
        Err(StoreError::Corrupt { place, why, hint }) => {
            assert!(place.contains("`fleet/eu` of `Leadership` in spanner://"), "{place}");
            (why, hint)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_row_deleted_while_it_is_held_keeps_its_token_and_its_lease() {
    let Some(server) = Server::shared() else { return };
    let (store, by_hand, key, before) = held(&server).await;
    by_hand.delete(&key).await;
    let next = renewed(before.record().unwrap());
    let renewal = store.swap(&key, before.expect(), &next, AgeStamp::Reset, Persistence::Durable).await;
    assert!(matches!(renewal, Err(StoreError::Conflict)), "{renewal:?}");
    let trace = store.read(&key).await.unwrap().trace.unwrap();
    assert_eq!(
        (trace.epoch, trace.lease),
        (Epoch(1), Span::secs(30)),
        "the lease may have been renewed just before"
    );
    // It runs out for everybody, whoever looks: it is counted from when the deletion was first noticed.
    let mut last = trace.lease;
    for _ in 0..100 {
        let trace = store.read(&key).await.unwrap().trace.unwrap();
        assert_eq!(trace.epoch, Epoch(1));
        assert!(trace.lease <= last);
        last = trace.lease;
        if last < Span::secs(30) {
            break;
        }
    }
    assert!(last < Span::secs(30) && last > Span::secs(20), "{last}");
}

#[tokio::test]
async fn a_token_is_not_given_twice_however_late_the_second_comes() {
    let Some(server) = Server::shared() else { return };
    let (store, by_hand, key, before) = held(&server).await;
    let (name, _) = election("fleet/eu");
    by_hand.delete(&key).await;
    // It looked while nothing was there, before the first: it believes that 1 is free.
    let late = store
        .swap(&key, Expect::Absent, before.record().unwrap(), AgeStamp::Reset, Persistence::Durable)
        .await;
    assert!(matches!(late, Err(StoreError::Conflict)), "{late:?}");
    assert!(store.read(&key).await.unwrap().found.is_none());
    let after = led(&name, "agent-b", 1);
    assert!(store.swap(&key, Expect::Absent, &after, AgeStamp::Reset, Persistence::Durable).await.is_ok());
    assert_eq!(store.read(&key).await.unwrap().record(), Some(&after));
}

#[tokio::test]
async fn an_old_row_that_was_put_back_is_not_believed() {
    let Some(server) = Server::shared() else { return };
    let (store, by_hand, key, before) = held(&server).await;
    let (name, _) = election("fleet/eu");
    assert_eq!(by_hand.change("UPDATE LeadershipMarks SET fencing_token = 5 WHERE TRUE").await, 1);
    let (why, hint) = corruption(store.read(&key).await);
    assert!(why.contains("its token is 1, but 5 was given before") && hint.contains("delete the row"));
    drop(before);
    by_hand.delete(&key).await;
    assert_eq!(store.read(&key).await.unwrap().trace.unwrap().epoch, Epoch(5));
    assert!(
        store
            .swap(&key, Expect::Absent, &led(&name, "agent-b", 5), AgeStamp::Reset, Persistence::Durable)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_row_that_somebody_changed_is_neither_believed_nor_overwritten() {
    let Some(server) = Server::shared() else { return };
    for change in [
        "leader_id = 'mallory'",
        "fencing_token = fencing_token + 1",
        "leader_id = NULL",
        "record = REPLACE(record, 'agent-a', 'mallory')",
        "record = REPLACE(record, '\"epoch\": 1', '\"epoch\": 9')",
        "record = '{}'",
        "record = ''",
        "version = 'mine'",
    ] {
        let (store, by_hand, key, before) = held(&server).await;
        assert_eq!(by_hand.change(&format!("UPDATE Leadership SET {change} WHERE TRUE")).await, 1);
        let (why, hint) = corruption(store.read(&key).await);
        assert!(!why.is_empty() && hint.contains("put back"), "{change}: {why}; {hint}");
        let next = renewed(before.record().unwrap());
        let renewal = store.swap(&key, before.expect(), &next, AgeStamp::Reset, Persistence::Durable).await;
        assert!(matches!(renewal, Err(StoreError::Conflict)), "{change}: {renewal:?}");
        let _ = corruption(store.read(&key).await);
    }
}

#[tokio::test]
async fn a_record_of_a_newer_format_is_left_alone() {
    let Some(server) = Server::shared() else { return };
    let (store, by_hand, key, before) = held(&server).await;
    let newer = "UPDATE Leadership SET record = REPLACE(record, '\"format\": 1', '\"format\": 99'), version = 'new' WHERE TRUE";
    assert_eq!(by_hand.change(newer).await, 1);
    let error = store.read(&key).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { format: 99, .. }), "{error:?}");
    assert!(error.to_string().contains("newer Baton (format 99"), "{error}");
    assert!(error.hint().contains("update this Baton"), "{}", error.hint());
    let next = renewed(before.record().unwrap());
    for expect in [before.expect(), Expect::Absent] {
        let swapped = store.swap(&key, expect, &next, AgeStamp::Reset, Persistence::Durable).await;
        assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    }
}

#[tokio::test]
async fn a_half_written_row_is_left_alone() {
    let Some(server) = Server::shared() else { return };
    let database = server.bare_database();
    let store = database.store();
    // The table of somebody who did not take over what Baton demands of it.
    let loose = store
        .layout()
        .unwrap()
        .replace("STRING(MAX) NOT NULL", "STRING(MAX)")
        .replace("beat TIMESTAMP NOT NULL", "beat TIMESTAMP");
    database.make(&loose).await;
    store.prepare().await.unwrap();
    let by_hand = database.by_hand().await;
    let half = "INSERT INTO Leadership (cluster_id, leader_id, fencing_token, version) VALUES ('fleet/eu', 'x', 3, 'v')";
    assert_eq!(by_hand.change(half).await, 1);
    let (name, key) = election("fleet/eu");
    let (why, _) = corruption(store.read(&key).await);
    assert!(why.contains("empty"), "{why}");
    let swapped = store
        .swap(&key, Expect::Absent, &led(&name, "agent-a", 0), AgeStamp::Reset, Persistence::Durable)
        .await;
    assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    assert_eq!(
        by_hand.select("SELECT 1 FROM Leadership WHERE leader_id = 'x' AND record IS NULL").await.len(),
        1
    );
}

#[tokio::test]
async fn a_record_of_another_kind_is_guarded_as_well() {
    let Some(server) = Server::shared() else { return };
    let (store, by_hand, _, _) = held(&server).await;
    let (name, _) = election("fleet/eu");
    let key = Key::History(name);
    let empty = baton_store::Record::History(baton_election::log::Log { entries: Vec::new() });
    let first = store
        .swap(&key, Expect::Absent, &empty, AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap()
        .version;
    let changed =
        by_hand.change("UPDATE LeadershipRecords SET record = CONCAT(record, ' ') WHERE TRUE").await;
    assert_eq!(changed, 1);
    let read = store.read(&key).await;
    assert!(
        matches!(&read, Err(StoreError::Corrupt { place, .. }) if place.contains("LeadershipRecords")),
        "{read:?}"
    );
    let swapped =
        store.swap(&key, Expect::Version(first), &empty, AgeStamp::Reset, Persistence::Durable).await;
    assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
}
