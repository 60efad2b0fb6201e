//! What another client has changed since.

use super::*;

#[test]
fn a_take_over_by_client_go_is_a_leader_with_the_next_token() {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    take(&mut lease, "host-1", 1_800_000_000);
    let (document, version) = seen(&lease);
    assert_eq!(version, LeaseVersion { resource: 901, base: 101, foreign: true });
    assert_eq!((document.state, document.epoch), (State::Held, Epoch(102)));
    assert_eq!(document.contradiction(), None);
    let leader = document.leader.as_ref().unwrap();
    assert_eq!((leader.agent.as_str(), leader.ttl), ("host-1", Span::secs(15)));
    assert!(is_foreign(leader) && leader.incarnation != Incarnation([1; 8]));
    let last = document.last_transition.as_ref().unwrap();
    assert_eq!((last.epoch, last.cause), (Epoch(102), Cause::Failover));
    assert_eq!((last.from.as_ref().unwrap().as_str(), last.to.as_str()), ("agent-a", "host-1"));
    assert_eq!(document.operator_keys, led(101).operator_keys);
    assert_eq!(document.store, led(101).store);
}

#[test]
fn each_renewal_of_theirs_is_a_beat_and_nothing_else_is() {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    take(&mut lease, "host-1", 1_800_000_000);
    let first = seen(&lease).0;
    lease.metadata.labels.get_or_insert_default().insert("a".into(), "b".into());
    lease.metadata.resource_version = Some("950".into());
    assert_eq!(seen(&lease).0.pulse(), first.pulse());
    renew(&mut lease, 1_799_996_400);
    let back = seen(&lease).0;
    assert_ne!(back.pulse(), first.pulse(), "a wall clock that was set back is a beat as well");
    assert_eq!(back.epoch, first.epoch);
}

#[test]
fn their_release_is_a_vacancy_with_their_token() {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    take(&mut lease, "host-1", 1_800_000_000);
    release(&mut lease, 1_800_000_009);
    let (document, version) = seen(&lease);
    assert!(version.foreign);
    assert_eq!((document.state, document.epoch), (State::Vacant, Epoch(102)));
    assert_eq!(document.contradiction(), None);
    assert_eq!(
        document.departure.as_ref().map(|d| (d.cause, d.agent.as_str())),
        Some((Cause::Release, "foreign"))
    );
    take(&mut lease, "host-2", 1_800_000_020);
    assert_eq!(seen(&lease).0.epoch, Epoch(103));
}

#[test]
fn baton_goes_on_above_them_and_they_above_baton() {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    take(&mut lease, "host-1", 1_800_000_000);
    let (lease, version) = put(Some(&lease), &led(103), AgeStamp::Reset, 950);
    assert_eq!(lease.spec.as_ref().unwrap().lease_transitions, Some(2));
    assert_eq!(seen(&lease), (led(103), version));
    let mut lease = lease;
    take(&mut lease, "host-1", 1_800_000_100);
    assert_eq!(seen(&lease).0.epoch, Epoch(104));
}

#[test]
fn a_holder_that_does_not_count_still_gets_a_higher_token() {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    spec(&mut lease).holder_identity = Some("rude".into());
    assert_eq!(seen(&lease).0.epoch, Epoch(102));
    spec(&mut lease).lease_transitions = Some(0);
    spec(&mut lease).holder_identity = Some("ruder".into());
    assert_eq!(seen(&lease).0.epoch, Epoch(102));
    let (lease, _) = put(Some(&lease), &led(103), AgeStamp::Reset, 950);
    assert_eq!(seen(&lease).0, led(103));
}

#[test]
fn a_lease_that_was_freed_by_hand_is_vacant_and_its_leader_is_gone() {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    spec(&mut lease).holder_identity = None;
    let document = seen(&lease).0;
    assert_eq!((document.state, document.epoch), (State::Vacant, Epoch(102)));
    let departure = document.departure.as_ref().unwrap();
    assert_eq!((departure.agent.as_str(), departure.incarnation), ("agent-a", Incarnation([1; 8])));
    let kept = Departure { agent: AgentName::new("b").unwrap(), ..(**departure).clone() };
    let pause =
        Pause { by: PublicKey([9; 32]), reason: "night".into(), at: WallTime::default(), halted: false };
    let paused = Document {
        state: State::Paused,
        paused: Some(pause),
        departure: Some(Arc::new(kept)),
        ..super::document(101)
    };
    let (mut lease, _) = put(None, &paused, AgeStamp::Reset, 900);
    spec(&mut lease).holder_identity = Some(String::new());
    let document = seen(&lease).0;
    assert_eq!((document.state, document.paused), (State::Vacant, None));
    assert_eq!(document.departure.as_ref().unwrap().agent.as_str(), "b");
}

#[test]
fn what_only_baton_knows_is_carried_over_and_what_has_ended_is_not() {
    let policy = Arc::new(Policy { ttl: Span::secs(77), ..Policy::default() });
    let kept = Reservation { agent: AgentName::new("b").unwrap(), lasts: None, by_operator: true };
    let before = Document {
        policy: policy.clone(),
        reserved_for: Some(kept),
        passed_over: Some(AgentName::new("c").unwrap()),
        task: Some(Arc::from("task")),
        acts: 3,
        ..document(101)
    };
    let (mut lease, _) = put(None, &before, AgeStamp::Reset, 900);
    take(&mut lease, "host-1", 1_800_000_000);
    let after = seen(&lease).0;
    assert_eq!((after.policy.clone(), after.acts, after.task.clone()), (policy, 3, before.task.clone()));
    assert_eq!((after.reserved_for.clone(), after.passed_over.clone()), (None, None));
    assert_eq!(after.last_transition.as_ref().unwrap().cause, Cause::First);
}

#[test]
fn identities_that_are_no_names_are_hashed_and_told_apart() {
    let long = "x".repeat(80);
    let agents: Vec<String> = ["Host_1", "a/b", long.as_str(), "ünï"]
        .iter()
        .map(|identity| {
            let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
            take(&mut lease, identity, 1_800_000_000);
            seen(&lease).0.leader.unwrap().agent.to_string()
        })
        .collect();
    assert!(agents.iter().all(|agent| agent.starts_with("foreign-") && agent.len() == 24), "{agents:?}");
    assert!(agents.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn a_holder_without_times_or_duration_is_bearable() {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    *spec(&mut lease) = LeaseSpec { holder_identity: Some("odd".into()), ..LeaseSpec::default() };
    let document = seen(&lease).0;
    let leader = document.leader.unwrap();
    assert_eq!((leader.ttl, leader.acquired, document.beat), (Span::secs(15), WallTime::default(), 0));
    assert_eq!(document.epoch, Epoch(102));
}

#[test]
fn tokens_never_go_back_among_holders_that_do_not_count() {
    for before in [led(101), document(101)] {
        let (mut lease, _) = put(None, &before, AgeStamp::Reset, 900);
        let mut last = seen(&lease).0.epoch;
        for (second, holder) in (0..).zip(["rude", "ruder", "", "rude", "", ""]) {
            spec(&mut lease).holder_identity = Some(holder.to_string());
            renew(&mut lease, 1_800_000_000 + second);
            let next = seen(&lease).0;
            assert!(next.epoch >= last && next.epoch > Epoch(101), "{holder}");
            assert_eq!(next.contradiction(), None);
            last = next.epoch;
        }
        assert!(seen(&lease).0.departure.is_some());
    }
}
