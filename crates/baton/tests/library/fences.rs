//! Tokens shown to fences.

use baton::election::fence::{Entry, LOG_PART, LOG_PARTS};
use baton::election::{Epoch, Policy, ResourceName};
use baton::store::MemoryStore;
use baton::{Coordinator, Error};

use crate::support::faulty::{Fault, Faulty, is_fence};
use crate::support::{
    act, agent, bid, client, client_of, depose, election, in_time, lead, on_each_store, rule,
};

fn resource() -> ResourceName {
    ResourceName::new("repo/main").unwrap()
}

async fn admit(coordinator: &Coordinator, token: Epoch, note: &str) -> Result<(), Error> {
    let (resource, agent) = (resource(), agent("a"));
    let entry = Entry { resource: &resource, token, agent: Some(&agent), note, hold: None };
    coordinator.fences().admit(&entry, Some(&election())).await.map(drop)
}

async fn log(coordinator: &Coordinator) -> Vec<(u64, u64, String)> {
    let accepted = coordinator.fences().accepted(&resource()).await.unwrap();
    accepted.into_iter().map(|entry| (entry.seq, entry.token.0, entry.note)).collect()
}

/// Over the fence's own tail, over the log beside it, and over the parts of that.
#[tokio::test]
async fn what_was_accepted_is_logged_in_order_and_once() {
    on_each_store(|store| async move {
        let coordinator = client_of(&store);
        let mut expected = Vec::new();
        for _ in 0..3 {
            let leader = lead(&coordinator, bid("a", 600_000)).await;
            for _ in 0..110 {
                let seq = expected.len() as u64 + 1;
                admit(&coordinator, leader.token(), &format!("write {seq}")).await.unwrap();
                expected.push((seq, leader.token().0, format!("write {seq}")));
            }
            leader.release("").await.unwrap();
        }
        assert_eq!(log(&client_of(&store)).await, expected);
    })
    .await;
}

/// Nobody fills a store by tokens that are accepted: the log keeps the newest, without a gap.
#[tokio::test]
async fn the_log_of_a_fence_has_a_bound() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    let leader = lead(&coordinator, bid("a", 3_600_000)).await;
    let all = (LOG_PARTS + 1) * LOG_PART;
    for _ in 0..all {
        admit(&coordinator, leader.token(), "").await.unwrap();
    }
    let logged = log(&client(&store)).await;
    let first = logged[0].0;
    assert!(first > 1, "the oldest are gone");
    assert!(logged.len() as u64 > (LOG_PARTS - 1) * LOG_PART, "{}", logged.len());
    assert!(logged.iter().map(|entry| entry.0).eq(first..=all), "none is missing between");
}

#[tokio::test]
async fn racing_writers_of_one_token_are_all_logged() {
    let store = MemoryStore::default();
    let leader = lead(&client(&store), bid("a", 600_000)).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let (client, token) = (client(&store), leader.token());
        writers.spawn(async move {
            for number in 0..25 {
                admit(&client, token, &format!("{writer}/{number}")).await.unwrap();
            }
        });
    }
    in_time(writers.join_all()).await;
    let log = log(&client(&store)).await;
    assert!(log.iter().map(|(seq, ..)| *seq).eq(1..=200));
    let notes: std::collections::BTreeSet<&String> = log.iter().map(|(_, _, note)| note).collect();
    assert_eq!(notes.len(), 200, "each of them once");
}

#[tokio::test]
async fn a_deposed_leader_is_refused_though_no_successor_exists() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    let leader = lead(&coordinator, bid("a", 600_000)).await;
    let token = leader.token();
    admit(&coordinator, token, "before").await.unwrap();
    act(&coordinator, depose("")).await;
    let error = admit(&client(&store), token, "after").await.unwrap_err();
    assert_eq!(error.code(), "stale", "{error}");
    assert!(admit(&coordinator, Epoch(token.0 + 1), "forged").await.is_err());
    assert_eq!(log(&coordinator).await.len(), 1);
}

#[tokio::test]
async fn a_lost_reply_does_not_log_twice() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let leader = lead(&client(&store), bid("a", 600_000)).await;
    let writer = client(&faulty);
    for (number, fault) in [Fault::After, Fault::Before, Fault::After].into_iter().enumerate() {
        faulty.plan(is_fence, &[fault]);
        admit(&writer, leader.token(), &format!("write {number}")).await.unwrap();
        assert!(faulty.is_over());
    }
    let log = log(&client(&store)).await;
    assert!(log.iter().map(|(_, _, note)| note.as_str()).eq(["write 0", "write 1", "write 2"]), "{log:?}");
}

/// A token that was current at the first look and is not at the second.
#[tokio::test]
async fn every_attempt_looks_at_the_election_anew() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let leader = lead(&client(&store), bid("a", 600_000)).await;
    let (writer, token) = (client(&faulty), leader.token());
    admit(&writer, token, "binds").await.unwrap();
    faulty.plan(is_fence, &[Fault::Before; 4]);
    let late = tokio::spawn(async move { admit(&writer, token, "late").await });
    // Between the attempts the leadership ends.
    leader.release("").await.unwrap();
    let next = lead(&client(&store), bid("b", 600_000)).await;
    let outcome = in_time(late).await.unwrap();
    let log = log(&client(&store)).await;
    match outcome {
        Err(error) => {
            assert_eq!(error.code(), "stale", "{error}");
            assert_eq!(log.len(), 1);
        }
        // It got through before the end.
        Ok(()) => assert_eq!(log.len(), 2),
    }
    admit(&client(&store), next.token(), "next").await.unwrap();
}
