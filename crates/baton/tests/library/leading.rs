//! Campaign, wait in line, lead, hand over.

use std::time::Duration;

use baton::election::{Answer, Span};
use baton::store::MemoryStore;
use baton::{CheckpointContent, Error, Status};

use crate::support::{
    agent, bid, campaign, cannot_lead, changes_of_leader, client, client_of, document, election, in_time,
    lead, on_each_store, until,
};

#[tokio::test]
async fn whoever_waits_takes_over_at_the_release() {
    on_each_store(|store| async move {
        let (one, two) = (client_of(&store), client_of(&store));
        let first = lead(&one, bid("a", 30_000)).await;
        assert_eq!(first.token().0, 1);
        assert!(first.ensure(Duration::from_secs(5)));
        assert_eq!(cannot_lead(&two, bid("b", 30_000), Span::millis(50)).await, "another leads");
        let waiting = campaign(&two, bid("b", 30_000));
        first.release("done").await.unwrap();
        let second = in_time(waiting).await.unwrap();
        assert!(second.ensure(Duration::from_secs(5)));
        assert_eq!(second.token().0, 2);
        let expected = [(1, "first to a"), (2, "release to b")];
        let history = changes_of_leader(&one).await;
        assert!(history.iter().map(|(epoch, what)| (epoch.0, what.as_str())).eq(expected), "{history:?}");
    })
    .await;
}

#[tokio::test]
async fn a_hand_over_among_many_goes_to_one_at_a_time() {
    on_each_store(|store| async move {
        let names = ["a", "b", "c", "d", "e"];
        let mut waiting = tokio::task::JoinSet::new();
        for name in names {
            let client = client_of(&store);
            waiting.spawn(async move { lead(&client, bid(name, 30_000)).await });
        }
        for round in 1..=5 {
            let leader = in_time(waiting.join_next()).await.unwrap().unwrap();
            assert_eq!(leader.token().0, round);
            assert!(leader.ensure(Duration::ZERO));
            leader.release("next").await.unwrap();
        }
        let led = changes_of_leader(&client_of(&store)).await;
        let led: std::collections::BTreeSet<&str> =
            led.iter().filter_map(|(_, what)| what.rsplit(' ').next()).collect();
        assert!(led.into_iter().eq(names));
    })
    .await;
}

#[tokio::test]
async fn two_campaigns_of_one_name_are_two_lives() {
    on_each_store(|store| async move {
        let client = client_of(&store);
        let first = lead(&client, bid("a", 30_000)).await;
        assert_eq!(cannot_lead(&client, bid("a", 30_000), Span::millis(50)).await, "another leads");
        let waiting = campaign(&client, bid("a", 30_000));
        let life = first.credential().incarnation;
        assert!(first.ensure(Duration::ZERO) && !waiting.is_finished());
        first.release("").await.unwrap();
        let second = in_time(waiting).await.unwrap();
        assert_ne!(second.credential().incarnation, life);
        assert_eq!(second.token().0, 2);
    })
    .await;
}

#[tokio::test]
async fn a_dropped_leadership_runs_out_and_not_before() {
    on_each_store(|store| async move {
        let first = lead(&client_of(&store), bid("a", 1_000)).await;
        let mut status = first.status();
        let deadline = first.deadline();
        drop(first);
        in_time(status.wait_for(|status| matches!(status, Status::Lost(_)))).await.unwrap();
        let second = lead(&client_of(&store), bid("b", 1_000)).await;
        assert!(second.grant().asked_at() > deadline, "nobody leads before the former's own deadline");
        let history = changes_of_leader(&client_of(&store)).await;
        assert_eq!(history.last().unwrap().1, "failover to b");
    })
    .await;
}

#[tokio::test]
async fn a_leadership_is_renewed_for_longer_than_its_lease() {
    on_each_store(|store| async move {
        let client = client_of(&store);
        // A lease that neither a machine nor a disk that stands still for a while costs.
        let leader = lead(&client, bid("a", 5_000)).await;
        let why = cannot_lead(&client_of(&store), bid("b", 5_000), Span::millis(6_500)).await;
        assert_eq!(why, "another leads");
        assert!(leader.ensure(Duration::ZERO));
        in_time(leader.status().wait_for(|status| *status == Status::Safe)).await.unwrap();
        assert!(document(&client).await.leader.unwrap().renewals >= 3);
    })
    .await;
}

