//! Deliveries of changes of leader, to receivers of the test's own that fail, hang and come back.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::election::{AgentName, ElectionName};
use baton::{Bid, Coordinator, Grant, Renewal, mint_credential};
use baton_server::{Deliveries, Options, Receiver, Secret, Server, Tell, Thresholds, Warnings};
use baton_store::MemoryStore;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A bound on a hang, not an expectation.
const HANG: Duration = Duration::from_secs(180);

/// What a receiver does with a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mood {
    Takes,
    Fails,
    Hangs,
    SendsOn(String),
}

/// A receiver that notes what it takes.
#[derive(Clone)]
struct TestReceiver {
    address: SocketAddr,
    mood: watch::Sender<Mood>,
    taken: watch::Sender<Vec<Value>>,
    asked: watch::Sender<usize>,
}

impl TestReceiver {
    async fn start(mood: Mood) -> TestReceiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mood, taken) = (watch::Sender::new(mood), watch::Sender::new(Vec::new()));
        let listening = TestReceiver { address, mood, taken, asked: watch::Sender::new(0) };
        let serving = listening.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let serving = serving.clone();
                tokio::spawn(async move {
                    let answer = service_fn(move |request| {
                        let serving = serving.clone();
                        async move { Ok::<_, Infallible>(serving.answer(request).await) }
                    });
                    let builder = hyper::server::conn::http1::Builder::new();
                    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        listening
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        self.asked.send_modify(|count| *count += 1);
        let mood = self.mood.borrow().clone();
        let reply = Response::builder();
        match mood {
            Mood::Takes => {
                let header = |name: &str| parts.headers.get(name).unwrap().to_str().unwrap().to_string();
                verify(&header("baton-signature"), &body, &self.secret());
                assert_eq!(header("content-type"), "application/json");
                let told: Value = serde_json::from_slice(&body).unwrap();
                let id = format!("{}-{}", told["server"].as_str().unwrap(), told["number"]);
                assert_eq!(header("baton-delivery"), id);
                self.taken.send_modify(|taken| taken.push(told));
                reply.status(204)
            }
            Mood::Fails => reply.status(500),
            Mood::Hangs => std::future::pending().await,
            Mood::SendsOn(url) => reply.status(307).header("location", url),
        }
        .body(Full::default())
        .unwrap()
    }

    fn url(&self) -> String {
        format!("http://{}/hook?of=baton", self.address)
    }

    /// Each receiver has its own.
    fn secret(&self) -> String {
        format!("only {} and the server know it", self.address)
    }

    async fn takes(&self, count: usize) -> Vec<Value> {
        let mut taken = self.taken.subscribe();
        let taken = tokio::time::timeout(HANG, taken.wait_for(|taken| taken.len() >= count));
        taken.await.unwrap_or_else(|_| panic!("{} of {count}", self.taken.borrow().len())).unwrap().clone()
    }

    async fn is_asked(&self, count: usize) {
        let mut asked = self.asked.subscribe();
        tokio::time::timeout(HANG, asked.wait_for(|asked| *asked >= count))
            .await
            .expect("it is not asked")
            .unwrap();
    }
}

