//! Requests that arrive late, and epochs at the end of their range: data, never a lease unawares and never a panic.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::command::{Acquire, Release, Renew};
use baton_election::lease;
use baton_election::operator::Act;
use baton_election::time::{Span, WallTime};
use baton_election::{Answer, Command, Document, Epoch, Evidence, Refusal, decide};

use crate::cast::{STORE, agent, credential, election, operator};

/// The longest that a lease may last.
const TTL: Span = Span::secs(7 * 24 * 3_600);

fn asks(name: &str, life: u32, seen: Option<Epoch>) -> Acquire {
    let credential = credential(name, life);
    Acquire {
        ttl: Some(TTL),
        seen,
        ..Acquire::new(agent(name), credential.incarnation, credential.key.hash())
    }
}

fn decided(document: &mut Option<Document>, command: &Command, floor: Epoch) -> Result<Answer, Refusal> {
    let (election, keys) = (election(), [operator("root").public()]);
    let evidence = Evidence {
        election: &election,
        store: STORE,
        age: Span::ZERO,
        wall: WallTime::default(),
        floor,
        vanished_lease: Span::ZERO,
        operator_keys: &keys,
    };
    let decision = decide(document.as_ref(), command, &evidence)?;
    *document = decision.next.or(document.take());
    Ok(decision.answer)
}

/// Leads and gives it back.
fn leads_once(document: &mut Option<Document>, acquire: Acquire, name: &str, life: u32) {
    let granted = decided(document, &Command::Acquire(acquire), Epoch(0)).unwrap();
    let Answer::Granted { epoch, offer: false, repeated: false, .. } = granted else { panic!("{granted:?}") };
    let release =
        Release { epoch, credential: credential(name, life), reason: None, ending: Default::default() };
    decided(document, &Command::Release(release), Epoch(0)).unwrap();
}

#[test]
fn a_request_that_is_delivered_again_after_others_led_is_granted_as_an_offer() {
    let mut document = None;
    let first = asks("a", 1, Some(Epoch(0)));
    leads_once(&mut document, first.clone(), "a", 1);
    let again = decided(&mut document, &Command::Acquire(first.clone()), Epoch(0)).unwrap_err();
    assert!(matches!(again, Refusal::Stale { .. }), "the last departure is known: {again:?}");
    leads_once(&mut document, asks("b", 1, Some(Epoch(1))), "b", 1);

    let late = decided(&mut document, &Command::Acquire(first), Epoch(0)).unwrap();
    assert!(matches!(late, Answer::Granted { epoch: Epoch(3), offer: true, .. }), "{late:?}");
    let left = document.as_ref().unwrap().lease_remaining(Span::ZERO);
    assert_eq!(left, lease::offer(TTL), "nobody claims it, and it goes on");
    assert!(left <= Span::secs(5), "{left}");
}

#[test]
fn whoever_is_there_claims_what_it_was_offered_late() {
    let mut document = None;
    leads_once(&mut document, asks("b", 1, Some(Epoch(0))), "b", 1);
    // It had not looked since b led.
    let asked = Command::Acquire(asks("a", 1, Some(Epoch(0))));
    let granted = decided(&mut document, &asked, Epoch(0)).unwrap();
    assert!(matches!(granted, Answer::Granted { epoch: Epoch(2), offer: true, .. }), "{granted:?}");
    let claim = Command::Renew(Renew::new(Epoch(2), credential("a", 1)));
    decided(&mut document, &claim, Epoch(0)).unwrap();
    assert_eq!(document.unwrap().lease_remaining(Span::ZERO), TTL);
}

#[test]
fn a_request_that_tells_of_no_epoch_is_granted_as_it_comes() {
    let mut document = None;
    leads_once(&mut document, asks("b", 1, None), "b", 1);
    leads_once(&mut document, asks("a", 1, None), "a", 1);
    leads_once(&mut document, asks("c", 1, Some(Epoch(2))), "c", 1);
}

#[test]
fn the_last_epoch_is_refused_and_its_holder_may_leave() {
    for floor in [Epoch::LAST, Epoch(u64::MAX - 1)] {
        let mut document = None;
        let asked = Command::Acquire(asks("a", 1, None));
        let granted = decided(&mut document, &asked, floor);
        if floor == Epoch::LAST {
            let refusal = granted.unwrap_err();
            assert!(refusal.to_string().contains("are used up"), "{refusal}");
            continue;
        }
        assert!(matches!(granted, Ok(Answer::Granted { epoch: Epoch::LAST, .. })), "{granted:?}");
        let depose = Act::Depose { force: false, reason: String::new() };
        let deposed = Command::Operate(operator("root").sign(document.as_ref().unwrap(), depose));
        assert!(matches!(decided(&mut document, &deposed, floor), Err(Refusal::Invalid { .. })));
        let renewed = Command::Renew(Renew::new(Epoch::LAST, credential("a", 1)));
        assert!(matches!(decided(&mut document, &renewed, floor), Err(Refusal::Invalid { .. })));
        let release = Release {
            epoch: Epoch::LAST,
            credential: credential("a", 1),
            reason: None,
            ending: Default::default(),
        };
        decided(&mut document, &Command::Release(release), floor).unwrap();
        let next = Command::Acquire(asks("b", 1, None));
        assert!(matches!(decided(&mut document, &next, floor), Err(Refusal::Invalid { .. })));
    }
}
