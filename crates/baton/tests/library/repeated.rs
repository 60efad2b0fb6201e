//! A grant that turns up after its caller gave up or was refused is older than the request that finds it. Its holder counts
//! from a renewal, so that it is never sure to lead beside a successor.

use baton::election::store_order::StoreChange;
use baton::election::store_quorum::OrderOutcome;
use baton::election::{Margins, Span};
use baton::store::{MemoryStore, boot};
use baton::{Coordinator, Leadership, Patience};

use crate::support::faulty::{Fault, Faulty, is_election};
use crate::support::{bid, campaign, client, election, in_time, operator, until};

/// Long enough that a slow machine does not end it.
const TTL: Span = Span::secs(600);

/// Whether a leader may be sure beside its successor: the store lets that in one lease after the last change that it applied.
fn outlives_its_lease(leader: &Leadership, faulty: &Faulty) -> bool {
    let last = faulty.applied().last().copied().unwrap();
    leader.deadline() > last + Margins::STANDARD.usable(TTL)
}

async fn order(coordinator: &Coordinator, pause: Option<&str>) {
    let info = coordinator.info().await.unwrap();
    let change = match pause {
        Some(reason) => StoreChange::Pause { reason: reason.to_string() },
        None => StoreChange::Resume,
    };
    let order = operator().sign_store(&info, change, boot::wall());
    assert_eq!(coordinator.orders().submit(&order, None).await.unwrap(), OrderOutcome::Done);
}

/// The obvious loop of a program: `acquire` until it is answered, with one credential.
#[tokio::test]
async fn a_second_call_does_not_count_the_lease_of_the_first_from_its_own_asking() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let once = Patience { retries: Some(0), ..Patience::default() };
    let (hasty, bid) = (client(&faulty).patient(once), bid("a", TTL.as_millis()));
    let credential = baton::mint_credential().unwrap();
    faulty.plan(is_election, &[Fault::After]);
    let lost = hasty.acquire(&election(), &bid, credential, None, None).await.unwrap_err();
    assert_eq!(lost.code(), "unknown");
    let granted = faulty.applied()[0];

    let grant = hasty.acquire(&election(), &bid, credential, None, None).await.unwrap();
    assert!(grant.repeated && grant.epoch.0 == 1);
    let (asked_at, renewed) = (grant.asked_at(), faulty.applied().last().copied().unwrap());
    let leader = hasty.lead(&election(), &bid, grant).unwrap();
    assert!(!outlives_its_lease(&leader, &faulty), "counted from a request that began no lease");
    assert!(granted < asked_at && asked_at <= renewed, "counted from before the renewal was sent");
}

/// A confirmation that fails leaves no grant, and the next call finds the same one.
#[tokio::test]
async fn a_repeated_grant_that_cannot_be_confirmed_is_none() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let once = Patience { retries: Some(0), ..Patience::default() };
    let (hasty, bid) = (client(&faulty).patient(once), bid("a", 600_000));
    let credential = baton::mint_credential().unwrap();
    faulty.plan(is_election, &[Fault::After, Fault::Before, Fault::After]);
    for code in ["unknown", "unavailable", "unknown"] {
        let error = hasty.acquire(&election(), &bid, credential, None, None).await.unwrap_err();
        assert_eq!(error.code(), code);
    }
    let grant = hasty.acquire(&election(), &bid, credential, None, None).await.unwrap();
    assert!(grant.repeated && grant.epoch.0 == 1);
}

/// A campaign is granted the lease, does not hear of it, and asks anew while everything is paused. Its own lease is found, not a new
/// one, so the pause does not refuse it.
#[tokio::test]
async fn a_campaign_that_asks_anew_under_a_pause_counts_its_old_lease_from_a_renewal() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let person = client(&store);
    person.operators().enrol(&operator()).await.unwrap();
    faulty.plan(is_election, &[Fault::Cut]);
    // The request ends with the lost answer; what comes next is another one.
    let once = Patience { retries: Some(0), ..Patience::default() };
    let waiting = campaign(&client(&faulty).patient(once), bid("a", TTL.as_millis()));
    until(&store, async || person.view(&election()).await.unwrap().leader().is_some()).await;
    // Nothing but the store is paused: this election began while the order was under way.
    order(&client(&store), Some("everybody stops")).await;
    let healed = boot::now();
    faulty.partition(false);

    let leader = in_time(waiting).await.unwrap();
    assert!(leader.grant().repeated && leader.token().0 == 1, "the same grant");
    assert!(leader.grant().asked_at() > healed, "counted from what was asked after the answer was lost");
    assert!(!outlives_its_lease(&leader, &faulty), "counted from a request that began no lease");
}
