//! Requests that were carried out, and whose replies were lost.

use std::time::Duration;

use baton::election::{Answer, Margins, Span};
use baton::store::{MemoryStore, boot};
use baton::{Campaign, CheckpointContent, Coordinator, Status};

use crate::support::faulty::{Fault, Faulty, is_election};
use crate::support::{agent, bid, changes_of_leader, client, document, election, impatient, in_time, lead};

fn stores() -> (MemoryStore, Faulty) {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    (store, faulty)
}

#[tokio::test]
async fn a_grant_whose_reply_is_lost_is_one_grant_counted_from_the_first_attempt() {
    for faults in [&[Fault::After][..], &[Fault::Before, Fault::After], &[Fault::Before; 3]] {
        let (store, faulty) = stores();
        let coordinator = client(&faulty);
        faulty.plan(is_election, faults);
        let before = boot::now();
        let leader = lead(&coordinator, bid("a", 30_000)).await;
        assert!(faulty.is_over());
        assert_eq!(leader.token().0, 1);
        assert_eq!(changes_of_leader(&client(&store)).await.len(), 1);
        let holder = document(&client(&store)).await.leader.unwrap();
        assert_eq!(holder.incarnation, leader.credential().incarnation);
        let sent = faulty.applied()[0];
        assert!(before <= leader.grant().asked_at() && leader.grant().asked_at() <= sent);
        assert!(leader.deadline() <= sent + Margins::STANDARD.usable(Span::secs(30)));
    }
}

/// The caller's patience ends before the reply is known. The campaign finds its own lease, and does not wait for its end.
#[tokio::test]
async fn a_campaign_finds_the_lease_that_it_was_granted_without_hearing_of_it() {
    let (store, faulty) = stores();
    let coordinator = client(&faulty).patient(impatient());
    coordinator.elections().await.unwrap();
    client(&store).operators().enrol(&crate::support::operator()).await.unwrap();
    faulty.plan(is_election, &[Fault::After]);
    let campaign = tokio::spawn({
        let coordinator = coordinator.clone();
        async move { lead(&coordinator, bid("a", 600_000)).await }
    });
    crate::support::until(&store, async || {
        let granted = client(&store).view(&election()).await.unwrap().leader().is_some();
        if granted {
            faulty.fail_reads(10);
        }
        granted
    })
    .await;
    let leader = in_time(campaign).await.unwrap();
    assert_eq!(leader.token().0, 1, "the same grant, not another after the end of its lease");
    let (granted, confirmed) = (faulty.applied()[0], faulty.applied()[1]);
    let asked_at = leader.grant().asked_at();
    assert!(leader.grant().repeated);
    assert!(granted < asked_at && asked_at <= confirmed, "counted from the renewal that confirmed it");
    assert!(leader.deadline() <= confirmed + Margins::STANDARD.usable(Span::secs(600)));
    assert!(leader.ensure(Duration::ZERO));
}

/// It is heard of only after its own deadline: it is given back, and the campaign goes on.
#[tokio::test]
async fn a_grant_that_is_heard_of_too_late_is_not_used() {
    let (store, faulty) = stores();
    let coordinator = client(&faulty);
    let campaigning = tokio::spawn({
        let coordinator = coordinator.clone();
        async move { lead(&coordinator, bid("a", 1_000)).await }
    });
    crate::support::until(&store, async || {
        let granted = client(&store).view(&election()).await.unwrap().leader().is_some();
        if granted {
            faulty.silence(true);
        }
        granted
    })
    .await;
    let too_late = faulty.applied().last().map_or(boot::now(), |sent| *sent) + Span::millis(1_000);
    boot::sleep_until(too_late).await.unwrap();
    faulty.silence(false);
    let leader = in_time(campaigning).await.unwrap();
    assert!(leader.ensure(Duration::ZERO) || *leader.status().borrow() != Status::Safe);
    let last = *faulty.applied().last().unwrap();
    assert!(leader.deadline() <= last + Margins::STANDARD.usable(Span::secs(1)));
}

