//! What the engine promises, on a store that can be stopped, counted and broken.

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use baton::{Coordinator, Memory};
use baton_api::CommandError;
use baton_api::command::Decided;
use baton_election::command::{Release, Renew};
use baton_election::operator::{Act, OperatorKey};
use baton_election::time::Span;
use baton_election::{Answer, Command, Epoch, Refusal};
use baton_server::{Engine, Options, Server, StartError};
use baton_store::conformance::{Swap, Wrapped};
use baton_store::{BoxFuture, Key, MemoryStore, Store, StoreError, Swapped, boot};

use crate::support::{acquire, credential, election};

/// A memory store whose swaps of elections are counted, delayed and broken.
#[derive(Clone, Default)]
struct FaultyStore {
    inner: MemoryStore,
    swaps: Arc<AtomicUsize>,
    slow: Arc<AtomicBool>,
    /// The next swap is applied, and the answer lost.
    lose_answer: Arc<AtomicBool>,
    /// The next swap is not applied.
    fail: Arc<AtomicBool>,
}

impl Wrapped for FaultyStore {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.inner.clone())
    }

    fn swaps<'a>(&'a self, swap: Swap<'a>) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            if !swap.is_of_election() {
                return swap.at(&self.inner).await;
            }
            self.swaps.fetch_add(1, Ordering::SeqCst);
            if self.slow.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            if self.fail.swap(false, Ordering::SeqCst) {
                return Err(self.unavailable("it was told to"));
            }
            let swapped = swap.at(&self.inner).await?;
            if self.lose_answer.swap(false, Ordering::SeqCst) {
                return Err(self.unknown());
            }
            Ok(swapped)
        })
    }
}

async fn grant(engine: &Engine, number: u8, ttl: Span) -> Epoch {
    granted(engine.acquire(&election(), acquire(number, ttl), Span::ZERO).await)
}

fn granted(outcome: Result<Decided, CommandError>) -> Epoch {
    match outcome.unwrap().answer {
        Answer::Granted { epoch, .. } => epoch,
        other => panic!("{other:?}"),
    }
}

async fn renew(engine: &Engine, number: u8, epoch: Epoch) -> Result<Decided, CommandError> {
    engine.execute(&election(), &Command::Renew(Renew::new(epoch, credential(number)))).await
}

async fn release(engine: &Engine, number: u8, epoch: Epoch) -> Result<Decided, CommandError> {
    let release = Release { reason: None, ..released(number, epoch) };
    engine.execute(&election(), &Command::Release(release)).await
}

fn released(number: u8, epoch: Epoch) -> Release {
    serde_json::from_value(serde_json::json!({ "token": epoch, "credential": credential(number) })).unwrap()
}

fn held(outcome: Result<Decided, CommandError>) -> Span {
    match outcome {
        Err(CommandError::Refused(Refusal::Held { remaining, .. })) => remaining,
        other => panic!("{other:?}"),
    }
}

async fn engine() -> (Engine, FaultyStore) {
    let store = FaultyStore::default();
    (Engine::start(Arc::new(store.clone())).await.unwrap(), store)
}

/// What waits in line, as a task.
fn wait_in_line(
    engine: &Engine,
    number: u8,
    wait: Span,
) -> tokio::task::JoinHandle<Result<Decided, CommandError>> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.acquire(&election(), acquire(number, Span::secs(30)), wait).await })
}

#[tokio::test]
async fn renewals_are_not_written_and_all_else_is() {
    let (engine, store) = engine().await;
    let epoch = grant(&engine, 1, Span::secs(30)).await;
    for _ in 0..100 {
        let renewed = renew(&engine, 1, epoch).await.unwrap();
        assert!(matches!(renewed.answer, Answer::Renewed { .. }) && renewed.document.is_none());
        assert_eq!(renewed.ttl, Some(Span::secs(30)));
    }
    assert_eq!(store.swaps.load(Ordering::SeqCst), 1);
    release(&engine, 1, epoch).await.unwrap();
    assert_eq!(store.swaps.load(Ordering::SeqCst), 2);
    assert_eq!(engine.view(&election()).await.unwrap().document.unwrap().epoch, epoch);
}

