//! Regions in one process: who loses its region loses the fleet, and not a moment after its region's own deadline.

use std::sync::Arc;
use std::time::Duration;

use baton::election::operator::Act;
use baton::election::{ElectionName, Policy, Span};
use baton::store::{MemoryStore, Store};
use baton::{Bid, Campaign, Coordinator, Error, Leadership, Region};

use crate::support::faulty::Faulty;
use crate::support::{bid, client, client_of, depose, in_time, on_each_store, operator};

fn name(text: &str) -> ElectionName {
    text.parse().unwrap()
}

async fn led(coordinator: &Coordinator, of: &str, bid: Bid) -> Leadership {
    in_time(coordinator.campaign(&name(of), Campaign::new(bid))).await.unwrap()
}

fn under(region: &Leadership, bid: Bid) -> Bid {
    Bid { region: Some(Region::of(region)), ..bid }
}

async fn only_regions(coordinator: &Coordinator, of: &str) {
    coordinator.operators().enrol(&operator()).await.unwrap();
    let policy = Policy { regions: true, ..Policy::default() };
    coordinator.operate(&name(of), &operator(), &Act::SetPolicy { policy }).await.unwrap();
}

#[tokio::test]
async fn who_loses_its_region_loses_the_fleet() {
    on_each_store(|store: Arc<dyn Store>| async move {
        let (a, b, person) = (client_of(&store), client_of(&store), client_of(&store));
        only_regions(&person, "fleet").await;
        let stranger = Campaign { wait: Some(Span::ZERO), ..Campaign::new(bid("a", 9_000)) };
        let refused = a.campaign(&name("fleet"), stranger).await;
        assert!(
            matches!(refused, Err(Error::WaitedLongEnough { why, .. }) if why.contains("leads a region"))
        );
        let eu = led(&a, "fleet/eu", bid("a", 9_000)).await;
        let us = led(&b, "fleet/us", bid("b", 9_000)).await;
        let first = led(&a, "fleet", under(&eu, bid("a", 9_000))).await;
        assert!(first.ensure(Duration::ZERO));
        let region =
            person.view(&name("fleet")).await.unwrap().document.unwrap().leader.unwrap().region.unwrap();
        assert_eq!((region.election.as_str(), region.epoch), ("fleet/eu", eu.token()));
        let (other, bid) = (b.clone(), under(&us, bid("b", 9_000)));
        let waiting = tokio::spawn(async move { led(&other, "fleet", bid).await });
        person.operate(&name("fleet/eu"), &operator(), &depose("it repeats itself")).await.unwrap();
        let why = in_time(first.lost()).await;
        assert!(why.contains("fleet/eu"), "{why}");
        assert!(!first.ensure(Duration::ZERO));
        let next = in_time(waiting).await.unwrap();
        assert!(next.token() > first.token());
        assert!(b.check(&name("fleet"), next.token()).await.is_ok());
        let stale = b.check(&name("fleet"), first.token()).await;
        assert!(matches!(stale, Err(Error::Refused(baton::election::Refusal::Stale { .. }))), "{stale:?}");
    })
    .await;
}

/// The fleet's lease is long and its store answers; the region's is short, in a store that does not.
#[tokio::test]
async fn a_region_out_of_reach_takes_the_fleet_with_it_in_time() {
    let near = Faulty::over(MemoryStore::default());
    let far = MemoryStore::default();
    let (regional, global) = (client(&near), client(&far));
    only_regions(&global, "fleet").await;
    let eu = led(&regional, "fleet/eu", bid("a", 6_000)).await;
    let fleet = led(&global, "fleet", under(&eu, bid("a", 600_000))).await;
    assert!(fleet.deadline() <= eu.deadline(), "the earlier of both");
    assert!(!fleet.ensure(Duration::from_secs(7)));
    let mut validity = fleet.validity();
    in_time(validity.changed()).await.unwrap();
    assert!(fleet.ensure(Duration::ZERO), "it lasts as the region is renewed");
    near.partition(true);
    let why = in_time(fleet.lost()).await;
    assert!(why.contains("fleet/eu"), "{why}");
    assert!(!fleet.ensure(Duration::ZERO));
    near.partition(false);
    let document = global.view(&name("fleet")).await.unwrap().document.unwrap();
    assert_ne!(
        document.leader.unwrap().region.unwrap().store,
        document.store,
        "it is told that it is elsewhere"
    );
}

/// What cannot be reached is only the fleet: the region goes on.
#[tokio::test]
async fn a_fleet_out_of_reach_leaves_the_region_alone() {
    let near = MemoryStore::default();
    let far = Faulty::over(MemoryStore::default());
    let (regional, global) = (client(&near), client(&far));
    let eu = led(&regional, "fleet/eu", bid("a", 12_000)).await;
    let fleet = led(&global, "fleet", under(&eu, bid("a", 4_000))).await;
    far.partition(true);
    let why = in_time(fleet.lost()).await;
    assert!(why.contains("partitioned"), "{why}");
    assert!(eu.ensure(Duration::ZERO));
}

#[tokio::test]
async fn a_region_that_is_given_back_first_ends_the_fleet_too() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    let eu = led(&coordinator, "fleet/eu", bid("a", 600_000)).await;
    let fleet = led(&coordinator, "fleet", under(&eu, bid("a", 600_000))).await;
    let region = Region::of(&eu);
    eu.release("").await.unwrap();
    in_time(fleet.lost()).await;
    // Nobody waits in line for what it may not lead.
    let late = Campaign::new(Bid { region: Some(region), ..bid("a", 1_000) });
    let late = in_time(coordinator.campaign(&name("fleet"), late)).await;
    assert!(matches!(late, Err(Error::Lost(_))));
}

#[tokio::test]
async fn three_levels_fall_together() {
    let store = MemoryStore::default();
    let (coordinator, person) = (client(&store), client(&store));
    only_regions(&person, "fleet").await;
    only_regions(&person, "fleet/eu").await;
    let paris = led(&coordinator, "fleet/eu/paris", bid("a", 9_000)).await;
    let eu = led(&coordinator, "fleet/eu", under(&paris, bid("a", 9_000))).await;
    let fleet = led(&coordinator, "fleet", under(&eu, bid("a", 9_000))).await;
    assert!(fleet.deadline() <= paris.deadline());
    person.operate(&name("fleet/eu/paris"), &operator(), &depose("")).await.unwrap();
    in_time(fleet.lost()).await;
    in_time(eu.lost()).await;
    assert!(!fleet.ensure(Duration::ZERO) && !eu.ensure(Duration::ZERO) && !paris.ensure(Duration::ZERO));
}
