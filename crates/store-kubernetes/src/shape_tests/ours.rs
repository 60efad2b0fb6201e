//! What Baton wrote itself.

use super::*;

#[test]
fn every_state_survives_and_native_fields_say_the_same() {
    let vacant = document(101);
    let held = led(101);
    let awaiting = Document {
        state: State::AwaitingApproval,
        approval: Approval { used: Span::ZERO, question: Some(Question::MoreTime) },
        ..led(101)
    };
    let pause =
        Pause { by: PublicKey([9; 32]), reason: "night".into(), at: WallTime::default(), halted: false };
    let paused = Document { state: State::Paused, paused: Some(pause), ..document(101) };
    let ending = Document { outgoing: Some(leader("agent-a", 100)), ..document(101) };
    for (next, holder) in [
        (vacant, ""),
        (held, "agent-a_0101010101010101"),
        (awaiting, "agent-a_0101010101010101"),
        (paused, "baton/paused"),
        (ending, "baton/ending"),
    ] {
        let (lease, version) = put(None, &next, AgeStamp::Reset, 900);
        assert_eq!(seen(&lease), (next, version));
        assert_eq!(version, LeaseVersion { resource: 900, base: 101, foreign: false });
        let spec = lease.spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some(holder));
        assert_eq!(spec.lease_transitions, Some(0));
        assert!(spec.renew_time.is_some() && spec.acquire_time.is_some());
        assert_eq!(lease.metadata.annotations.unwrap()[TOKEN], "101");
    }
}

#[test]
fn a_release_looks_as_client_go_s_does() {
    let (lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    let (lease, _) = put(Some(&lease), &Document { beat: 18, ..document(101) }, AgeStamp::Reset, 901);
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(1), Some(0)));
    assert_eq!(spec.acquire_time, spec.renew_time);
}

#[test]
fn transitions_follow_the_epoch_whatever_raises_it() {
    let (lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    let deposed = Document { outgoing: Some(leader("agent-a", 101)), ..document(102) };
    let (lease, version) = put(Some(&lease), &deposed, AgeStamp::Preserve, 901);
    assert_eq!(lease.spec.as_ref().unwrap().lease_transitions, Some(1));
    assert_eq!(version.base, 101);
    assert_eq!(seen(&lease).0, deposed);
    let (lease, _) = put(Some(&lease), &led(103), AgeStamp::Reset, 902);
    assert_eq!(lease.spec.as_ref().unwrap().lease_transitions, Some(2));
}

#[test]
fn only_a_restart_touches_the_time_that_client_go_watches() {
    let (first, _) = put(None, &led(101), AgeStamp::Reset, 900);
    let noted = Document { task: Some(Arc::from("else")), ..led(101) };
    let (kept, _) = put(Some(&first), &noted, AgeStamp::Preserve, 901);
    assert_eq!(kept.spec, first.spec);
    std::thread::sleep(std::time::Duration::from_millis(2));
    let (restarted, _) = put(Some(&kept), &Document { beat: 18, ..noted }, AgeStamp::Reset, 902);
    let (before, after) = (kept.spec.unwrap(), restarted.spec.unwrap());
    assert!(after.renew_time > before.renew_time);
    assert_eq!(after.acquire_time, before.acquire_time);
}

#[test]
fn transitions_that_do_not_fit_are_counted_anew() {
    let at = |base| Some(LeaseVersion { resource: 1, base, foreign: false });
    let far = led(101 + i32::MAX as u64 + 1);
    let (patch, base) = write(&far, at(101), AgeStamp::Reset, &Stamps::begin(), "c", "here").unwrap();
    assert_eq!(patch["spec"]["leaseTransitions"], 0);
    assert_eq!(base.at(2).base, far.epoch.0);
    let back = write(&led(100), at(101), AgeStamp::Reset, &Stamps::begin(), "c", "here").unwrap_err();
    assert!(matches!(back, StoreError::Refused { .. }), "{back:?}");
}

#[test]
fn what_others_put_on_the_lease_is_not_in_the_patch() {
    let (patch, _) = write(&led(101), None, AgeStamp::Reset, &Stamps::begin(), "c", "here").unwrap();
    let fields: Vec<_> = patch["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["annotations", "labels"]);
    assert_eq!(patch["metadata"]["labels"], json!({ KIND: "election" }));
    assert!(
        patch["metadata"]["annotations"].as_object().unwrap().keys().all(|key| key.starts_with("baton.dev/"))
    );
}