#[tokio::test]
async fn a_hundred_ask_and_one_is_granted() {
    let (engine, _) = engine().await;
    let asked: Vec<_> = (1..=100).map(|number| wait_in_line(&engine, number, Span::ZERO)).collect();
    let mut granted = 0;
    for one in asked {
        granted += usize::from(one.await.unwrap().is_ok());
    }
    assert_eq!(granted, 1);
}

#[tokio::test]
async fn who_waits_is_granted_in_order_and_in_the_same_write_as_the_release() {
    let (engine, store) = engine().await;
    let mut epoch = grant(&engine, 1, Span::secs(30)).await;
    let mut line = Vec::new();
    for number in 2..=5 {
        line.push((number, wait_in_line(&engine, number, Span::secs(20))));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut holder = 1;
    for (number, waiting) in line {
        let before = store.swaps.load(Ordering::SeqCst);
        release(&engine, holder, epoch).await.unwrap();
        let decided = waiting.await.unwrap().unwrap();
        assert!(matches!(decided.answer, Answer::Granted { offer: true, .. }), "{:?}", decided.answer);
        assert_eq!(store.swaps.load(Ordering::SeqCst), before + 1, "one write");
        let next = granted(Ok(decided));
        assert!(next > epoch);
        renew(&engine, number, next).await.unwrap();
        (holder, epoch) = (number, next);
    }
}

#[tokio::test]
async fn an_offer_that_nobody_claims_goes_to_the_next() {
    let (engine, _) = engine().await;
    let epoch = grant(&engine, 1, Span::secs(30)).await;
    let first = wait_in_line(&engine, 2, Span::secs(20));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = wait_in_line(&engine, 3, Span::secs(20));
    tokio::time::sleep(Duration::from_millis(20)).await;
    // From before it is offered: whoever looks late must not take that for a short offer.
    let begun = boot::now();
    release(&engine, 1, epoch).await.unwrap();
    let offered = granted(first.await.unwrap());
    let next = granted(second.await.unwrap());
    assert!(next > offered);
    assert!(
        boot::now().since(begun) >= baton_election::lease::offer(Span::secs(30)).scaled(9, 10),
        "not before its time"
    );
    assert!(renew(&engine, 2, offered).await.is_err());
}

#[tokio::test]
async fn an_offer_whose_length_is_no_round_number_goes_on_too() {
    let (engine, _) = engine().await;
    let epoch = grant(&engine, 1, Span::secs(30)).await;
    let first = {
        let engine = engine.clone();
        let acquire = acquire(2, Span::millis(2_500));
        tokio::spawn(async move { engine.acquire(&election(), acquire, Span::secs(20)).await })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = wait_in_line(&engine, 3, Span::secs(20));
    tokio::time::sleep(Duration::from_millis(20)).await;
    release(&engine, 1, epoch).await.unwrap();
    let offered = granted(first.await.unwrap());
    let begun = boot::now();
    assert!(granted(second.await.unwrap()) > offered);
    assert!(boot::now().since(begun) < Span::secs(8), "somebody looked again by itself");
}

#[tokio::test]
async fn a_lease_ends_for_who_waits_when_it_ends_and_not_before() {
    let (engine, _) = engine().await;
    let begun = boot::now();
    grant(&engine, 1, Span::secs(1)).await;
    granted(wait_in_line(&engine, 2, Span::secs(20)).await.unwrap());
    let took = boot::now().since(begun);
    assert!(took >= Span::secs(1), "{took}");
    // A machine that stood still gives every lease its length anew; the wait for it ends later.
    assert!(took < Span::secs(15), "{took}");
}

#[tokio::test]
async fn who_has_gone_is_passed_over() {
    let (engine, _) = engine().await;
    let epoch = grant(&engine, 1, Span::secs(30)).await;
    let gone = wait_in_line(&engine, 2, Span::secs(20));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let there = wait_in_line(&engine, 3, Span::secs(20));
    tokio::time::sleep(Duration::from_millis(20)).await;
    gone.abort();
    let _ = gone.await;
    release(&engine, 1, epoch).await.unwrap();
    granted(there.await.unwrap());
}

#[tokio::test]
async fn a_wait_ends_with_who_leads() {
    let (engine, _) = engine().await;
    grant(&engine, 1, Span::secs(30)).await;
    let remaining = held(wait_in_line(&engine, 2, Span::millis(50)).await.unwrap());
    assert!(remaining > Span::secs(15), "{remaining}");
    // An agent that has left the line is not granted anything later.
    release(&engine, 1, Epoch(1)).await.unwrap();
    assert!(engine.view(&election()).await.unwrap().document.unwrap().leader.is_none());
}

#[tokio::test]
async fn a_restart_gives_a_lease_its_full_length() {
    let (engine, store) = engine().await;
    let epoch = grant(&engine, 1, Span::secs(5)).await;
    drop(engine);
    tokio::time::sleep(Duration::from_millis(5_200)).await;
    let begun = boot::now();
    let engine = Engine::start(Arc::new(store)).await.unwrap();
    let remaining = held(engine.acquire(&election(), acquire(2, Span::secs(1)), Span::ZERO).await);
    let passed = boot::now().since(begun);
    assert!(remaining >= Span::secs(5).minus(passed), "{remaining} are left after {passed}");
    renew(&engine, 1, epoch).await.unwrap();
}

#[tokio::test]
async fn a_lost_answer_of_the_store_is_found_out() {
    let (engine, store) = engine().await;
    store.lose_answer.store(true, Ordering::SeqCst);
    let decided = engine.acquire(&election(), acquire(1, Span::secs(30)), Span::ZERO).await.unwrap();
    assert!(matches!(decided.answer, Answer::Granted { repeated: true, .. }), "{:?}", decided.answer);
    assert_eq!(store.swaps.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_was_not_written_is_not_granted() {
    let (engine, store) = engine().await;
    store.fail.store(true, Ordering::SeqCst);
    let failed = engine.acquire(&election(), acquire(1, Span::secs(30)), Span::ZERO).await.unwrap_err();
    assert!(matches!(failed, CommandError::Store(StoreError::Unavailable { .. })), "{failed:?}");
    assert!(engine.view(&election()).await.unwrap().document.is_none());
    let epoch = grant(&engine, 2, Span::secs(30)).await;
    // And who waits in line goes on waiting.
    let waiting = wait_in_line(&engine, 3, Span::secs(20));
    tokio::time::sleep(Duration::from_millis(20)).await;
    store.fail.store(true, Ordering::SeqCst);
    release(&engine, 2, epoch).await.unwrap_err();
    renew(&engine, 2, epoch).await.unwrap();
    release(&engine, 2, epoch).await.unwrap();
    granted(waiting.await.unwrap());
}

#[tokio::test]
async fn a_caller_that_goes_in_the_middle_of_a_write_leaves_nothing_behind() {
    let (engine, store) = engine().await;
    store.slow.store(true, Ordering::SeqCst);
    let asking = wait_in_line(&engine, 1, Span::ZERO);
    tokio::time::sleep(Duration::from_millis(20)).await;
    asking.abort();
    // It was granted all the same, and whoever asks next is told so once it is durable.
    held(engine.acquire(&election(), acquire(2, Span::secs(30)), Span::ZERO).await);
    let again = engine.acquire(&election(), acquire(1, Span::secs(30)), Span::ZERO).await.unwrap();
    assert!(matches!(again.answer, Answer::Granted { repeated: true, .. }));
}

#[tokio::test]
async fn nothing_is_shown_before_it_is_durable() {
    let (engine, store) = engine().await;
    store.slow.store(true, Ordering::SeqCst);
    let asking = wait_in_line(&engine, 1, Span::ZERO);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let seen = engine.view(&election()).await.unwrap();
    let durable = store.inner.read(&Key::Election(election())).await.unwrap().found.is_some();
    assert!(seen.document.is_none() || durable);
    granted(asking.await.unwrap());
}

#[tokio::test]
async fn what_is_no_renewal_does_not_lengthen_a_lease() {
    let (store, operator) = (FaultyStore::default(), OperatorKey::from_seed([1; 32]));
    Coordinator::with_store(Arc::new(store.clone()), Memory::new())
        .operators()
        .enrol(&operator)
        .await
        .unwrap();
    let engine = Engine::start(Arc::new(store)).await.unwrap();
    let epoch = grant(&engine, 1, Span::secs(30)).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    // A machine that stood still meanwhile gave the lease its length anew.
    let seen = engine.view(&election()).await.unwrap();
    let another = OperatorKey::from_seed([2; 32]).public();
    let act = operator.sign(&seen.document.unwrap(), Act::Enrol { key: another });
    engine.execute(&election(), &Command::Operate(act)).await.unwrap();
    let age = engine.view(&election()).await.unwrap().age;
    assert!(age >= seen.age, "{age} after {}", seen.age);
    let before = boot::now();
    renew(&engine, 1, epoch).await.unwrap();
    let age = engine.view(&election()).await.unwrap().age;
    assert!(age <= boot::now().since(before), "a renewal does: {age}");
}

/// A client that can reach a server cannot write its store, and is not believed on its own word.
#[tokio::test]
async fn nobody_makes_itself_the_first_operator_of_an_election() {
    let (engine, _) = engine().await;
    grant(&engine, 1, Span::secs(30)).await;
    let agent = OperatorKey::from_seed([3; 32]);
    let document = engine.view(&election()).await.unwrap().document.unwrap();
    let act = agent.sign(&document, Act::Enrol { key: agent.public() });
    let refused = engine.execute(&election(), &Command::Operate(act)).await.unwrap_err();
    assert!(matches!(refused, CommandError::Refused(Refusal::WrongKey { .. })), "{refused}");
    let document = engine.view(&election()).await.unwrap().document.unwrap();
    assert!(document.operator_keys.is_empty());
}

#[tokio::test]
async fn a_succession_that_could_not_be_written_is_tried_again() {
    let (engine, store) = engine().await;
    // Long enough to stand in line, and to break the store, before it ends.
    grant(&engine, 1, Span::secs(8)).await;
    let waiting = wait_in_line(&engine, 2, Span::secs(60));
    tokio::time::sleep(Duration::from_millis(20)).await;
    store.fail.store(true, Ordering::SeqCst);
    let begun = boot::now();
    granted(waiting.await.unwrap());
    let took = boot::now().since(begun);
    assert!(took < Span::secs(30), "it waited for nobody: {took}");
    assert!(!store.fail.load(Ordering::SeqCst), "the first try failed");
}

#[tokio::test]
async fn a_succession_whose_answer_was_lost_is_found_out() {
    let (engine, store) = engine().await;
    // Long enough to stand in line, and to break the store, before it ends.
    grant(&engine, 1, Span::secs(8)).await;
    let waiting = wait_in_line(&engine, 2, Span::secs(60));
    tokio::time::sleep(Duration::from_millis(20)).await;
    store.lose_answer.store(true, Ordering::SeqCst);
    let begun = boot::now();
    granted(waiting.await.unwrap());
    let took = boot::now().since(begun);
    assert!(took < Span::secs(30), "it waited for nobody: {took}");
}

#[tokio::test]
async fn a_store_that_others_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = baton::file::FileStore::open(&folder.path().join("s"), baton_store::Access::Write).unwrap();
    let listener = Server::listen("127.0.0.1:0".parse().unwrap(), &Options::default()).await.unwrap();
    let refused = Server::start(listener, Arc::new(store), Options::default()).await.err();
    assert!(matches!(refused, Some(StartError::Shared(_))), "{refused:?}");
    let refused = Server::listen("0.0.0.0:0".parse().unwrap(), &Options::default()).await.err();
    assert!(matches!(refused, Some(StartError::NoTls(_))), "{refused:?}");
}

#[tokio::test]
async fn a_wait_in_line_ends_in_time_even_if_the_write_that_would_have_ended_it_fails() {
    let (engine, store) = engine().await;
    let epoch = grant(&engine, 1, Span::secs(600)).await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.acquire(&election(), acquire(2, Span::secs(600)), Span::millis(400)).await }
    });
    // The one who waits is in line by then. Its time ends while the hand-over is being written, and that fails.
    tokio::time::sleep(Duration::from_millis(350)).await;
    store.slow.store(true, Ordering::SeqCst);
    store.fail.store(true, Ordering::SeqCst);
    let released = release(&engine, 1, epoch).await;
    assert!(matches!(released, Err(CommandError::Store(StoreError::Unavailable { .. }))), "{released:?}");
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it waits on").unwrap();
    assert!(matches!(waited, Err(CommandError::Store(_) | CommandError::Refused(_))), "{waited:?}");
}
