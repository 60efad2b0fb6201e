//! Many commands in one message, lists in parts, and what a crowd leaves behind.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use baton::{Coordinator, Renewal};
use baton_api::CommandError;
use baton_election::command::{Acquire, Ending, Release, Renew};
use baton_election::time::Span;
use baton_election::{Answer, Command, ElectionName, Epoch, Refusal};
use baton_server::{Engine, Options, Server};
use baton_store::conformance::{Swap, Wrapped};
use baton_store::{BoxFuture, MemoryStore, Store, StoreError, Swapped};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support;
use crate::support::credential;

/// A memory store that is slow if it is told to be, counts who writes at the same time, and fails by a fault of its own.
#[derive(Clone, Default)]
struct Slow {
    inner: MemoryStore,
    slow: Arc<AtomicBool>,
    /// The next swap of an election panics.
    panics: Arc<AtomicBool>,
    writing: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// Nobody has written before so many write at the same time, or for a long time.
    crowd: Arc<AtomicUsize>,
}

impl Wrapped for Slow {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.inner.clone())
    }

    fn swaps<'a>(&'a self, swap: Swap<'a>) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            let writing = self.writing.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(writing, Ordering::SeqCst);
            if self.slow.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            for _ in 0..1_000 {
                if self.most.load(Ordering::SeqCst) >= self.crowd.load(Ordering::SeqCst) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            self.writing.fetch_sub(1, Ordering::SeqCst);
            let panics = swap.is_of_election() && self.panics.swap(false, Ordering::SeqCst);
            assert!(!panics, "it was told to");
            swap.at(&self.inner).await
        })
    }
}

fn name(text: &str) -> ElectionName {
    ElectionName::new(text).unwrap()
}

fn acquire(number: u8) -> Acquire {
    support::acquire(number, Span::secs(60))
}

fn release(number: u8, epoch: Epoch) -> Release {
    Release { epoch, credential: credential(number), reason: None, ending: Ending::Stopped }
}

/// A server on a store, at an address of its own, until the test ends.
async fn served(store: &Slow) -> String {
    let listener = Server::listen("127.0.0.1:0".parse().unwrap(), &Options::default()).await.unwrap();
    let server = Server::start(listener, Arc::new(store.clone()), Options::default()).await.unwrap();
    let address = server.listening().address().unwrap().to_string();
    tokio::spawn(server.serve(std::future::pending()));
    address
}

