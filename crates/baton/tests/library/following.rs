//! Those who do not lead: a cached view, pushed, that goes on serving.

use std::sync::Arc;

use baton::election::operator::Act;
use baton::election::{Epoch, Policy};
use baton::store::MemoryStore;
use baton::{Follower, LeaderView};

use crate::support::faulty::Faulty;
use crate::support::{act, agent, bid, client, client_of, election, in_time, lead, on_each_store, rule};

async fn comes_to_know(follower: &mut Follower, holds: impl Fn(&LeaderView) -> bool) -> Arc<LeaderView> {
    in_time(async {
        let mut known = follower.leader();
        while !holds(&known) {
            known = follower.changed().await;
        }
        known
    })
    .await
}

#[tokio::test]
async fn a_follower_is_told_of_every_change_and_keeps_the_last_leader() {
    on_each_store(|store| async move {
        let mut follower = client_of(&store).follow(&election()).await;
        let nobody = LeaderView { vacant: true, ..LeaderView::default() };
        assert_eq!(*follower.leader(), nobody, "the first look is made already");
        let first = lead(&client_of(&store), bid("a", 600_000)).await;
        let known = comes_to_know(&mut follower, |known| !known.vacant).await;
        assert_eq!((known.agent.clone(), known.token), (Some(agent("a")), Epoch(1)));
        first.release("").await.unwrap();
        let known = comes_to_know(&mut follower, |known| known.vacant).await;
        assert_eq!((known.agent.clone(), known.token), (Some(agent("a")), Epoch(1)), "who led last");
        let _second = lead(&client_of(&store), bid("b", 600_000)).await;
        let known = comes_to_know(&mut follower, |known| !known.vacant).await;
        assert_eq!((known.agent.clone(), known.token), (Some(agent("b")), Epoch(2)));
        let late = client_of(&store).follow(&election()).await;
        assert_eq!(late.leader(), known, "whoever follows later knows at once");
    })
    .await;
}

#[tokio::test]
async fn a_follower_notices_that_a_lease_ran_out_though_nobody_says_so() {
    on_each_store(|store| async move {
        let leader = lead(&client_of(&store), bid("a", 1_000)).await;
        let mut follower = client_of(&store).follow(&election()).await;
        assert!(!follower.leader().vacant);
        drop(leader);
        let known = comes_to_know(&mut follower, |known| known.vacant).await;
        assert_eq!(known.agent, Some(agent("a")));
    })
    .await;
}

#[tokio::test]
async fn a_follower_goes_on_with_what_it_knew_and_says_so() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let leader = lead(&client(&store), bid("a", 600_000)).await;
    let mut follower = client(&faulty).follow(&election()).await;
    assert!(!follower.leader().stale);
    faulty.partition(true);
    // Any change makes it look.
    leader.serving();
    let known = comes_to_know(&mut follower, |known| known.stale).await;
    assert_eq!((known.agent.clone(), known.token, known.vacant), (Some(agent("a")), Epoch(1), false));
    leader.release("").await.unwrap();
    assert!(follower.leader().stale);
    faulty.partition(false);
    let known = comes_to_know(&mut follower, |known| !known.stale).await;
    assert_eq!((known.agent.clone(), known.vacant), (Some(agent("a")), true));
}

#[tokio::test]
async fn a_store_that_is_out_of_reach_from_the_beginning_is_followed_as_stale() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    faulty.partition(true);
    let mut follower = client(&faulty).follow(&election()).await;
    assert_eq!(*follower.leader(), LeaderView { stale: true, ..LeaderView::default() });
    faulty.partition(false);
    let _leader = lead(&client(&store), bid("a", 600_000)).await;
    let known = comes_to_know(&mut follower, |known| !known.stale && !known.vacant).await;
    assert_eq!(known.agent, Some(agent("a")));
}

#[tokio::test]
async fn a_follower_knows_that_an_operator_stopped_it() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    let _leader = lead(&coordinator, bid("a", 600_000)).await;
    let mut follower = coordinator.follow(&election()).await;
    act(&coordinator, Act::Pause { reason: "lunch".to_string() }).await;
    let known = comes_to_know(&mut follower, |known| known.stopped).await;
    assert!(known.vacant);
    act(&coordinator, Act::Resume).await;
    let known = comes_to_know(&mut follower, |known| !known.stopped).await;
    assert_eq!(known.agent, Some(agent("a")));
}
