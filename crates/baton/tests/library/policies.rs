//! Policies that compare candidates, with several campaigning.

use std::time::Duration;

use baton::election::policy::Select;
use baton::election::{Policy, Span};
use baton::store::MemoryStore;
use baton::{Bid, Coordinator, Leadership};
use tokio::task::JoinSet;

use crate::support::{bid, client, election, in_time, lead, rule, until};

/// Candidates that campaign, each a client of its own.
struct Field {
    store: MemoryStore,
    campaigns: JoinSet<Leadership>,
}

impl Field {
    async fn under(select: Select) -> Field {
        let store = MemoryStore::default();
        let nomination = Span::millis(50);
        rule(&client(&store), Policy { select, nomination, ..Policy::default() }).await;
        Field { store, campaigns: JoinSet::new() }
    }

    fn joins(&mut self, bid: Bid) {
        let client = client(&self.store);
        self.campaigns.spawn(async move { lead(&client, bid).await });
    }

    /// Waits until so many stand.
    async fn stand(&self, count: usize) {
        let looker = client(&self.store);
        until(&self.store, async || looker.candidates().list(&election()).await.unwrap().len() == count)
            .await;
    }

    async fn elects(&mut self) -> (Leadership, String) {
        let leader = in_time(self.campaigns.join_next()).await.unwrap().unwrap();
        assert!(leader.ensure(Duration::ZERO));
        let last = client(&self.store).history(&election(), 1).await.unwrap();
        (leader, last[0].reason.clone())
    }
}

#[tokio::test]
async fn the_highest_priority_is_chosen_and_the_reason_written() {
    let mut field = Field::under(Select::Priority).await;
    let first = lead(&client(&field.store), bid("z", 30_000)).await;
    for (name, priority) in [("a", 1), ("b", 9), ("c", 5), ("d", -4)] {
        field.joins(Bid { priority, ..bid(name, 30_000) });
    }
    field.stand(4).await;
    first.release("").await.unwrap();
    for (place, (name, priority)) in [("b", 9), ("c", 5), ("a", 1), ("d", -4)].into_iter().enumerate() {
        let (leader, reason) = field.elects().await;
        assert_eq!(leader.agent().as_str(), name, "{reason}");
        assert_eq!(reason, format!("priority {priority} among {}", 4 - place));
        leader.release("").await.unwrap();
    }
}

#[tokio::test]
async fn the_least_loaded_is_chosen() {
    let mut field = Field::under(Select::Available).await;
    let first = lead(&client(&field.store), bid("z", 30_000)).await;
    for (name, load) in [("a", 70), ("b", 20), ("c", 40)] {
        field.joins(Bid { load, ..bid(name, 30_000) });
    }
    field.stand(3).await;
    first.release("").await.unwrap();
    for name in ["b", "c", "a"] {
        let (leader, reason) = field.elects().await;
        assert_eq!(leader.agent().as_str(), name, "{reason}");
        assert!(reason.starts_with("load "), "{reason}");
        leader.release("").await.unwrap();
    }
}

#[tokio::test]
async fn the_capable_are_chosen_and_the_others_told_why_not() {
    let store = MemoryStore::default();
    let mut field = Field { store: store.clone(), campaigns: JoinSet::new() };
    let policy = Policy { select: Select::Capable, needs: vec!["rust".to_string()], ..Policy::default() };
    rule(&client(&store), policy).await;
    let able = |name: &str, score| {
        let capabilities = ["rust".to_string()].into();
        Bid { capabilities, score, ..bid(name, 30_000) }
    };
    let first = lead(&client(&store), able("z", 0)).await;
    field.joins(able("a", 3));
    field.joins(able("b", 7));
    field.stand(2).await;
    first.release("").await.unwrap();
    let (leader, reason) = field.elects().await;
    assert_eq!((leader.agent().as_str(), reason.as_str()), ("b", "can do rust, score 7 among 2"));
    leader.release("").await.unwrap();
    let (leader, _) = field.elects().await;
    leader.release("").await.unwrap();
    let why = crate::support::cannot_lead(&client(&store), bid("c", 30_000), Span::millis(100)).await;
    assert!(why.contains("lacks the capability `rust`"), "{why}");
}

#[tokio::test]
async fn the_leadership_goes_round() {
    let mut field = Field::under(Select::RoundRobin).await;
    let first = lead(&client(&field.store), bid("b", 30_000)).await;
    for name in ["c", "a", "b"] {
        field.joins(bid(name, 30_000));
    }
    field.stand(3).await;
    first.release("").await.unwrap();
    for (name, after) in [("c", "b"), ("a", "c"), ("b", "a"), ("c", "b"), ("a", "c")] {
        let (leader, reason) = field.elects().await;
        assert_eq!(leader.agent().as_str(), name, "{reason}");
        assert_eq!(reason, format!("next after {after} among 3"));
        field.joins(bid(name, 30_000));
        field.stand(3).await;
        leader.release("").await.unwrap();
    }
}

#[tokio::test]
async fn a_preferred_candidate_that_does_not_act_is_not_waited_for_for_ever() {
    let mut field = Field::under(Select::Priority).await;
    let store = field.store.clone();
    let absent: Coordinator = client(&store);
    let credential = baton::mint_credential().unwrap();
    let best = Bid { priority: 100, ..bid("absent", 30_000) };
    absent.candidates().enlist(&election(), &best, credential, Span::secs(600)).await.unwrap();
    field.joins(Bid { priority: 1, ..bid("a", 30_000) });
    let (leader, reason) = field.elects().await;
    assert_eq!(leader.agent().as_str(), "a");
    assert_eq!(reason, "priority 1 among 2; those ahead of it did not act");
}

/// A second life under a name that a first one stands under is not in the ranking, and must not get ahead by that.
#[tokio::test]
async fn a_second_life_of_a_candidate_does_not_jump_the_line() {
    let mut field = Field::under(Select::Priority).await;
    let first = lead(&client(&field.store), bid("z", 30_000)).await;
    field.joins(Bid { priority: 1, ..bid("a", 30_000) });
    field.joins(Bid { priority: 1, ..bid("a", 30_000) });
    field.joins(Bid { priority: 9, ..bid("b", 30_000) });
    field.stand(2).await;
    first.release("").await.unwrap();
    for name in ["b", "a", "a"] {
        let (leader, reason) = field.elects().await;
        assert_eq!(leader.agent().as_str(), name, "{reason}");
        leader.release("").await.unwrap();
    }
}