async fn ask(address: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

async fn batch(address: &str, entries: &[Value]) -> Vec<Value> {
    let (status, answers) = ask(address, "POST", "/v1/batch", &json!(entries).to_string()).await;
    assert_eq!(status, 200, "{answers}");
    serde_json::from_value(answers).unwrap()
}

#[tokio::test]
async fn what_a_batch_must_write_is_written_at_the_same_time() {
    let store = Slow::default();
    let address = served(&store).await;
    store.crowd.store(50, Ordering::SeqCst);
    let entries: Vec<Value> =
        (0..200).map(|number| json!({ "election": format!("e-{number}"), "acquire": acquire(1) })).collect();
    let answers = batch(&address, &entries).await;
    assert_eq!(answers.len(), 200);
    assert!(answers.iter().all(|answer| answer["answer"]["outcome"] == "granted"), "{answers:?}");
    let most = store.most.load(Ordering::SeqCst);
    assert!(most >= 50, "at most {most} at the same time");
}

#[tokio::test]
async fn a_batch_answers_each_on_its_own_and_one_election_in_order() {
    let store = Slow::default();
    let address = served(&store).await;
    let renew = |epoch: u64| Renew::new(Epoch(epoch), credential(1));
    let answers = batch(
        &address,
        &[
            json!({ "election": "e", "acquire": acquire(1) }),
            json!({ "election": "e", "renew": renew(1) }),
            json!({ "election": "e", "check": { "token": 1 } }),
            json!({ "election": "Not A Name", "renew": renew(1) }),
            json!({ "election": "e", "release": release(1, Epoch(1)) }),
            json!({ "election": "e", "renew": renew(1) }),
            json!(7),
            json!({ "election": "e", "acquire": acquire(2) }),
            json!({ "election": "e", "check": { "token": 1 } }),
            json!({ "election": "nowhere", "renew": renew(1) }),
            json!({ "election": "e", "renew": renew(1), "check": { "token": 1 } }),
        ],
    )
    .await;
    let said: Vec<&Value> = answers
        .iter()
        .map(|answer| if answer["code"].is_null() { &answer["answer"]["outcome"] } else { &answer["code"] })
        .collect();
    let wanted = [
        "granted",
        "renewed",
        "current",
        "invalid",
        "released",
        "stale",
        "invalid",
        "granted",
        "stale",
        "unknown-election",
        "invalid",
    ];
    assert_eq!(said, wanted, "{answers:#?}");
    assert_eq!(answers[1]["ttl_ms"], 60_000);
    // A second time the renewals are plain.
    let again: Vec<Value> =
        (0..600).map(|_| json!({ "election": "e", "renew": Renew::new(Epoch(2), credential(2)) })).collect();
    let answers = batch(&address, &again).await;
    assert!(answers.iter().all(|answer| answer["answer"]["token"] == 2), "{answers:?}");
    let (_, shown) = ask(&address, "GET", "/v1/elections/e", "").await;
    assert_eq!(shown["record"]["leader"]["renewals"], 600);
    assert_eq!(batch(&address, &[]).await.len(), 0);
}

#[tokio::test]
async fn the_library_renews_and_checks_many_at_once() {
    let store = Slow::default();
    let address = served(&store).await;
    let names: Vec<ElectionName> = (0..50).map(|number| name(&format!("e-{number}"))).collect();
    let entries: Vec<Value> =
        names.iter().map(|election| json!({ "election": election, "acquire": acquire(1) })).collect();
    batch(&address, &entries).await;
    let coordinator = Coordinator::connect(&format!("http://{address}")).await.unwrap();
    let mut renewals: Vec<(ElectionName, Renewal)> =
        names.iter().map(|election| (election.clone(), Renewal::new(Epoch(1), credential(1)))).collect();
    renewals[7].1.credential = credential(2);
    let outcomes = coordinator.renew_many(&renewals).await;
    assert_eq!(outcomes.len(), 50);
    for (number, outcome) in outcomes.iter().enumerate() {
        match (number, outcome) {
            (7, Err(baton::Error::Refused(Refusal::Stale { .. }))) => {}
            (7, other) => panic!("{other:?}"),
            (_, outcome) => {
                let renewed = outcome.as_ref().unwrap();
                assert!(matches!(renewed.answer, Answer::Renewed { epoch: Epoch(1), .. }));
                assert_eq!(renewed.ttl, Some(Span::secs(60)));
            }
        }
    }
    let tokens: Vec<(ElectionName, Epoch)> =
        vec![(names[0].clone(), Epoch(1)), (names[1].clone(), Epoch(9)), (name("nowhere"), Epoch(1))];
    let checked = coordinator.check_many(&tokens).await;
    assert!(checked[0].is_ok());
    assert!(matches!(checked[1], Err(baton::Error::Refused(Refusal::Stale { .. }))), "{:?}", checked[1]);
    assert!(matches!(checked[2], Err(baton::Error::Refused(Refusal::UnknownElection { .. }))));
    assert!(coordinator.renew_many(&[]).await.is_empty());
}

#[tokio::test]
async fn lists_show_names_in_parts() {
    let store = Slow::default();
    let address = served(&store).await;
    let mut names: Vec<String> = (0..25).map(|number| format!("fleet/e-{number}")).collect();
    names.sort_unstable();
    let entries: Vec<Value> =
        names.iter().map(|election| json!({ "election": election, "acquire": acquire(1) })).collect();
    batch(&address, &entries).await;
    let (_, all) = ask(&address, "GET", "/v1/elections", "").await;
    assert_eq!(all, json!(names));
    let mut parts: Vec<String> = Vec::new();
    loop {
        let after = parts.last().map_or(String::new(), |last| format!("&after={}", last.replace('/', "%2F")));
        let (_, part) = ask(&address, "GET", &format!("/v1/elections?limit=10{after}"), "").await;
        let part: Vec<String> = serde_json::from_value(part).unwrap();
        assert!(part.len() <= 10);
        parts.extend(part.iter().cloned());
        if part.len() < 10 {
            break;
        }
    }
    assert_eq!(parts, names);
    assert_eq!(ask(&address, "GET", "/v1/elections?after=Not%20A%20Name", "").await.0, 400);
    // Whoever asked for more than one answer has would take the last of it for the last of all.
    assert_eq!(ask(&address, "GET", "/v1/elections?limit=10000", "").await.1, json!(names));
    for limit in ["0", "10001", "20000", "99999999999999999999"] {
        let (status, refused) = ask(&address, "GET", &format!("/v1/elections?limit={limit}"), "").await;
        assert_eq!((status, &refused["code"]), (400, &json!("invalid")), "{limit}: {refused}");
    }
    let (status, refused) = ask(&address, "GET", "/v1/elections/fleet/e-1/leader", "").await;
    assert_eq!((status, &refused["code"]), (404, &json!("no-such-route")), "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("%2F"), "{refused}");
    let admitted = json!({ "token": 1, "election": names[0] }).to_string();
    assert_eq!(ask(&address, "POST", "/v1/fences/db%2Forders/admit", &admitted).await.0, 200);
    assert_eq!(ask(&address, "GET", "/v1/fences", "").await.1, json!(["db/orders"]));
    let coordinator = Coordinator::connect(&format!("http://{address}")).await.unwrap();
    assert_eq!(coordinator.elections().await.unwrap().len(), 25);
}

#[tokio::test]
async fn commands_are_carried_out_in_the_order_in_which_they_came() {
    let store = Slow::default();
    let engine = Engine::start(Arc::new(store.clone())).await.unwrap();
    let election = name("e");
    let mut epoch = match engine.execute(&election, &Command::Acquire(acquire(1))).await.unwrap().answer {
        Answer::Granted { epoch, .. } => epoch,
        other => panic!("{other:?}"),
    };
    store.slow.store(true, Ordering::SeqCst);
    let mut holder = 1;
    for round in 0..10 {
        // All of them are asked while the release is being written, and only the first of them can have it.
        let released = Command::Release(release(holder, epoch));
        let first = 2 + 10 * round;
        let acquires = (first..first + 10).map(|number| Command::Acquire(acquire(number)));
        let commands: Vec<Command> = std::iter::once(released).chain(acquires).collect();
        let asked: Vec<_> = commands.iter().map(|command| engine.execute(&election, command)).collect();
        let outcomes = futures_util::future::join_all(asked).await;
        let granted: Vec<usize> = (0..outcomes.len()).filter(|at| outcomes[*at].is_ok()).collect();
        assert_eq!(granted, [0, 1], "round {round}");
        holder = first;
        epoch = Epoch(epoch.0 + 1);
    }
}

#[tokio::test]
async fn a_fault_in_a_write_leaves_no_election_locked() {
    let store = Slow::default();
    let engine = Engine::start(Arc::new(store.clone())).await.unwrap();
    let election = name("e");
    store.panics.store(true, Ordering::SeqCst);
    let acquire = Command::Acquire(acquire(1));
    let failed = engine.execute(&election, &acquire).await.unwrap_err();
    assert!(matches!(failed, CommandError::Store(StoreError::Unknown { .. })), "{failed:?}");
    let again = tokio::time::timeout(Duration::from_secs(20), engine.execute(&election, &acquire)).await;
    assert!(matches!(again.unwrap().unwrap().answer, Answer::Granted { epoch: Epoch(1), .. }));
    // The same while others are queued behind it.
    store.slow.store(true, Ordering::SeqCst);
    store.panics.store(true, Ordering::SeqCst);
    let (released, renewed) =
        (Command::Release(release(1, Epoch(1))), Command::Renew(Renew::new(Epoch(1), credential(1))));
    let (broken, queued) =
        tokio::join!(engine.execute(&election, &released), engine.execute(&election, &renewed));
    assert!(broken.is_err() && queued.is_err(), "{broken:?} {queued:?}");
    engine.execute(&election, &renewed).await.unwrap();
    assert_eq!(engine.remembered(), 1);
}

#[tokio::test]
async fn what_is_not_there_leaves_nothing_behind() {
    let store = Slow::default();
    let engine = Engine::start(Arc::new(store)).await.unwrap();
    for number in 0..500 {
        let election = name(&format!("unknown-{number}"));
        assert!(engine.view(&election).await.unwrap().document.is_none());
        assert!(engine.leader(&election).await.unwrap().is_none());
        assert!(engine.check(&election, Epoch(1)).await.is_err());
        let renew = Command::Renew(Renew::new(Epoch(1), credential(1)));
        let refused = engine.execute(&election, &renew).await.unwrap_err();
        assert!(matches!(refused, CommandError::Refused(Refusal::UnknownElection { .. })), "{refused:?}");
        drop(engine.subscribe(&election, None));
    }
    assert_eq!(engine.remembered(), 0);
}
