//! Whatever a decision accepts can be written and read, and is the same then.

use baton_election::command::{Acquire, WriteCheckpoint};
use baton_election::operator::{Act, OperatorKey};
use baton_election::policy::Limits;
use baton_election::{
    Command, Decision, Document, Epoch, Evidence, Policy, Refusal, Span, WallTime, checkpoint_hash, decide,
};

use crate::cast;

fn ask(document: Option<&Document>, command: &Command, wall: WallTime) -> Result<Decision, Refusal> {
    let (election, keys) = (cast::election(), [cast::operator("root").public()]);
    let evidence = Evidence {
        election: &election,
        store: cast::STORE,
        age: Span::ZERO,
        wall,
        floor: Epoch(0),
        vanished_lease: Span::ZERO,
        operator_keys: &keys,
    };
    decide(document, command, &evidence)
}

fn acquire(ttl: Option<Span>, limits: Limits) -> Command {
    let credential = cast::credential("a", 1);
    Command::Acquire(Acquire {
        ttl,
        limits,
        ..Acquire::new(cast::agent("a"), credential.incarnation, credential.key.hash())
    })
}

/// What is accepted is written, read, and the same. What is refused does no harm.
#[track_caller]
fn survives(decided: Result<Decision, Refusal>) -> Option<Document> {
    let next = decided.ok()?.next?;
    let text = serde_json::to_string(&next).expect("it was accepted, so it can be written");
    let read: Document = serde_json::from_str(&text).expect("it was written, so it can be read");
    assert_eq!(read, next, "it was read as it was written");
    Some(read)
}

#[track_caller]
fn checkpoint_survives(state: &str) {
    let granted = ask(None, &acquire(None, Limits::default()), WallTime::default());
    let document = granted.ok().and_then(|decision| decision.next).expect("the first is granted");
    let write = WriteCheckpoint {
        epoch: document.epoch,
        credential: cast::credential("a", 1),
        seq: 1,
        summary: String::new(),
        state: state.to_string(),
        reference: None,
        covers: None,
    };
    let decided = ask(Some(&document), &Command::Checkpoint(write), WallTime::default());
    if let Some(read) = survives(decided) {
        let checkpoint = read.checkpoint.expect("the checkpoint");
        assert_eq!(
            checkpoint_hash(&checkpoint.summary, &checkpoint.state, None, None),
            checkpoint.hash,
            "its hash fits"
        );
    }
}

#[test]
fn a_deeply_nested_checkpoint_does_not_make_the_document_unreadable() {
    for depth in [100, 125, 126, 127, 128, 1_000, 30_000] {
        checkpoint_survives(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    }
}

#[test]
fn a_checkpoint_s_numbers_survive() {
    checkpoint_survives("1e400");
    checkpoint_survives("123456789012345678901234567890");
    checkpoint_survives("[0.1, 1.10, 1e15, -0]");
}

#[test]
fn a_checkpoint_s_text_survives() {
    checkpoint_survives("\"\\ud800\"");
    checkpoint_survives("{ \"b\": 1, \"a\": 2 }");
    checkpoint_survives("{\"a\":1,\"a\":2}");
}

#[test]
fn limits_without_end_survive() {
    let limits = Limits { time: Some(Span::MAX), ..Limits::default() };
    let _ = survives(ask(None, &acquire(None, limits.clone()), WallTime::default()));
    let policy = Policy { limits, ..Policy::default() };
    let order = cast::operator("root").sign(&cast::unwritten(Epoch(0)), Act::SetPolicy { policy });
    let _ = survives(ask(None, &Command::Operate(order), WallTime::default()));
}

#[test]
fn a_lease_of_a_fraction_of_a_millisecond_is_refused_or_kept() {
    let ttl = Span::secs(1).plus(Span::nanos(500));
    let _ = survives(ask(None, &acquire(Some(ttl), Limits::default()), WallTime::default()));
}

#[test]
fn a_wall_clock_gone_mad_decides_nothing() {
    for ms in [253_402_300_799_999, 253_402_300_800_000, u64::MAX] {
        let wall = WallTime::from_unix_millis(ms);
        let _ = survives(ask(None, &acquire(None, Limits::default()), wall));
    }
}

#[test]
fn an_agent_s_own_limits_have_the_bounds_of_the_policy_s() {
    let limits = Limits { stall: Some(Span::millis(10)), ..Limits::default() };
    assert!(matches!(ask(None, &acquire(None, limits), WallTime::default()), Err(Refusal::Invalid { .. })));
}

fn without_operators() -> Document {
    Document { operator_keys: Default::default(), ..cast::unwritten(Epoch(0)) }
}

#[test]
fn the_first_operator_must_hold_the_key_that_it_enrols() {
    let (mallory, ada): (OperatorKey, OperatorKey) = (cast::operator("mallory"), cast::operator("ada"));
    let document = without_operators();
    let key = ada.public();
    let mut order = mallory.sign(&document, Act::Enrol { key });
    order.by = key;
    let decided = ask(Some(&document), &Command::Operate(order), WallTime::default());
    assert!(matches!(decided, Err(Refusal::WrongKey { .. })), "{decided:?}");
    let mut elsewhere = document.clone();
    elsewhere.epoch = Epoch(9);
    let order = ada.sign(&elsewhere, Act::Enrol { key });
    let decided = ask(Some(&document), &Command::Operate(order), WallTime::default());
    assert!(decided.is_err(), "signed for another state of the election: {decided:?}");
}

#[test]
fn dismissing_one_operator_never_leaves_none() {
    let root = cast::operator("root");
    let mut document = cast::unwritten(Epoch(0));
    document.operator_keys = vec![root.public(), root.public()].into();
    let order = root.sign(&document, Act::Dismiss { key: root.public() });
    if let Ok(Decision { next: Some(next), .. }) =
        ask(Some(&document), &Command::Operate(order), WallTime::default())
    {
        assert!(!next.operator_keys.is_empty());
    }
}