/// Each of the next so many swaps is applied only when whoever sent it can use it no longer.
async fn too_late(faulty: &Faulty, swaps: usize, ttl: Span) {
    for _ in 0..swaps {
        faulty.plan(is_election, &[Fault::Late]);
        faulty.silence(false);
        in_time(async {
            while !faulty.is_over() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        boot::sleep(Margins::STANDARD.usable(ttl)).await.unwrap();
    }
    faulty.silence(false);
}

/// A store that was slow once: nobody else has taken the lease, and a renewal makes it usable. The others need not race for it again.
#[tokio::test]
async fn a_grant_that_is_answered_too_late_is_confirmed_by_a_renewal() {
    let (store, faulty) = stores();
    let coordinator = client(&faulty);
    let leading = async { lead(&coordinator, bid("a", 5_000)).await };
    let ((), leader) = tokio::join!(too_late(&faulty, 1, Span::secs(5)), leading);
    assert_eq!(leader.token().0, 1, "the same grant");
    assert_eq!(changes_of_leader(&client(&store)).await.len(), 1);
    let (granted, confirmed) = (faulty.applied()[0], faulty.applied()[1]);
    let asked_at = leader.grant().asked_at();
    assert!(granted < asked_at && asked_at <= confirmed, "counted from the renewal that confirmed it");
}

/// A store that is too slow for the lease: whoever cannot use it gives it back and asks anew, and leads on nothing that is over.
#[tokio::test]
async fn a_grant_whose_confirmation_is_answered_too_late_is_given_back() {
    let (store, faulty) = stores();
    let coordinator = client(&faulty);
    let leading = async { lead(&coordinator, bid("a", 5_000)).await };
    let ((), leader) = tokio::join!(too_late(&faulty, 2, Span::secs(5)), leading);
    assert_eq!(leader.token().0, 2, "another grant");
    let changes = changes_of_leader(&client(&store)).await;
    assert_eq!(changes.last().unwrap().1, "release to a");
}

#[tokio::test]
async fn renewals_whose_replies_are_lost_are_made_up_for() {
    let (store, faulty) = stores();
    let leader = lead(&client(&faulty), bid("a", 9_000)).await;
    let usable = Margins::STANDARD.usable(Span::millis(9_000));
    let mut validity = leader.validity();
    for faults in [[Fault::After, Fault::After], [Fault::Before, Fault::After], [Fault::After, Fault::Before]]
    {
        faulty.plan(is_election, &faults);
        leader.serving();
        in_time(validity.changed()).await.unwrap();
        let deadline = validity.borrow_and_update().deadline;
        assert!(faulty.is_over());
        assert!(deadline <= *faulty.applied().last().unwrap() + usable);
        assert!(leader.ensure(Duration::ZERO));
    }
    assert_eq!(leader.token().0, 1);
    assert_eq!(changes_of_leader(&client(&store)).await.len(), 1);
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_is_one_release() {
    let (store, faulty) = stores();
    for round in 1..=3 {
        let leader = lead(&client(&faulty), bid("a", 600_000)).await;
        assert_eq!(leader.token().0, round);
        faulty.plan(is_election, &[Fault::After]);
        leader.release("done").await.unwrap();
        assert!(faulty.is_over());
        assert_eq!(document(&client(&store)).await.epoch.0, round);
    }
    let history = changes_of_leader(&client(&store)).await;
    let expected = ["first to a", "release to a", "release to a"];
    assert!(history.iter().map(|(_, what)| what.as_str()).eq(expected), "{history:?}");
}

#[tokio::test]
async fn a_pass_whose_reply_is_lost_is_one_pass() {
    let (store, faulty) = stores();
    let leader = lead(&client(&faulty), bid("a", 600_000)).await;
    faulty.plan(is_election, &[Fault::After, Fault::Before]);
    let passed = leader.pass(&agent("b"), "").await.unwrap().unwrap();
    assert_eq!(passed.reserved_for.unwrap().agent, agent("b"));
    let next = lead(&client(&store), bid("b", 600_000)).await;
    assert_eq!(next.token().0, 2);
    assert_eq!(changes_of_leader(&client(&store)).await[1].1, "pass to b");
}

#[tokio::test]
async fn a_checkpoint_whose_reply_is_lost_is_one_checkpoint() {
    let (store, faulty) = stores();
    let leader = lead(&client(&faulty), bid("a", 600_000)).await;
    for round in 1..=4 {
        let fault = if round % 2 == 0 { Fault::Before } else { Fault::After };
        faulty.plan(is_election, &[fault]);
        let summary = format!("round {round}");
        let content = CheckpointContent { summary, state: "[]".to_string(), reference: None, covers: None };
        let answer = leader.checkpoint(&content).await.unwrap();
        assert!(matches!(answer, Answer::Checkpointed { seq, .. } if seq == round), "{answer:?}");
        assert_eq!(document(&client(&store)).await.checkpoint.unwrap().seq, round);
    }
    faulty.plan(is_election, &[Fault::After]);
    leader.release("").await.unwrap();
    let next = lead(&client(&faulty), bid("b", 600_000)).await;
    let left = next.inherited().unwrap().clone();
    faulty.plan(is_election, &[Fault::After]);
    let answer = next.acknowledge(&left).await.unwrap();
    assert!(matches!(answer, Answer::Acknowledged { seq: 4 }), "{answer:?}");
}

#[tokio::test]
async fn a_store_that_fails_for_longer_than_one_is_patient_says_so() {
    let (_, faulty) = stores();
    let coordinator: Coordinator = client(&faulty).patient(impatient());
    faulty.partition(true);
    let credential = baton::mint_credential().unwrap();
    let error =
        coordinator.acquire(&election(), &bid("a", 30_000), credential, None, None).await.unwrap_err();
    assert_eq!(error.code(), "unavailable");
    let campaign = Campaign { bid: bid("a", 30_000), wait: Some(Span::millis(100)) };
    let error = coordinator.campaign(&election(), campaign).await.err().unwrap();
    assert_eq!(error.code(), "unavailable", "nobody held it, as far as anybody knows: {error}");
    faulty.partition(false);
    assert_eq!(lead(&coordinator, bid("a", 30_000)).await.token().0, 1);
}
