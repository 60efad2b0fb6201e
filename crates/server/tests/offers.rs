//! An offer is written as a lease: to claim it takes no write, and whoever reads it after a crash, a take-over or a restore waits for
//! the whole lease.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton::embedded::{EmbeddedStore, Restore, restore};
use baton::{Bid, Coordinator, Memory, mint_credential};
use baton_api::CommandError;
use baton_api::command::Decided;
use baton_election::command::{Acquire, Ending, Release, Renew};
use baton_election::lease;
use baton_election::policy::Limits;
use baton_election::time::Span;
use baton_election::{AgentName, Answer, Command, Document, Epoch, Refusal, WallTime};
use baton_server::{ChangeNotice, Engine};
use baton_store::{Access, AgeStamp, Key, MemoryStore, Persistence, Record, Store};
use tokio::task::JoinHandle;

use crate::support::{Held, acquire, credential, election};

const TTL: Span = Span::secs(40);
/// More than an offer of it stands, and less than the lease.
const LEAST: Span = Span::secs(35);

async fn engine(store: &Held) -> Engine {
    Engine::start(Arc::new(store.clone())).await.unwrap()
}

fn granted(outcome: Result<Decided, CommandError>) -> (Epoch, bool) {
    match outcome.unwrap().answer {
        Answer::Granted { epoch, offer, .. } => (epoch, offer),
        other => panic!("{other:?}"),
    }
}

async fn grant(engine: &Engine, number: u8) -> Epoch {
    granted(engine.acquire(&election(), acquire(number, TTL), Span::ZERO).await).0
}

async fn renew(engine: &Engine, number: u8, epoch: Epoch) -> Result<Decided, CommandError> {
    engine.execute(&election(), &Command::Renew(Renew::new(epoch, credential(number)))).await
}

async fn release(engine: &Engine, number: u8, epoch: Epoch) {
    let release = Release { epoch, credential: credential(number), reason: None, ending: Ending::Stopped };
    engine.execute(&election(), &Command::Release(release)).await.unwrap();
}

/// How long nobody else is granted it.
async fn held(engine: &Engine) -> Span {
    match engine.acquire(&election(), acquire(99, TTL), Span::ZERO).await {
        Err(CommandError::Refused(Refusal::Held { remaining, .. })) => remaining,
        other => panic!("{other:?}"),
    }
}

async fn document(engine: &Engine) -> Document {
    engine.view(&election()).await.unwrap().document.unwrap()
}

/// One who stands in line when this returns.
async fn in_line(engine: &Engine, number: u8) -> JoinHandle<Result<Decided, CommandError>> {
    in_line_for(engine, number, Span::secs(30)).await
}

/// The same, for so long.
async fn in_line_for(engine: &Engine, number: u8, wait: Span) -> JoinHandle<Result<Decided, CommandError>> {
    in_line_with(engine, acquire(number, TTL), wait).await
}

async fn in_line_with(
    engine: &Engine,
    acquire: Acquire,
    wait: Span,
) -> JoinHandle<Result<Decided, CommandError>> {
    let waiting = engine.clone();
    let place = async move { waiting.acquire(&election(), acquire, wait).await };
    let place = tokio::spawn(place);
    // There is one thread: while this sleeps, the other goes as far as it can.
    tokio::time::sleep(Duration::from_millis(20)).await;
    place
}

/// Made by 1, and offered to 2.
async fn offered(engine: &Engine) -> Epoch {
    let epoch = grant(engine, 1).await;
    let waiting = in_line(engine, 2).await;
    release(engine, 1, epoch).await;
    let (next, offer) = granted(waiting.await.unwrap());
    assert!(offer && next > epoch);
    next
}

async fn written(store: &dyn Store) -> Document {
    match store.read(&Key::Election(election())).await.unwrap().found {
        Some((Record::Election(document), _)) => *document,
        other => panic!("{other:?}"),
    }
}

