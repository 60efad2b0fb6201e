//! Leaderships that are ended: by an operator, by a watcher, by their own limits.

use std::time::Duration;

use baton::election::command::Finding;
use baton::election::document::Phase;
use baton::election::policy::Limits;
use baton::election::{Policy, Span};
use baton::store::MemoryStore;
use baton::{Coordinator, Leadership, Status};

use crate::support::faulty::{Chaos, Faulty};
use crate::support::{
    act, agent, bid, campaign, changes_of_leader, client, depose, election, in_time, lead, limited, operator,
    rule,
};

/// It says that it is lost, and why, and never says otherwise again.
async fn is_lost(leadership: &Leadership, reason: &str) {
    let why = in_time(leadership.lost()).await;
    assert!(why.contains(reason), "{why}");
    assert!(!leadership.ensure(Duration::ZERO), "at once");
    assert_eq!(*leadership.status().borrow(), Status::Lost(why.clone()));
    for _ in 0..1_000 {
        assert!(!leadership.ensure(Duration::ZERO), "and for good");
        tokio::task::yield_now().await;
    }
    assert_eq!(in_time(leadership.lost()).await, why, "whoever asks later is told the same");
}

async fn next_leader_is(coordinator: &Coordinator, name: &str, how: &str) {
    let next = lead(coordinator, bid(name, 30_000)).await;
    assert!(next.ensure(Duration::ZERO));
    assert_eq!(changes_of_leader(coordinator).await.last().unwrap().1, format!("{how} to {name}"));
}

#[tokio::test]
async fn a_deposed_leader_is_told_so_and_frees_the_way_by_its_release() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    let leader = lead(&coordinator, bid("a", 600_000)).await;
    let waiting = campaign(&client(&store), bid("b", 600_000));
    act(&client(&store), depose("it repeats itself")).await;
    is_lost(&leader, "it repeats itself").await;
    assert!(!waiting.is_finished(), "the lease may still be in use");
    leader.release("stopped").await.unwrap();
    let next = in_time(waiting).await.unwrap();
    assert_eq!(next.token().0, 3, "one epoch for the depose, one for the successor");
    assert_eq!(changes_of_leader(&coordinator).await.last().unwrap().1, "depose to b");
}

#[tokio::test]
async fn the_successor_of_a_deposed_leader_that_is_silent_waits_for_its_lease() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    let leader = lead(&coordinator, bid("a", 5_000)).await;
    let waiting = campaign(&client(&store), bid("b", 5_000));
    let deadline = leader.deadline();
    act(&coordinator, depose("")).await;
    is_lost(&leader, "depose").await;
    let next = in_time(waiting).await.unwrap();
    assert!(next.grant().asked_at() > deadline);
}

#[tokio::test]
async fn only_an_operator_deposes() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    let leader = lead(&coordinator, bid("a", 30_000)).await;
    let stranger = baton::election::operator::OperatorKey::from_seed([1; 32]);
    let error = coordinator.operate(&election(), &stranger, &depose("")).await.unwrap_err();
    assert_eq!(error.code(), "wrong-key");
    assert!(leader.ensure(Duration::ZERO));
    assert_ne!(stranger.public(), operator().public());
}

#[tokio::test]
async fn a_budget_of_renewals_ends_it() {
    let coordinator = client(&MemoryStore::default());
    let limits = Limits { renewals: Some(2), ..Limits::default() };
    let leader = lead(&coordinator, limited("a", 6_000, limits)).await;
    is_lost(&leader, "renewed 2 times").await;
    leader.release("").await.unwrap();
    next_leader_is(&coordinator, "b", "budget").await;
}

#[tokio::test]
async fn a_budget_of_time_ends_it() {
    let coordinator = client(&MemoryStore::default());
    let limits = Limits { time: Some(Span::millis(300)), ..Limits::default() };
    let leader = lead(&coordinator, limited("a", 30_000, limits)).await;
    is_lost(&leader, "the budget was 300ms").await;
    leader.release("").await.unwrap();
    next_leader_is(&coordinator, "b", "budget").await;
}

#[tokio::test]
async fn a_budget_of_tokens_ends_it() {
    let coordinator = client(&MemoryStore::default());
    let limits = Limits { tokens: Some(1_000), ..Limits::default() };
    let leader = lead(&coordinator, limited("a", 600_000, limits)).await;
    leader.spent_tokens(400);
    leader.spent_tokens(1_200);
    leader.spent_tokens(600);
    leader.serving();
    is_lost(&leader, "used 1200 tokens").await;
    leader.release("").await.unwrap();
    next_leader_is(&coordinator, "b", "budget").await;
}

#[tokio::test]
async fn a_stall_ends_it_and_progress_does_not() {
    let coordinator = client(&MemoryStore::default());
    // Longer than a busy machine stands still.
    let limits = Limits { stall: Some(Span::secs(6)), ..Limits::default() };
    let leader = lead(&coordinator, limited("a", 30_000, limits)).await;
    let mut status = leader.status();
    let busy = async {
        // The work itself: it goes on for longer than the limit.
        for _ in 0..180 {
            leader.progress();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = busy => {}
        _ = status.wait_for(|status| matches!(status, Status::Lost(_))) => panic!("{:?}", leader.status().borrow()),
    }
    is_lost(&leader, "no progress for").await;
    leader.release("").await.unwrap();
    next_leader_is(&coordinator, "b", "stall").await;
}

#[tokio::test]
async fn a_report_of_failed_validation_ends_it() {
    let store = MemoryStore::default();
    let (coordinator, watcher) = (client(&store), client(&store));
    rule(&coordinator, Policy { watchers: vec![agent("w")], ..Policy::default() }).await;
    let leader = lead(&coordinator, bid("a", 600_000)).await;
    let report = async |by: &str| {
        let by = agent(by);
        watcher.report(&election(), leader.token(), Finding::Validation, "tests fail", &by, None).await
    };
    assert_eq!(report("x").await.unwrap_err().code(), "not-eligible");
    assert!(leader.ensure(Duration::ZERO));
    report("w").await.unwrap();
    is_lost(&leader, "w reports: tests fail").await;
    leader.release("").await.unwrap();
    next_leader_is(&coordinator, "b", "validation").await;
}

/// What is counted lags behind what has passed by every answer that took its time.
#[tokio::test]
async fn a_limit_by_time_is_noticed_when_it_is_reached_and_not_a_renewal_later() {
    let faulty = Faulty::over(MemoryStore::default());
    let limits = Limits { stall: Some(Span::secs(5)), ..Limits::default() };
    let leader = lead(&client(&faulty), limited("a", 600_000, limits)).await;
    faulty.chaos(Chaos { delay: Span::millis(300), ..Chaos::default() });
    let mut validity = leader.validity();
    for _ in 0..4 {
        leader.enter(Phase::Serving);
        in_time(validity.changed()).await.unwrap();
    }
    is_lost(&leader, "no progress for").await;
}
