//! Leases on which no Baton has written.

use super::*;

fn lease(resource: u64) -> Lease {
    let mut lease = Lease::default();
    spec(&mut lease).lease_transitions = Some(6);
    take(&mut lease, "host-1", 1_800_000_000);
    lease.metadata.resource_version = Some(resource.to_string());
    lease
}

#[test]
fn the_token_is_the_resource_version_and_the_clock_is_told_by_renewals() {
    let first = seen(&lease(4_000));
    assert_eq!(first.1, LeaseVersion { resource: 4_000, base: 3_993, foreign: true });
    assert_eq!((first.0.state, first.0.epoch), (State::Held, Epoch(4_000)));
    assert_eq!(first.0.contradiction(), None);
    assert_eq!((first.0.store, first.0.operator_keys.to_vec()), (info().id, info().operator_keys));
    let labelled = seen(&lease(4_010)).0;
    assert_eq!(labelled.epoch, Epoch(4_010));
    assert_eq!(labelled.pulse(), first.0.pulse());
    let mut renewed = lease(4_010);
    renew(&mut renewed, 1_800_000_002);
    assert_ne!(seen(&renewed).0.pulse(), first.0.pulse());
}

#[test]
fn baton_s_first_write_fixes_the_base_and_goes_on_counting() {
    let before = lease(4_000);
    let (after, version) = put(Some(&before), &led(4_001), AgeStamp::Reset, 4_005);
    assert_eq!(after.spec.as_ref().unwrap().lease_transitions, Some(8));
    assert_eq!(seen(&after), (led(4_001), version));
    let mut after = after;
    take(&mut after, "host-2", 1_800_000_100);
    assert_eq!(seen(&after).0.epoch, Epoch(4_002));
}

#[test]
fn an_act_under_its_holder_fixes_the_base_too() {
    let before = lease(4_000);
    let next = Document { acts: 1, ..seen(&before).0 };
    let (after, version) = put(Some(&before), &next, AgeStamp::Preserve, 4_005);
    assert_eq!(after.spec, before.spec);
    assert_eq!(seen(&after), (next.clone(), version));
    let mut after = after;
    renew(&mut after, 1_800_000_002);
    assert_eq!(seen(&after).0.epoch, next.epoch, "it no longer rises with renewals");
}

#[test]
fn a_released_and_an_empty_one_are_vacant() {
    let mut released = lease(4_000);
    release(&mut released, 1_800_000_003);
    let document = seen(&released).0;
    assert_eq!((document.state, document.epoch), (State::Vacant, Epoch(4_001)));
    assert_eq!(document.departure.unwrap().agent.as_str(), "foreign");
    let mut empty = Lease::default();
    empty.metadata.resource_version = Some("12".into());
    let document = seen(&empty).0;
    assert_eq!((document.state, document.epoch, document.departure), (State::Vacant, Epoch(12), None));
}

#[test]
fn more_transitions_than_writes_are_bearable() {
    let mut odd = lease(3);
    spec(&mut odd).lease_transitions = Some(i32::MAX);
    assert_eq!(seen(&odd).0.epoch, Epoch(i32::MAX as u64));
}