/// Whoever wrote it as an offer: its claim is known to the memory of this engine alone, so it must be a lease from here on.
#[tokio::test]
async fn an_offer_that_is_read_is_a_lease() {
    let inner = MemoryStore::default();
    let epoch = offered(&engine(&Held::on(&inner)).await).await;
    let reading = inner.read(&Key::Election(election())).await.unwrap();
    let mut document = written(&inner).await;
    document.leader.as_mut().unwrap().offered = true;
    let record = Record::Election(Box::new(document));
    inner
        .swap(&Key::Election(election()), reading.expect(), &record, AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    let next = engine(&Held::on(&inner)).await;
    assert!(held(&next).await > LEAST);
    renew(&next, 2, epoch).await.unwrap();
    assert!(held(&engine(&Held::on(&inner)).await).await > LEAST, "nor is it one after a crash");
}

#[tokio::test]
async fn a_claim_is_told_and_not_written() {
    let inner = MemoryStore::default();
    let engine = engine(&Held::on(&inner)).await;
    let epoch = offered(&engine).await;
    let mut changes = engine.subscribe(&election(), None);
    assert!(document(&engine).await.leader.unwrap().offered);
    assert!(!written(&inner).await.leader.unwrap().offered, "what is written is a lease");
    assert!(engine.check(&election(), epoch).await.is_err(), "it does not lead yet");
    let before = written(&inner).await;
    let claimed = renew(&engine, 2, epoch).await.unwrap();
    assert!(!claimed.document.unwrap().leader.unwrap().offered, "who claims is shown what it has");
    assert_eq!(written(&inner).await, before);
    engine.check(&election(), epoch).await.unwrap();
    let Some(ChangeNotice::Event(event)) = changes.next().await else {
        panic!("nobody was told of the claim")
    };
    assert_eq!(event.document(), document(&engine).await);
    assert!(held(&engine).await > LEAST);
    // Renewals after it are told to nobody, and what is written next has all of them.
    renew(&engine, 2, epoch).await.unwrap();
    release(&engine, 2, epoch).await;
    let Some(ChangeNotice::Event(event)) = changes.next().await else {
        panic!("nobody was told of the release")
    };
    assert!(event.document().leader.is_none());
    assert_eq!(written(&inner).await.departure.as_ref().unwrap().epoch, epoch);
}

#[tokio::test]
async fn a_claim_that_counts_is_written() {
    let inner = MemoryStore::default();
    let engine = engine(&Held::on(&inner)).await;
    let epoch = grant(&engine, 1).await;
    let limits = Limits { renewals: Some(1), ..Limits::default() };
    let waiting = tokio::spawn({
        let (engine, acquire) = (engine.clone(), Acquire { limits, ..acquire(2, TTL) });
        async move { engine.acquire(&election(), acquire, Span::secs(30)).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    release(&engine, 1, epoch).await;
    let (next, offer) = granted(waiting.await.unwrap());
    assert!(offer && !written(&inner).await.leader.unwrap().offered);
    renew(&engine, 2, next).await.unwrap();
    assert_eq!(written(&inner).await.leader.unwrap().renewals, 1);
    let ended = renew(&engine, 2, next).await.unwrap().answer;
    assert!(matches!(ended, Answer::Ended { .. }), "{ended:?}");
}

#[tokio::test]
async fn after_a_crash_an_offer_is_a_lease_whether_it_was_claimed_or_not() {
    for claimed in [false, true] {
        let store = Held::on(&MemoryStore::default());
        let first = engine(&store).await;
        let epoch = offered(&first).await;
        if claimed {
            renew(&first, 2, epoch).await.unwrap();
        }
        drop(first);
        let second = engine(&store).await;
        assert!(held(&second).await > LEAST, "claimed: {claimed}");
        renew(&second, 2, epoch).await.unwrap();
        assert_eq!(document(&second).await.leader.unwrap().epoch, epoch);
        release(&second, 2, epoch).await;
        assert!(grant(&second, 3).await > epoch);
    }
}

#[tokio::test]
async fn the_next_server_keeps_a_lease_that_the_former_one_let_be_claimed() {
    for claimed in [false, true] {
        let inner = MemoryStore::default();
        let (old, new) = (Held::on(&inner), Held::on(&inner));
        let first = Engine::take_over(Arc::new(old.clone()), Epoch(1)).await.unwrap();
        let epoch = offered(&first).await;
        // Longer than the offer stands.
        let late = in_line_for(&first, 3, lease::offer(TTL).plus(Span::secs(5))).await;
        if claimed {
            renew(&first, 2, epoch).await.unwrap();
        }
        let second = Engine::take_over(Arc::new(new), Epoch(2)).await.unwrap();
        assert!(held(&second).await > LEAST, "claimed: {claimed}");
        if !claimed {
            // The former one passes the offer on, too late.
            let told = tokio::time::timeout(Duration::from_secs(60), late).await.unwrap().unwrap();
            assert!(told.is_err(), "{told:?}");
            assert!(first.is_deposed());
        }
        renew(&second, 2, epoch).await.unwrap();
        assert_eq!(document(&second).await.leader.unwrap().epoch, epoch);
    }
}

#[tokio::test]
async fn an_offer_goes_on_as_long_as_the_server_remembers_that_it_is_one() {
    let inner = MemoryStore::default();
    let store = Held::on(&inner);
    let first = engine(&store).await;
    let epoch = grant(&first, 1).await;
    let mut places = Vec::new();
    // The offer to the second is soon over, and the third has time to claim its own.
    for (number, ttl) in [(2, Span::secs(1)), (3, TTL)] {
        let acquire = acquire(number, ttl);
        let engine = first.clone();
        places.push(tokio::spawn(async move { engine.acquire(&election(), acquire, Span::secs(30)).await }));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    release(&first, 1, epoch).await;
    let mut offers = Vec::new();
    for place in places {
        offers.push(granted(place.await.unwrap()).0);
    }
    let [second, third] = offers[..] else { panic!("{offers:?}") };
    assert!(third > second);
    renew(&first, 3, third).await.unwrap();
    // Who did not claim in time finds out, here and after a crash.
    assert!(renew(&first, 2, second).await.is_err());
    drop(first);
    let next = engine(&store).await;
    assert!(renew(&next, 2, second).await.is_err());
    renew(&next, 3, third).await.unwrap();
}

#[tokio::test]
async fn who_waited_claims_also_what_was_granted_by_a_write_whose_answer_was_lost() {
    let store = Held::on(&MemoryStore::default());
    let engine = engine(&store).await;
    let epoch = grant(&engine, 1).await;
    let waiting = in_line(&engine, 2).await;
    store.lose_answer.store(true, Ordering::SeqCst);
    // The agent that releases is told that another leads already: its first answer was lost.
    let released = Release { epoch, credential: credential(1), reason: None, ending: Ending::Stopped };
    let told = engine.execute(&election(), &Command::Release(released)).await;
    assert!(matches!(told, Err(CommandError::Refused(Refusal::Stale { .. }))), "{told:?}");
    let (next, offer) = granted(waiting.await.unwrap());
    assert!(offer, "it asked long ago");
    assert!(held(&engine).await > LEAST, "it was found in the store, as a lease");
    renew(&engine, 2, next).await.unwrap();
}

/// The longest that is waited for a file that its former owner is about to let go of.
async fn open(path: &Path) -> EmbeddedStore {
    for _ in 0..1_000 {
        match EmbeddedStore::open(path, Access::Write) {
            Ok(store) => return store,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    EmbeddedStore::open(path, Access::Write).unwrap()
}

#[tokio::test]
async fn who_opens_the_file_or_a_snapshot_of_it_waits_for_the_lease() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("s.redb"), folder.path().join("copy.redb"));
    let store = EmbeddedStore::open(&path, Access::Write).unwrap();
    let closed = store.closed();
    let engine = Engine::start(Arc::new(store)).await.unwrap();
    let epoch = offered(&engine).await;
    renew(&engine, 2, epoch).await.unwrap();
    drop(engine);
    tokio::time::timeout(Duration::from_secs(30), closed).await.unwrap();

    let store = open(&path).await;
    store.snapshot(&copy).unwrap();
    let direct = Coordinator::with_store(Arc::new(store), Memory::new());
    let bid = Bid { ttl: Some(TTL), ..Bid::new(AgentName::new("direct").unwrap()) };
    let asked = direct.acquire(&election(), &bid, mint_credential().unwrap(), None, None).await;
    let Err(baton::Error::Refused(Refusal::Held { remaining, .. })) = asked else { panic!("{asked:?}") };
    assert!(remaining > LEAST && remaining > lease::offer(TTL), "{remaining}");
    drop(direct);

    let to = folder.path().join("restored.redb");
    let restored = restore(&Restore {
        from: &copy,
        to: &to,
        above: Epoch(0),
        leases: None,
        at: WallTime::default(),
        trust_snapshot: false,
    })
    .unwrap();
    let engine = Engine::start(Arc::new(open(&to).await)).await.unwrap();
    assert!(restored.leases >= TTL && held(&engine).await > LEAST);
    assert!(renew(&engine, 2, epoch).await.is_err(), "a restore ends whoever led");
}

/// What is surely true, from the answers alone.
#[derive(Default)]
struct Truth {
    /// The agent that was granted the lease last, and whether it was told that it leads.
    holder: Option<(u8, Epoch, bool)>,
    highest: Epoch,
    line: Vec<(u8, JoinHandle<Result<Decided, CommandError>>)>,
    next: u8,
}

impl Truth {
    /// Somebody who has not asked before.
    fn another(&mut self) -> u8 {
        self.next += 1;
        self.next
    }

    fn took(&mut self, number: u8, epoch: Epoch, leads: bool) {
        assert!(epoch > self.highest, "{epoch} after {}", self.highest);
        self.highest = epoch;
        self.holder = Some((number, epoch, leads));
    }

    /// After a release: the first in line is offered it, in the same write.
    async fn succeeded(&mut self) {
        self.holder = None;
        if !self.line.is_empty() {
            let (number, place) = self.line.remove(0);
            let (epoch, offer) = granted(place.await.unwrap());
            assert!(offer);
            self.took(number, epoch, false);
        }
    }
}

/// Random acts, crashes and take-overs; after each of them, who was told that it leads still does, and nobody else is granted anything.
#[tokio::test]
async fn no_play_takes_a_lease_from_who_was_told_that_it_leads() {
    for seed in 0..40_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut roll = move |sides: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % sides
        };
        let inner = MemoryStore::default();
        let mut term = 1;
        let mut engine = Engine::take_over(Arc::new(Held::on(&inner)), Epoch(term)).await.unwrap();
        let mut truth = Truth::default();
        for _ in 0..25 {
            match (roll(5), truth.holder) {
                (0 | 1, None) => {
                    let number = truth.another();
                    let epoch = grant(&engine, number).await;
                    truth.took(number, epoch, true);
                }
                (0 | 1, Some(_)) => {
                    let number = truth.another();
                    truth.line.push((number, in_line(&engine, number).await));
                }
                (2, Some((number, epoch, _))) => {
                    renew(&engine, number, epoch).await.unwrap();
                    truth.holder = Some((number, epoch, true));
                }
                (3, Some((number, epoch, true))) => {
                    release(&engine, number, epoch).await;
                    truth.succeeded().await;
                }
                (4, _) => {
                    // The agents in line lose their places, and may stand in line anew as other agents.
                    for (_, place) in truth.line.drain(..) {
                        place.abort();
                        let _ = place.await;
                    }
                    term += 1;
                    engine = Engine::take_over(Arc::new(Held::on(&inner)), Epoch(term)).await.unwrap();
                }
                (2 | 3, _) => {}
                (5.., _) => unreachable!("there are five sides"),
            }
            if truth.highest > Epoch(0) {
                let document = written(&inner).await;
                assert!(!document.leader.is_some_and(|leader| leader.offered), "seed {seed}");
            }
            if let Some((number, epoch, leads)) = truth.holder {
                let leader = document(&engine).await.leader.unwrap();
                assert_eq!((leader.epoch, leader.incarnation), (epoch, credential(number).incarnation));
                let least = if leader.offered { Span::secs(1) } else { LEAST };
                assert!(held(&engine).await > least && !(leads && leader.offered), "seed {seed}");
            }
        }
    }
}

/// A candidate asks anew every few seconds. It says for how long it has waited, and goes before those who came later.
#[tokio::test]
async fn whoever_asks_anew_gets_its_place_in_line_back() {
    let engine = engine(&Held::on(&MemoryStore::default())).await;
    let first = grant(&engine, 1).await;
    let mut line = Vec::new();
    for (number, waited) in [(2, None), (3, Some(Span::secs(60))), (4, Some(Span::secs(30))), (5, None)] {
        let asks = Acquire { waited, ..acquire(number, TTL) };
        line.push((number, in_line_with(&engine, asks, Span::secs(60)).await));
    }
    release(&engine, 1, first).await;
    for expected in [3, 4, 2, 5] {
        let at = line.iter().position(|(number, _)| *number == expected).unwrap();
        let (number, place) = line.remove(at);
        let (epoch, offer) = granted(place.await.unwrap());
        assert!(offer, "{number} waited");
        renew(&engine, number, epoch).await.unwrap();
        release(&engine, number, epoch).await;
    }
}