#[tokio::test]
async fn pass_reaches_its_successor_though_others_wait() {
    let store = MemoryStore::default();
    let leader = lead(&client(&store), bid("a", 30_000)).await;
    let mut waiting = tokio::task::JoinSet::new();
    for name in ["b", "c", "d", "e"] {
        let client = client(&store);
        waiting.spawn(async move { lead(&client, bid(name, 30_000)).await });
    }
    let passed = leader.pass(&agent("d"), "knows the code").await.unwrap().unwrap();
    assert_eq!(passed.reserved_for.unwrap().agent, agent("d"));
    let next = in_time(waiting.join_next()).await.unwrap().unwrap();
    assert_eq!(next.agent(), &agent("d"));
    let history = client(&store).history(&election(), 10).await.unwrap();
    assert_eq!(history[1].cause.to_string(), "pass");
    assert!(history[1].reason.starts_with("knows the code"), "{}", history[1].reason);
}

#[tokio::test]
async fn a_successor_that_does_not_come_is_not_waited_for_longer_than_a_lease() {
    let store = MemoryStore::default();
    let leader = lead(&client(&store), bid("a", 4_000)).await;
    leader.pass(&agent("nobody"), "").await.unwrap();
    let why = cannot_lead(&client(&store), bid("b", 1_000), Span::millis(100)).await;
    assert!(why.contains("kept for nobody"), "{why}");
    let next = lead(&client(&store), bid("b", 1_000)).await;
    assert_eq!(next.token().0, 2);
}

#[tokio::test]
async fn a_checkpoint_is_inherited_and_acknowledged() {
    on_each_store(|store| async move {
        let first = lead(&client_of(&store), bid("a", 30_000)).await;
        assert!(first.inherited().is_none());
        for round in 1..=3 {
            let content = content(&format!("round {round}"));
            let answer = first.checkpoint(&content).await.unwrap();
            assert!(matches!(answer, Answer::Checkpointed { seq, .. } if seq == round), "{answer:?}");
        }
        first.release("").await.unwrap();
        let second = lead(&client_of(&store), bid("b", 30_000)).await;
        let left = second.inherited().unwrap().clone();
        assert_eq!((left.summary.as_str(), left.seq), ("round 3", 3));
        assert_eq!(left.acknowledged_by, None);
        let hash = baton::election::checkpoint_hash(&left.summary, &left.state, None, None);
        assert_eq!(left.hash, hash, "what was left is what was written");
        second.acknowledge(&left).await.unwrap();
        let stands = client_of(&store).handover(&election()).await.unwrap().unwrap();
        assert_eq!(stands.acknowledged_by, Some(agent("b")));
        let history = client_of(&store).history(&election(), 1).await.unwrap();
        assert!(history[0].phases.synchronisation.is_some());
    })
    .await;
}

fn content(summary: &str) -> CheckpointContent {
    CheckpointContent {
        summary: summary.to_string(),
        state: "{\"n\": 1}".to_string(),
        reference: None,
        covers: None,
    }
}

#[tokio::test]
async fn what_a_leader_says_of_itself_is_told_at_once() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    let leader = lead(&coordinator, bid("a", 600_000)).await;
    leader.serving();
    leader.enter(baton::election::document::Phase::Draining);
    until(&store, async || {
        let document = document(&coordinator).await;
        let promoted = document.last_transition.as_ref().unwrap().phases.promotion.is_some();
        promoted && document.leader.unwrap().phase.to_string() == "draining"
    })
    .await;
    assert!(leader.ensure(Duration::ZERO));
}

#[tokio::test]
async fn a_bid_that_makes_no_sense_ends_the_campaign() {
    let client = client(&MemoryStore::default());
    let campaign = baton::Campaign::new(bid("a", 10));
    let error = client.campaign(&election(), campaign).await.err().unwrap();
    assert!(matches!(&error, Error::Refused(refusal) if refusal.code() == "invalid"), "{error}");
}
