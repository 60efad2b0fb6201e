//! A leader that cannot reach its store.

use std::time::Duration;

use baton::election::{Margins, Moment, Span};
use baton::store::{Key, MemoryStore, Store, boot};
use baton::{Leadership, Patience, Status};

use crate::support::faulty::Faulty;
use crate::support::{bid, campaign, changes_of_leader, client, election, impatient, in_time, lead};

/// Longer than a busy machine stands still.
const TTL_MS: u64 = 9_000;

/// The leader goes from jeopardy to loss, and has given up while its lease still runs at the store.
///
/// Returns from when on it surely did not lead.
async fn gives_up_in_time(store: &MemoryStore, leader: &Leadership) -> Moment {
    let mut status = leader.status();
    let jeopardy = in_time(status.wait_for(|status| *status != Status::Safe)).await.unwrap().clone();
    assert!(matches!(jeopardy, Status::Jeopardy(_)), "{jeopardy:?}");
    assert!(leader.ensure(Duration::ZERO), "in jeopardy it still leads");
    // No renewal is answered from here on.
    let deadline = leader.deadline();
    in_time(leader.lost()).await;
    assert!(!leader.ensure(Duration::ZERO));
    // Whenever this is looked at, it has not led from its deadline on, which came before the lease's end at the store.
    let age = store.read(&Key::Election(election())).await.unwrap().age.unwrap();
    let now = boot::now();
    let age_then = age.minus(now.since(deadline));
    assert!(deadline <= now && age_then < Span::millis(TTL_MS), "its deadline was at an age of {age_then}");
    deadline
}

async fn and_another_takes_over(store: &MemoryStore, faulty: &Faulty, leader: &Leadership) {
    let next = campaign(&client(store), bid("b", TTL_MS));
    let deadline = gives_up_in_time(store, leader).await;
    let next = in_time(next).await.unwrap();
    assert!(next.grant().asked_at() > deadline);
    assert!(next.ensure(Duration::ZERO) && !leader.ensure(Duration::ZERO));
    faulty.partition(false);
    faulty.silence(false);
    assert_eq!(changes_of_leader(&client(store)).await.len(), 2);
    assert!(!leader.ensure(Duration::ZERO), "once lost, always lost");
    assert!(matches!(&*leader.status().borrow(), Status::Lost(_)));
}

#[tokio::test]
async fn a_partitioned_leader_gives_up_before_its_lease_ends_and_another_takes_over() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let leader = lead(&client(&faulty), bid("a", TTL_MS)).await;
    faulty.partition(true);
    and_another_takes_over(&store, &faulty, &leader).await;
}

/// Worse than errors: renewals are applied, and no answer comes.
#[tokio::test]
async fn a_store_that_does_not_answer_hides_neither_jeopardy_nor_loss() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let leader = lead(&client(&faulty), bid("a", TTL_MS)).await;
    faulty.silence(true);
    and_another_takes_over(&store, &faulty, &leader).await;
}

/// Even one that stops answering while the renewing task looks at somebody's change, or writes the history.
#[tokio::test]
async fn a_look_that_is_not_answered_does_not_hold_up_the_renewals() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let leader = lead(&client(&faulty), bid("a", TTL_MS)).await;
    faulty.silence(true);
    // A change of something else makes the task look.
    let other = "other".parse().unwrap();
    let credential = baton::mint_credential().unwrap();
    client(&store).acquire(&other, &bid("x", 30_000), credential, None, None).await.unwrap();
    gives_up_in_time(&store, &leader).await;
    faulty.silence(false);
    assert!(!leader.ensure(Duration::ZERO));
}

#[tokio::test]
async fn a_short_partition_is_survived() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let leader = lead(&client(&faulty), bid("a", TTL_MS)).await;
    let mut status = leader.status();
    for _ in 0..2 {
        faulty.partition(true);
        in_time(status.wait_for(|status| matches!(status, Status::Jeopardy(_)))).await.unwrap();
        faulty.partition(false);
        in_time(status.wait_for(|status| *status == Status::Safe)).await.unwrap();
        assert!(leader.ensure(Duration::ZERO));
    }
    assert_eq!(changes_of_leader(&client(&store)).await.len(), 1);
}

/// The deadline is never later than what the last renewal that reached the store allows.
#[tokio::test]
async fn the_deadline_follows_what_was_applied() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let leader = lead(&client(&faulty), bid("a", 4_500)).await;
    let usable = Margins::STANDARD.usable(Span::millis(4_500));
    let mut validity = leader.validity();
    for _ in 0..3 {
        in_time(validity.changed()).await.unwrap();
        let deadline = validity.borrow_and_update().deadline;
        let sent = *faulty.applied().last().unwrap();
        assert!(deadline <= sent + usable, "{deadline:?} for a renewal sent at {sent:?}");
        assert!(deadline > boot::now());
    }
}

#[tokio::test]
async fn patience_ends_by_time_too() {
    let faulty = Faulty::over(MemoryStore::default());
    faulty.partition(true);
    let patience = Patience { retries: None, within: Some(Span::millis(50)), ..impatient() };
    let coordinator = client(&faulty).patient(patience);
    let (election, bid) = (election(), bid("a", 30_000));
    let credential = baton::mint_credential().unwrap();
    let asked = coordinator.acquire(&election, &bid, credential, None, None);
    assert_eq!(in_time(asked).await.unwrap_err().code(), "unavailable");
    assert!(faulty.operations() > 1, "it was tried again");
}
