//! What Baton writes while another client holds the Lease.

use super::*;

fn taken() -> Lease {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    take(&mut lease, "host-1", 1_800_000_000);
    lease
}

/// An operator's act that leaves the leader alone.
fn noted(document: Document) -> Document {
    Document { policy: Arc::new(Policy { ttl: Span::secs(77), ..Policy::default() }), acts: 1, ..document }
}

#[test]
fn an_act_that_leaves_the_holder_alone_leaves_the_spec_alone() {
    let before = taken();
    let next = noted(seen(&before).0);
    let (after, version) = put(Some(&before), &next, AgeStamp::Preserve, 950);
    assert_eq!(after.spec, before.spec);
    assert_eq!(seen(&after), (next.clone(), version), "it is read as it was written");
    let annotations = after.metadata.annotations.clone().unwrap();
    assert!(!annotations.contains_key(HOLDER) && !annotations.contains_key(TRANSITIONS));
    let mut after = after;
    renew(&mut after, 1_800_000_002);
    let renewed = seen(&after).0;
    assert_ne!(renewed.pulse(), next.pulse(), "its renewals are still beats");
    assert_eq!((renewed.epoch, renewed.acts), (next.epoch, 1));
    release(&mut after, 1_800_000_003);
    let freed = seen(&after).0;
    assert_eq!((freed.state, freed.epoch, freed.acts), (State::Vacant, next.epoch.next(), 1));
    assert_eq!(freed.departure.unwrap().agent.as_str(), "host-1");
}

#[test]
fn the_next_one_after_such_an_act_has_a_higher_token() {
    let before = taken();
    let (mut lease, _) = put(Some(&before), &noted(seen(&before).0), AgeStamp::Preserve, 950);
    take(&mut lease, "host-2", 1_800_000_100);
    let next = seen(&lease).0;
    assert_eq!(next.epoch, Epoch(103));
    let last = next.last_transition.unwrap();
    assert_eq!((last.from.as_ref().unwrap().as_str(), last.to.as_str()), ("host-1", "host-2"));
    let (mut rude, _) = put(Some(&before), &noted(seen(&before).0), AgeStamp::Preserve, 950);
    spec(&mut rude).holder_identity = Some("rude".into());
    assert_eq!(seen(&rude).0.epoch, Epoch(103));
}

#[test]
fn a_deposition_takes_the_lease_from_them_and_keeps_their_clock() {
    let before = taken();
    let held = seen(&before).0;
    let deposed = Document {
        epoch: Epoch(103),
        state: State::Vacant,
        leader: None,
        outgoing: held.leader.clone(),
        ..held.clone()
    };
    let (lease, version) = put(Some(&before), &deposed, AgeStamp::Preserve, 950);
    let spec = lease.spec.as_ref().unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("baton/ending"));
    assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(2), Some(16)));
    assert_eq!(seen(&lease), (deposed.clone(), version));
    assert_eq!(deposed.pulse(), held.pulse(), "those who wait go on counting");
}

#[test]
fn a_key_of_zeros_does_not_make_a_foreigner() {
    let mut odd = led(101);
    odd.leader.as_mut().unwrap().key_hash = crate::hold::FOREIGN_KEY;
    let (lease, _) = put(None, &odd, AgeStamp::Reset, 900);
    let (lease, version) = put(Some(&lease), &Document { beat: 18, ..odd.clone() }, AgeStamp::Reset, 901);
    assert_eq!(seen(&lease), (Document { beat: 18, ..odd }, version));
}

#[test]
fn an_act_in_their_vacancy_is_read_as_it_was_written() {
    let mut before = taken();
    release(&mut before, 1_800_000_009);
    let next = noted(seen(&before).0);
    let (after, version) = put(Some(&before), &next, AgeStamp::Preserve, 950);
    assert_eq!(seen(&after), (next, version));
    assert!(!version.foreign);
}
