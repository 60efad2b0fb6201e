//! What a crash may take back of a leadership.

use baton_election::command::{Acquire, Renew};
use baton_election::policy::Limits;
use baton_election::{Command, Decision, Document, Epoch, Evidence, Persistence, Span, WallTime, decide};

use crate::cast::{self, agent, credential, election};

fn decided(document: Option<&Document>, command: &Command) -> Decision {
    let election = election();
    let evidence = Evidence {
        election: &election,
        store: cast::STORE,
        age: Span::secs(1),
        wall: WallTime::from_unix_millis(cast::DAWN_MS),
        floor: Epoch(0),
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    };
    decide(document, command, &evidence).expect("nobody refuses it")
}

fn granted(limits: Limits, offer: bool) -> Decision {
    let mine = credential("a", 1);
    let acquire = Acquire { limits, offer, ..Acquire::new(agent("a"), mine.incarnation, mine.key.hash()) };
    decided(None, &Command::Acquire(acquire))
}

fn led(limits: Limits, offer: bool) -> Document {
    granted(limits, offer).next.expect("a grant is written")
}

fn renewal() -> Renew {
    Renew::new(Epoch(1), credential("a", 1))
}

#[test]
fn a_plain_renewal_is_volatile() {
    for offer in [false, true] {
        let document = led(Limits::default(), offer);
        let decision = decided(Some(&document), &Command::Renew(renewal()));
        assert_ne!(Some(&document), decision.next.as_ref());
        assert_eq!(decision.persistence, Persistence::Volatile, "offered: {offer}");
    }
}

#[test]
fn a_renewal_that_counts_or_tells_something_is_not() {
    for offer in [false, true] {
        let counted = led(Limits { renewals: Some(9), ..Limits::default() }, offer);
        let decision = decided(Some(&counted), &Command::Renew(renewal()));
        assert_eq!(decision.persistence, Persistence::Synced, "offered: {offer}");
    }
    let plain = led(Limits::default(), false);
    let spent = Renew { spent_tokens: Some(5), ..renewal() };
    assert_eq!(decided(Some(&plain), &Command::Renew(spent)).persistence, Persistence::Synced);
}

#[test]
fn a_first_grant_is_durable() {
    assert_eq!(granted(Limits::default(), false).persistence, Persistence::Durable);
}
