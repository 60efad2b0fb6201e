//! Whoever waits, waits: nobody asks a store again and again for nothing.

use baton::election::operator::Act;
use baton::election::policy::{ApprovalMode, Select};
use baton::election::{Policy, Span};
use baton::store::{MemoryStore, boot};
use baton::{Bid, CheckpointContent, Coordinator};

use crate::support::faulty::Faulty;
use crate::support::{act, agent, bid, campaign, client, election, lead, rule, until};

/// Of a leader that does something before it dies: longer than a busy machine stands still.
const LEASE: Span = Span::secs(4);
/// For how long the waiting is watched.
const WATCHED: Span = Span::millis(1_500);
/// How long a candidacy goes without being renewed, and a little more.
const CANDIDACY: Span = Span::millis(5_200);
/// Far above what waiting takes in that time, far below what a loop without a pause does.
const BOUND: u64 = 200;

/// Watches what a client asks of its store from here on.
async fn idles(what: &str, faulty: &Faulty) {
    let (before, begun) = (faulty.operations(), boot::now());
    boot::sleep(WATCHED).await.unwrap();
    let (asked, took) = (faulty.operations() - before, boot::now().since(begun));
    // A machine that stood still meanwhile has not taken less time for it.
    let bound = BOUND * (took.as_millis() / WATCHED.as_millis());
    assert!(asked < bound, "{what}: {asked} operations in {took}");
}

fn stores() -> (MemoryStore, Faulty, Coordinator) {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let coordinator = client(&store);
    (store, faulty, coordinator)
}

#[tokio::test]
async fn a_follower_of_a_lease_that_ran_out() {
    let (_, faulty, coordinator) = stores();
    drop(lead(&coordinator, bid("a", 1_000)).await);
    let mut follower = client(&faulty).follow(&election()).await;
    while !follower.leader().vacant {
        follower.changed().await;
    }
    idles("a follower", &faulty).await;
    assert!(follower.leader().vacant);
}

#[tokio::test]
async fn a_candidate_that_is_not_eligible_though_the_lease_ran_out() {
    let (_, faulty, coordinator) = stores();
    let policy = Policy { select: Select::Designated, designated: Some(agent("a")), ..Policy::default() };
    rule(&coordinator, policy).await;
    drop(lead(&coordinator, bid("a", 1_000)).await);
    let waiting = campaign(&client(&faulty), bid("b", 1_000));
    idles("not eligible", &faulty).await;
    assert!(!waiting.is_finished());
}

#[tokio::test]
async fn a_candidate_of_an_election_that_is_paused() {
    let (_, faulty, coordinator) = stores();
    rule(&coordinator, Policy { select: Select::Priority, ..Policy::default() }).await;
    act(&coordinator, Act::Pause { reason: String::new() }).await;
    let waiting = campaign(&client(&faulty), bid("b", 1_000));
    idles("paused", &faulty).await;
    assert!(!waiting.is_finished());
}

#[tokio::test]
async fn a_candidate_while_a_leader_that_died_waits_for_approval() {
    let (_, faulty, coordinator) = stores();
    rule(&coordinator, Policy { approval: ApprovalMode::Checkpoints, ..Policy::default() }).await;
    let leader = lead(&coordinator, bid("a", LEASE.as_millis())).await;
    let content =
        CheckpointContent { summary: String::new(), state: "0".to_string(), reference: None, covers: None };
    leader.checkpoint(&content).await.unwrap();
    drop(leader);
    let waiting = campaign(&client(&faulty), bid("b", 1_000));
    boot::sleep(LEASE).await.unwrap();
    idles("awaiting approval", &faulty).await;
    assert!(!waiting.is_finished());
}

#[tokio::test]
async fn a_leader_that_waits_for_approval() {
    let (_, faulty, coordinator) = stores();
    rule(&coordinator, Policy { approval: ApprovalMode::Checkpoints, ..Policy::default() }).await;
    let leader = lead(&client(&faulty), bid("a", LEASE.as_millis())).await;
    let content =
        CheckpointContent { summary: String::new(), state: "0".to_string(), reference: None, covers: None };
    leader.checkpoint(&content).await.unwrap();
    idles("a leader awaiting approval", &faulty).await;
    assert!(!leader.ensure(std::time::Duration::ZERO));
}

/// It stood under a policy that compares; then the policy stops to compare, and its candidacy is not renewed any more.
#[tokio::test]
async fn a_candidate_whose_policy_changed_under_it() {
    let (store, faulty, coordinator) = stores();
    rule(&coordinator, Policy { select: Select::Priority, ..Policy::default() }).await;
    let leader = lead(&coordinator, bid("a", 600_000)).await;
    let waiting = campaign(&client(&faulty), Bid { priority: 7, ..bid("b", 600_000) });
    until(&store, async || coordinator.candidates().list(&election()).await.unwrap().len() == 1).await;
    act(&coordinator, Act::SetPolicy { policy: Policy::default() }).await;
    boot::sleep(CANDIDACY).await.unwrap();
    idles("a policy that changed", &faulty).await;
    assert_eq!(coordinator.candidates().list(&election()).await.unwrap(), [], "it stands no longer");
    assert!(!waiting.is_finished());
    leader.release("").await.unwrap();
    assert_eq!(crate::support::in_time(waiting).await.unwrap().token().0, 2);
}

/// Its candidacy is overdue, and the store does not let it renew it.
#[tokio::test]
async fn a_candidate_whose_store_fails() {
    let (store, faulty, coordinator) = stores();
    rule(&coordinator, Policy { select: Select::Priority, ..Policy::default() }).await;
    let _leader = lead(&coordinator, bid("a", 600_000)).await;
    let waiting = campaign(&client(&faulty), bid("b", 600_000));
    until(&store, async || coordinator.candidates().list(&election()).await.unwrap().len() == 1).await;
    faulty.partition(true);
    boot::sleep(CANDIDACY).await.unwrap();
    idles("a store that fails", &faulty).await;
    assert!(!waiting.is_finished());
}

#[tokio::test]
async fn a_leader_whose_store_fails() {
    let (_, faulty, coordinator) = stores();
    let leader = lead(&client(&faulty), bid("a", 30_000)).await;
    faulty.partition(true);
    leader.serving();
    idles("a leader in trouble", &faulty).await;
    assert!(leader.ensure(std::time::Duration::ZERO));
    assert!(coordinator.view(&election()).await.unwrap().leader().is_some());
}
