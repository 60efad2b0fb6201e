//! Many at once: what READ COMMITTED does with statements that wait for each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_election::{Document, Epoch};
use baton_store::conformance::documents::{election, floor, key, led, led_above, put, renewed};
use baton_store::{Expect, Store, StoreError, Version};

use crate::support::TestSchema;

/// What a writer did: from which version to which, and the epoch that it wrote.
type Step = (Option<Version>, Version, Epoch);

/// Takes the election again and again, renewing in between.
async fn compete(store: Arc<dyn Store>, agent: String, rounds: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..rounds {
        let reading = store.read(&key("e")).await.unwrap();
        let found = election(&reading);
        let mine = |document: &Document| document.leader.as_ref().is_some_and(|l| l.agent.as_str() == agent);
        let next = match found {
            Some(document) if round % 3 == 2 && mine(document) => renewed(document),
            Some(_) | None => led_above("e", found, &agent, floor(&reading), None),
        };
        match put(&*store, &key("e"), reading.expect(), &next).await {
            Ok(after) => steps.push((reading.found.map(|(_, before)| before), after, next.epoch)),
            Err(StoreError::Conflict | StoreError::Unavailable { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    steps
}

/// Every version was made once, and replaced once at most; the mark is not below any epoch that was given.
async fn hammer(place: &TestSchema, deleting: bool) {
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..6 {
        writers.spawn(compete(place.store("&timeout=30s"), format!("agent-{number}"), 60));
    }
    let deleter = async {
        let client = place.client().await;
        for _ in 0..if deleting { 30 } else { 0 } {
            client.batch_execute("DELETE FROM baton WHERE key = 'e'").await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (steps, ()) = tokio::join!(writers.join_all(), deleter);
    let steps: Vec<Step> = steps.into_iter().flatten().collect();
    let mut after = BTreeSet::new();
    let mut replaced = BTreeMap::new();
    let mut highest = Epoch(0);
    for (before, made, epoch) in &steps {
        assert!(after.insert(made.as_str().to_string()), "a version came back");
        if let Some(before) = before {
            let twice = replaced.insert(before.as_str().to_string(), made.clone());
            assert!(twice.is_none(), "two swaps of one version were applied");
        } else {
            assert!(deleting || *epoch == Epoch(1), "there was a record already");
        }
        highest = highest.max(*epoch);
    }
    assert!(steps.len() > 30, "the race was a race: {}", steps.len());
    let mark = place.by_hand("SELECT epoch FROM baton_marks WHERE key = 'e'").await;
    assert_eq!(mark, [highest.to_string()]);
    let left = place.store("").read(&key("e")).await.unwrap();
    if let (Some(document), Expect::Version(version)) = (election(&left), left.expect()) {
        assert!(after.contains(version.as_str()), "what is there was written by one of them");
        assert!(document.epoch <= highest);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_swaps_is_applied() {
    let Some(place) = TestSchema::new().await else { return };
    hammer(&place, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_swaps_is_applied_while_somebody_deletes() {
    let Some(place) = TestSchema::new().await else { return };
    hammer(&place, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_swaps_is_applied_behind_a_pooler() {
    let Some(place) = TestSchema::at("BATON_TEST_PGBOUNCER").await else { return };
    hammer(&place, true).await;
}

/// The waiting swap must look again at the row that the other transaction leaves behind.
#[tokio::test]
async fn a_swap_that_waited_for_another_transaction_sees_what_it_did() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("&timeout=60s");
    for (ending, applied) in [("COMMIT", false), ("ROLLBACK", true)] {
        let name = format!("e-{}", ending.to_lowercase());
        let first = led(&name, None, "a");
        let version = put(&*store, &key(&name), Expect::Absent, &first).await.unwrap();
        let other = place.client().await;
        other
            .batch_execute(&format!("BEGIN; UPDATE baton SET leader = 'x' WHERE key = '{name}'"))
            .await
            .unwrap();
        let next = renewed(&first);
        let place_key = key(&name);
        let swap = put(&*store, &place_key, Expect::Version(version), &next);
        let end = async {
            waiting(&place).await;
            other.batch_execute(ending).await.unwrap();
        };
        let (swapped, ()) = tokio::join!(swap, end);
        assert_eq!(swapped.is_ok(), applied, "{ending}: {swapped:?}");
        assert!(applied || matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    }
}

/// The same for two who begin an election.
#[tokio::test]
async fn a_beginning_that_waited_for_another_transaction_sees_what_it_did() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("&timeout=60s");
    for (ending, applied) in [("COMMIT", false), ("ROLLBACK", true)] {
        let name = format!("e-{}", ending.to_lowercase());
        let other = place.client().await;
        let insert =
            format!("BEGIN; INSERT INTO baton (key, kind, record) VALUES ('{name}', 'election', '{{}}')");
        other.batch_execute(&insert).await.unwrap();
        let (place_key, first) = (key(&name), led(&name, None, "a"));
        let swap = put(&*store, &place_key, Expect::Absent, &first);
        let end = async {
            waiting(&place).await;
            other.batch_execute(ending).await.unwrap();
        };
        let (swapped, ()) = tokio::join!(swap, end);
        assert_eq!(swapped.is_ok(), applied, "{ending}: {swapped:?}");
        let marks = place.by_hand(&format!("SELECT epoch FROM baton_marks WHERE key = '{name}'")).await;
        assert_eq!(marks.len(), usize::from(applied), "the mark goes with the swap");
    }
}

/// Until a statement of this place waits for a lock.
async fn waiting(place: &TestSchema) {
    let waits = format!(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
        place.schema
    );
    let deadline = Instant::now() + Duration::from_secs(30);
    while place.by_hand(&waits).await.is_empty() {
        assert!(Instant::now() < deadline, "nobody waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
