//! Circuit breakers that bar from leading, at a server, which looks at them itself.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use baton::{Coordinator, Memory};
use baton_api::CommandError;
use baton_election::command::{Acquire, Ending, Finding, Release, Report};
use baton_election::document::Cause;
use baton_election::operator::{Act, OperatorKey};
use baton_election::removal_rules::{Bars, Breakers};
use baton_election::time::{Span, WallTime};
use baton_election::{
    AgentName, Answer, Command, Credential, ElectionName, Epoch, Incarnation, LeaseKey, Policy, Refusal,
};
use baton_server::Engine;
use baton_store::toolbox::breaker::{Breaker, Circuit, name_of};
use baton_store::toolbox::{Item, Kind};
use baton_store::{AgeStamp, Expect, Key, MemoryStore, Persistence, Record, Store};

const WAIT: Span = Span::secs(60);
/// Enough for one step, not for a wait.
const A_MOMENT: Duration = Duration::from_millis(50);

fn name() -> ElectionName {
    "e".parse().unwrap()
}

fn agent(text: &str) -> AgentName {
    text.parse().unwrap()
}

fn credential(number: u8) -> Credential {
    Credential { incarnation: Incarnation([number; 8]), key: LeaseKey([number; 16]) }
}

fn bid(by: &str, number: u8) -> Acquire {
    let of = credential(number);
    Acquire { ttl: Some(Span::secs(600)), ..Acquire::new(agent(by), of.incarnation, of.key.hash()) }
}

fn release(number: u8, epoch: Epoch) -> Command {
    Command::Release(Release { epoch, credential: credential(number), reason: None, ending: Ending::Stopped })
}

fn report(epoch: Epoch) -> Command {
    Command::Report(Report {
        epoch,
        finding: Finding::Breaker,
        detail: String::new(),
        by: agent("somebody"),
        credential: None,
        number: None,
        checkpoint: None,
        open: None,
    })
}

/// A server's engine, and the store behind it.
async fn engine(bars: Bars) -> (Engine, MemoryStore) {
    let store = MemoryStore::default();
    let client = Coordinator::with_store(Arc::new(store.clone()), Memory::new());
    let operator = OperatorKey::from_seed([42; 32]);
    client.operators().enrol(&operator).await.unwrap();
    let breakers = Breakers { failures: 2, cool_off: Span::secs(3_600), probes: 1, generation: 0, bars };
    let policy = Policy { breakers: Some(breakers), ..Policy::default() };
    client.operate(&name(), &operator, &Act::SetPolicy { policy }).await.unwrap();
    (Engine::start(Arc::new(store.clone())).await.unwrap(), store)
}

async fn open_breaker(store: &MemoryStore, of: &str) {
    let breaker = Breaker {
        election: name(),
        name: name_of(&agent(of), "rust"),
        agent: agent(of),
        capability: "rust".to_string(),
        circuit: Circuit::Open,
        failures: 2,
        turns: 1,
        probes: 0,
        generation: 0,
        counted: Vec::new(),
        reason: "no compiler".to_string(),
        at: WallTime::default(),
    };
    let key = Key::Item(name(), Kind::Breaker, breaker.name.clone());
    let record = Record::Item(Box::new(Item::Breaker(breaker)));
    store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await.unwrap();
}

fn token(outcome: Result<baton_api::command::Decided, CommandError>) -> (Epoch, bool) {
    match outcome.unwrap().answer {
        Answer::Granted { epoch, offer, .. } => (epoch, offer),
        other => panic!("{other:?}"),
    }
}

fn is_barred(outcome: Result<baton_api::command::Decided, CommandError>) {
    match outcome {
        Err(CommandError::Refused(Refusal::NotEligible { why, retry_in: Some(left) })) => {
            assert!(why.contains("no compiler"), "{why}");
            assert!(left > Span::ZERO && left <= Span::secs(3_600), "{left}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn who_is_first_in_line_is_looked_at_when_its_turn_comes() {
    let (engine, store) = engine(Bars::Candidacy).await;
    let e = name();
    let (first, _) = token(engine.acquire(&e, bid("a", 1), Span::ZERO).await);
    let mut barred = pin!(engine.acquire(&e, bid("w", 2), WAIT));
    tokio::time::timeout(A_MOMENT, &mut barred).await.unwrap_err();
    let mut next = pin!(engine.acquire(&e, bid("x", 3), WAIT));
    tokio::time::timeout(A_MOMENT, &mut next).await.unwrap_err();
    // It was well when it asked.
    open_breaker(&store, "w").await;
    engine.execute(&e, &release(1, first)).await.unwrap();
    let (barred, next) = tokio::join!(barred, next);
    is_barred(barred);
    assert!(token(next).1, "who has waited has an offer");
    let held = engine.acquire(&e, bid("w", 4), Span::ZERO).await;
    assert!(matches!(held, Err(CommandError::Refused(Refusal::Held { .. }))), "{held:?}");
}

#[tokio::test]
async fn the_record_is_believed_and_not_who_speaks_of_it() {
    let (engine, store) = engine(Bars::Leadership).await;
    let e = name();
    let (first, _) = token(engine.acquire(&e, bid("a", 1), Span::ZERO).await);
    let answer = engine.execute(&e, &report(first)).await.unwrap().answer;
    assert!(matches!(answer, Answer::Done { ended: None, .. }), "{answer:?}");
    open_breaker(&store, "a").await;
    let answer = engine.execute(&e, &report(first)).await.unwrap().answer;
    assert!(matches!(&answer, Answer::Done { ended: Some(ended), .. } if *ended == agent("a")), "{answer:?}");
    assert!(engine.check(&e, first).await.is_err(), "its token is refused at once");
    engine.execute(&e, &release(1, first)).await.unwrap();
    let (second, _) = token(engine.acquire(&e, bid("b", 3), Span::ZERO).await);
    let document = engine.view(&e).await.unwrap().document.unwrap();
    assert_eq!(document.last_transition.unwrap().cause, Cause::Breaker);
    // The next one is spared for the cool-off.
    open_breaker(&store, "b").await;
    let answer = engine.execute(&e, &report(second)).await.unwrap().answer;
    assert!(matches!(answer, Answer::Done { ended: None, .. }), "{answer:?}");
    engine.execute(&e, &release(3, second)).await.unwrap();
    is_barred(engine.acquire(&e, bid("a", 4), Span::ZERO).await);
}

#[test]
fn nobody_can_send_what_only_who_decides_has_seen() {
    let mut sent = serde_json::to_value(bid("a", 1)).unwrap();
    assert!(serde_json::from_value::<Acquire>(sent.clone()).unwrap().open.is_none());
    sent["open"] = serde_json::json!([]);
    assert!(serde_json::from_value::<Acquire>(sent).is_err());
}