/// As a receiver would: in constant time.
fn verify(header: &str, body: &[u8], secret: &str) {
    let (seconds, signature) = header.split_once(",v1=").unwrap();
    let seconds = seconds.strip_prefix("t=").unwrap();
    let bytes: Vec<u8> = (0..signature.len() / 2)
        .map(|at| u8::from_str_radix(&signature[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{seconds}.").as_bytes());
    mac.update(body);
    mac.verify_slice(&bytes).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(seconds.parse().unwrap()) < 600);
}

struct World {
    coordinator: Coordinator,
    said: Arc<Mutex<Vec<String>>>,
    _deliveries: Deliveries,
}

async fn world(receivers: &[&TestReceiver]) -> World {
    // That elections change too often would be told as well, in the same line; it is not what these tests are about.
    let limits = Thresholds { flapping: None, elections: None, ..Thresholds::default() };
    let options = Options { warnings: Warnings { limits, ..Warnings::default() }, ..Options::default() };
    let listener = Server::listen("127.0.0.1:0".parse().unwrap(), &options).await.unwrap();
    let mut server = Server::start(listener, Arc::new(MemoryStore::default()), options).await.unwrap();
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&said);
    let tell: Tell = Arc::new(move |text| notes.lock().unwrap().push(text.to_string()));
    let receiver = |listening: &&TestReceiver| {
        Receiver::new(&listening.url(), Secret::new(&listening.secret()).unwrap()).unwrap()
    };
    let deliveries = server.tell(receivers.iter().map(receiver).collect(), tell).unwrap();
    let url = format!("http://{}", server.listening().address().unwrap());
    tokio::spawn(server.serve(std::future::pending()));
    World { coordinator: Coordinator::connect(&url).await.unwrap(), said, _deliveries: deliveries }
}

impl World {
    async fn lead(&self, election: &str, agent: &str) -> Grant {
        let bid = Bid::new(AgentName::new(agent).unwrap());
        let credential = mint_credential().unwrap();
        self.coordinator.acquire(&name(election), &bid, credential, None, None).await.unwrap()
    }

    async fn lead_for_a_moment(&self, election: &str, agent: &str) {
        let grant = self.lead(election, agent).await;
        self.coordinator.release(&name(election), grant.epoch, grant.credential, None).await.unwrap();
    }
}

fn name(election: &str) -> ElectionName {
    ElectionName::new(election).unwrap()
}

fn facts(told: &Value) -> (&str, u64, &str, &str, u64) {
    let text = |field: &str| told[field].as_str().unwrap();
    (
        text("election"),
        told["token"].as_u64().unwrap(),
        text("cause"),
        text("leader"),
        told["missed"].as_u64().unwrap(),
    )
}

#[tokio::test]
async fn changes_of_leader_are_told_in_order_and_renewals_are_not() {
    let hook = TestReceiver::start(Mood::Takes).await;
    let world = world(&[&hook]).await;
    let first = world.lead("e", "a").await;
    for _ in 0..5 {
        world.coordinator.renew(&name("e"), &Renewal::new(first.epoch, first.credential)).await.unwrap();
    }
    world.coordinator.release(&name("e"), first.epoch, first.credential, None).await.unwrap();
    world.lead("e", "b").await;
    world.lead("other", "c").await;
    let told = hook.takes(3).await;
    let told: Vec<_> = told.iter().map(facts).collect();
    assert_eq!(told, [("e", 1, "first", "a", 0), ("e", 2, "release", "b", 0), ("other", 1, "first", "c", 0)]);
    assert_eq!(*hook.asked.borrow(), 3);
    let told = hook.takes(3).await;
    assert!(told.windows(2).all(|pair| pair[0]["number"].as_u64() < pair[1]["number"].as_u64()));
    assert_eq!((&told[1]["from"], &told[1]["type"]), (&"a".into(), &"transition".into()));
    assert!(told[0]["at"].as_str().unwrap().ends_with('Z'));
    assert!(world.said.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_receiver_that_fails_or_hangs_holds_nobody_up_and_is_told_when_it_is_back() {
    for mood in [Mood::Fails, Mood::Hangs, Mood::SendsOn("http://127.0.0.1:9/".to_string())] {
        let (sick, well) = (TestReceiver::start(mood.clone()).await, TestReceiver::start(Mood::Takes).await);
        let world = world(&[&sick, &well]).await;
        for agent in ["a", "b", "c"] {
            world.lead_for_a_moment("e", agent).await;
        }
        well.takes(3).await;
        sick.is_asked(1).await;
        assert!(sick.taken.borrow().is_empty());
        if mood != Mood::Hangs {
            sick.is_asked(2).await;
            let said = world.said.lock().unwrap().clone();
            assert_eq!(said.len(), 1, "once, not at every try: {said:?}");
            assert!(!said[0].contains("/hook"), "a path may hold a secret: {said:?}");
        }
        sick.mood.send_replace(Mood::Takes);
        let told = sick.takes(3).await;
        let epochs: Vec<_> = told.iter().map(|told| told["token"].as_u64().unwrap()).collect();
        assert_eq!(epochs, [1, 2, 3], "{mood:?}");
        assert!(told.iter().all(|told| told["missed"] == 0));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = TestReceiver::start(Mood::Takes).await;
    let hook = TestReceiver::start(Mood::SendsOn(elsewhere.url())).await;
    let world = world(&[&hook]).await;
    world.lead("e", "a").await;
    hook.is_asked(2).await;
    assert_eq!(*elsewhere.asked.borrow(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dropped_is_counted() {
    let hook = TestReceiver::start(Mood::Fails).await;
    let world = world(&[&hook]).await;
    world.lead_for_a_moment("e", "a").await;
    hook.is_asked(1).await;
    // The first is in hand; so many more than can wait come behind it.
    for _ in 0..1_024 + 7 {
        world.lead_for_a_moment("e", "b").await;
    }
    hook.mood.send_replace(Mood::Takes);
    let told = hook.takes(1_025).await;
    let summary = |told: &Value| (told["token"].as_u64().unwrap(), told["missed"].as_u64().unwrap());
    assert_eq!(summary(&told[0]), (1, 0));
    assert_eq!(summary(&told[1]), (9, 7), "seven were dropped");
    assert_eq!(summary(&told[1_024]), (1_032, 0));
}

#[test]
fn what_is_no_receiver_is_refused() {
    for url in ["", "ftp://a/", "a", "http:///x", "https://user:password@a/", "//a"] {
        let refused = Receiver::new(url, Secret::new(&"x".repeat(16)).unwrap()).err();
        assert!(refused.as_ref().is_some_and(|why| !why.contains("password@")), "{url}: {refused:?}");
    }
    assert!(Secret::new("short").is_none());
}
