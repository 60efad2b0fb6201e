//! Several servers on one store, over HTTP: one answers, the others say which, and what has lost its lease is silent.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton::{Coordinator, Error, Memory, NewToken};
use baton_election::operator::{Act, OperatorKey};
use baton_election::time::Span;
use baton_election::tokens::Role;
use baton_election::{ElectionName, Refusal};
use baton_server::{Founders, Limits, Membership, Options, Quotas, Server};
use baton_store::{MemoryStore, Store};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support;
use crate::support::{Held, acquire, credential};

/// The servers' own lease: longer than a busy machine stands still.
const TTL: Span = Span::secs(5);

struct RunningServer {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// A reply: its status, where it sends us, and its body.
#[derive(Debug)]
struct Response {
    status: u16,
    location: Option<String>,
    body: Value,
}

async fn server(store: Arc<dyn Store>) -> RunningServer {
    let founders = Arc::new(Founders::with_keys(vec![OperatorKey::from_seed([1; 32]).public()]));
    server_with(store, Options { founders, ..Options::default() }).await
}

async fn server_with(store: Arc<dyn Store>, options: Options) -> RunningServer {
    let listener = Server::listen("127.0.0.1:0".parse().unwrap(), &options).await.unwrap();
    let contact = format!("http://{}", listener.local_addr().unwrap());
    let server =
        Server::join(listener, store, options, Membership { contact, ttl: TTL }, |_| {}).await.unwrap();
    let (address, (stop, stopped)) = (server.listening().address().unwrap(), oneshot::channel::<()>());
    let served = tokio::spawn(server.serve(async { drop(stopped.await) }));
    RunningServer { address, stop, served }
}

async fn ask(to: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> Response {
    ask_with(to, method, path, body, None).await
}

async fn ask_with(
    to: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
    token: Option<&str>,
) -> Response {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let body = body.map(Value::to_string).unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let length = body.len();
    let token = token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {length}\r\n{token}{kind}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_lowercase().starts_with(name))?;
        Some(line.split_once(": ")?.1.to_string())
    };
    Response {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        location: header("location"),
        body: serde_json::from_str(body).unwrap_or(Value::Null),
    }
}

/// Waits until one of them answers for elections, and says which.
async fn active(servers: &[SocketAddr]) -> SocketAddr {
    for _ in 0..6_000 {
        for server in servers {
            if ask(*server, "GET", "/v1/elections", None).await.status == 200 {
                return *server;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody is active");
}

/// Waits until a server sends us to another.
async fn redirects(from: SocketAddr, path: &str) -> Response {
    for _ in 0..6_000 {
        let said = ask(from, "GET", path, None).await;
        if said.status == 307 {
            return said;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it sends us nowhere");
}

fn renewal(epoch: &Value) -> Value {
    json!({ "token": epoch, "credential": credential(1) })
}

#[tokio::test]
async fn one_is_active_the_others_say_which_and_a_stop_hands_over() {
    let store = MemoryStore::default();
    let (a, b) = (server(Arc::new(store.clone())).await, server(Arc::new(store)).await);
    let first = active(&[a.address, b.address]).await;
    let (first, second) = if first == a.address { (a, b) } else { (b, a) };
    let said = redirects(second.address, "/v1/elections/e%2Ff/leader?x=1").await;
    let there = format!("http://{}/v1/elections/e%2Ff/leader?x=1", first.address);
    assert_eq!((said.location.as_ref(), &said.body["code"]), (Some(&there), &json!("not-active")));
    assert_eq!(ask(second.address, "GET", "/healthz", None).await.status, 200);
    // Whoever collects metrics asks each server by itself: it says that it stands by.
    assert_eq!(ask(second.address, "GET", "/metrics", None).await.status, 200);
    assert_eq!(ask(second.address, "GET", "/openapi.json", None).await.status, 200);
    let ready = ask(second.address, "GET", "/readyz", None).await;
    assert_eq!(ready.body["active"], format!("http://{}", first.address));
    let wanted = serde_json::to_value(acquire(1, Span::secs(30))).unwrap();
    let asked = ask(second.address, "POST", "/v1/elections/e/acquire", Some(&wanted)).await;
    assert_eq!(asked.status, 307, "{asked:?}");
    let led = ask(first.address, "POST", "/v1/elections/e/acquire", Some(&wanted)).await;
    assert_eq!(led.status, 200, "{led:?}");
    let epoch = &led.body["answer"]["token"];
    first.stop.send(()).unwrap();
    first.served.await.unwrap();
    assert_eq!(active(&[second.address]).await, second.address);
    let renewed = ask(second.address, "POST", "/v1/elections/e/renew", Some(&renewal(epoch))).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let servers = ask(second.address, "GET", "/v1/elections/_baton%2Fservers/leader", None).await;
    assert_eq!(servers.body["contact"], format!("http://{}", second.address));
    let refused = ask(second.address, "POST", "/v1/elections/_baton%2Fservers/acquire", Some(&wanted)).await;
    assert_eq!(refused.body["code"], "invalid", "{refused:?}");
    second.stop.send(()).unwrap();
    second.served.await.unwrap();
}

#[tokio::test]
async fn who_is_cut_off_from_the_store_says_nothing_once_its_lease_has_ended() {
    let inner = MemoryStore::default();
    let (one, two) = (Held::on(&inner), Held::on(&inner));
    let first = server(Arc::new(one.clone())).await;
    active(&[first.address]).await;
    let wanted = serde_json::to_value(acquire(1, Span::secs(30))).unwrap();
    let led = ask(first.address, "POST", "/v1/elections/e/acquire", Some(&wanted)).await;
    let epoch = &led.body["answer"]["token"];
    // What is told as it happens ends too.
    let mut watching = TcpStream::connect(first.address).await.unwrap();
    let request = format!("GET /v1/elections/e/watch HTTP/1.1\r\nhost: {}\r\n\r\n", first.address);
    watching.write_all(request.as_bytes()).await.unwrap();
    one.cut.store(true, Ordering::SeqCst);
    let second = server(Arc::new(two)).await;
    active(&[second.address]).await;
    // It has the election in memory, and could say that it was renewed.
    let silent = ask(first.address, "POST", "/v1/elections/e/renew", Some(&renewal(epoch))).await;
    assert!(matches!(silent.status, 307 | 503), "{silent:?}");
    assert_eq!(silent.body["code"], "not-active");
    let leader = ask(first.address, "GET", "/v1/elections/e/leader", None).await;
    assert_eq!(leader.body["code"], "not-active");
    let mut told = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(60), async {
        let mut piece = [0; 4_096];
        while let Ok(length @ 1..) = watching.read(&mut piece).await {
            told.extend_from_slice(&piece[..length]);
            if told.ends_with(b"\r\n0\r\n\r\n") {
                break;
            }
        }
    });
    ended.await.expect("its stream goes on");
    let renewed = ask(second.address, "POST", "/v1/elections/e/renew", Some(&renewal(epoch))).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    one.cut.store(false, Ordering::SeqCst);
    let said = redirects(first.address, "/v1/elections").await;
    assert_eq!(said.location, Some(format!("http://{}/v1/elections", second.address)));
    for server in [first, second] {
        server.stop.send(()).unwrap();
        server.served.await.unwrap();
    }
}

/// Asks with a token until the server answers so.
async fn until_said(to: SocketAddr, token: &str, wanted: impl Fn(u16) -> bool) -> u16 {
    for _ in 0..6_000 {
        let said = ask_with(to, "GET", "/v1/elections", None, Some(token)).await;
        if wanted(said.status) {
            return said.status;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not say so");
}

#[tokio::test]
async fn who_was_revoked_at_one_server_is_not_let_in_by_the_next() {
    let inner = MemoryStore::default();
    let direct = Coordinator::with_store(Arc::new(inner.clone()), Memory::new());
    let operator = OperatorKey::from_seed([7; 32]);
    direct.operators().enrol(&operator).await.unwrap();
    let new = agents();
    let (kept, _, _) = direct.tokens().create(&operator, &new).await.unwrap();
    let (revoked, entry, _) = direct.tokens().create(&operator, &new).await.unwrap();
    let options = Options { require_tokens: true, ..Options::default() };
    let first = server_with(Arc::new(inner.clone()), options.clone()).await;
    assert_eq!(until_said(first.address, revoked.reveal(), |status| status == 200).await, 200);
    // The other one has read the tokens, and is told of no change.
    let untold = Held::on(&inner);
    untold.untold.store(true, Ordering::SeqCst);
    let second = server_with(Arc::new(untold), options).await;
    direct.tokens().revoke(&operator, entry.id).await.unwrap();
    until_said(first.address, revoked.reveal(), |status| status == 401).await;
    first.stop.send(()).unwrap();
    first.served.await.unwrap();
    let answers = |status| !matches!(status, 307 | 503);
    assert_eq!(until_said(second.address, revoked.reveal(), answers).await, 401);
    assert_eq!(until_said(second.address, kept.reveal(), answers).await, 200);
    // It looks by itself.
    let (late, _, _) = direct.tokens().create(&operator, &new).await.unwrap();
    until_said(second.address, late.reveal(), |status| status == 200).await;
    second.stop.send(()).unwrap();
    second.served.await.unwrap();
}

/// A token for agents.
fn agents() -> NewToken {
    NewToken {
        role: Role::Agent,
        agents: Vec::new(),
        elections: Vec::new(),
        resources: Vec::new(),
        note: String::new(),
        expires: None,
    }
}

#[tokio::test]
async fn what_each_token_has_is_counted_the_same_by_the_server_that_takes_over() {
    let inner = MemoryStore::default();
    let direct = Coordinator::with_store(Arc::new(inner.clone()), Memory::new());
    let operator = OperatorKey::from_seed([7; 32]);
    direct.operators().enrol(&operator).await.unwrap();
    let (one, entry, _) = direct.tokens().create(&operator, &agents()).await.unwrap();
    let (other, _, _) = direct.tokens().create(&operator, &agents()).await.unwrap();
    let quotas = Quotas { token_elections: 3, ..Quotas::default() };
    let limits = Limits { quotas, ..Limits::default() };
    let options = Options { require_tokens: true, limits, ..Options::default() };
    let first = server_with(Arc::new(inner.clone()), options.clone()).await;
    until_said(first.address, one.reveal(), |status| status == 200).await;
    // It stands by from before there is anything to count.
    let second = server_with(Arc::new(inner.clone()), options).await;
    let begin = async |at: SocketAddr, token: &str, name: &str| {
        let body = json!(acquire(1, Span::secs(60)));
        ask_with(at, "POST", &format!("/v1/elections/{name}/acquire"), Some(&body), Some(token)).await
    };
    for name in ["a", "b", "c"] {
        assert_eq!(begin(first.address, one.reveal(), name).await.status, 200);
    }
    assert_eq!(begin(first.address, other.reveal(), "theirs").await.status, 200);
    let refused = begin(first.address, one.reveal(), "d").await;
    let said = format!("the access token {} has 3 elections", entry.id);
    assert!(refused.status == 422 && refused.body.to_string().contains(&said), "{refused:?}");
    first.stop.send(()).unwrap();
    first.served.await.unwrap();
    until_said(second.address, one.reveal(), |status| status == 200).await;
    // It counts in the background, and until then lets in more than it should.
    let (mut begun, mut tries) = (3, 0);
    loop {
        let said = begin(second.address, one.reveal(), &format!("d-{begun}")).await;
        let has_all = format!("the access token {} has {begun} elections", entry.id);
        match said.status {
            200 => begun += 1,
            422 if said.body.to_string().contains(&has_all) => break,
            422 => {}
            _ => panic!("{said:?}"),
        }
        tries += 1;
        assert!(tries < 6_000, "it never counts what the former server wrote: {said:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for name in ["a", "b", "c"] {
        let leads = begin(second.address, one.reveal(), name).await;
        assert_eq!(leads.status, 200, "what there is may be led: {leads:?}");
    }
    assert_eq!(begin(second.address, other.reveal(), "theirs-too").await.status, 200);
    second.stop.send(()).unwrap();
    second.served.await.unwrap();
}

#[tokio::test]
async fn what_was_found_out_too_late_does_not_leave() {
    let inner = MemoryStore::default();
    let (one, two) = (Held::on(&inner), Held::on(&inner));
    let first = server(Arc::new(one.clone())).await;
    active(&[first.address]).await;
    // Its writes are held back, the one that grants and those that renew its own lease.
    one.hold.send_replace(true);
    let wanted = serde_json::to_value(acquire(1, Span::secs(30))).unwrap();
    let asked = tokio::spawn({
        let (to, wanted) = (first.address, wanted.clone());
        async move { ask(to, "POST", "/v1/elections/e/acquire", Some(&wanted)).await }
    });
    let second = server(Arc::new(two)).await;
    active(&[second.address]).await;
    one.hold.send_replace(false);
    let silent = asked.await.unwrap();
    // It may have been done, and was: that is told apart from what a server says that did nothing.
    assert_eq!((silent.status, &silent.body["code"]), (503, &json!("unknown")), "{silent:?}");
    assert_eq!(silent.body["active"], false);
    // Nobody had asked for the election since, so that the grant stands, and who asks again is told of it by the next server.
    let led = ask(second.address, "POST", "/v1/elections/e/acquire", Some(&wanted)).await;
    assert_eq!((led.status, &led.body["answer"]["token"]), (200, &json!(1)), "{led:?}");
    for server in [first, second] {
        server.stop.send(()).unwrap();
        server.served.await.unwrap();
    }
}

#[tokio::test]
async fn what_waited_at_a_former_server_is_not_carried_out() {
    let inner = MemoryStore::default();
    let (one, two) = (Held::on(&inner), Held::on(&inner));
    let first = server(Arc::new(one.clone())).await;
    active(&[first.address]).await;
    let wanted = serde_json::to_value(acquire(1, Span::secs(30))).unwrap();
    let led = ask(first.address, "POST", "/v1/elections/e/acquire", Some(&wanted)).await;
    let mandate = json!({ "token": led.body["answer"]["token"], "credential": credential(1) });
    let tasks =
        json!({ "mandate": mandate, "tasks": [{ "id": "t", "title": "t" }, { "id": "u", "title": "u" }] });
    let added = ask(first.address, "POST", "/v1/elections/e/tasks", Some(&tasks)).await;
    assert_eq!(added.status, 200, "{added:?}");
    let before = one.items_swapped.load(Ordering::SeqCst);
    // Two orders: one has been looked up for, and the other waits for it.
    one.hold_items.send_replace(true);
    let asked = ["t", "u"].map(|id| {
        let (to, order) = (first.address, json!({ "order": "assign", "mandate": mandate, "to": "agent-2" }));
        tokio::spawn(
            async move { ask(to, "POST", &format!("/v1/elections/e/tasks/{id}"), Some(&order)).await },
        )
    });
    support::until(|| one.holding_items.load(Ordering::SeqCst) > 0).await;
    // Its own lease is renewed no more, and the next server tells of the board.
    one.hold.send_replace(true);
    let second = server(Arc::new(two)).await;
    active(&[second.address]).await;
    let queued = async || {
        let board = ask(second.address, "GET", "/v1/elections/e/board", None).await;
        board.body["queued"].clone()
    };
    assert_eq!(queued().await, 2);
    one.hold_items.send_replace(false);
    for asked in asked {
        let silent = asked.await.unwrap();
        assert_eq!(silent.status, 503, "{silent:?}");
    }
    assert_eq!(one.items_swapped.load(Ordering::SeqCst), before, "it was carried out");
    let direct = Coordinator::with_store(Arc::new(inner), Memory::new());
    let counts = direct.toolbox(&ElectionName::new("e").unwrap()).counts().await.unwrap();
    assert_eq!((counts.queued, counts.assigned), (2, 0));
    one.hold.send_replace(false);
    for server in [first, second] {
        server.stop.send(()).unwrap();
        server.served.await.unwrap();
    }
}

#[tokio::test]
async fn who_the_operators_are_is_changed_through_the_servers_in_their_own_election_too() {
    let store = MemoryStore::default();
    let (a, b) = (server(Arc::new(store.clone())).await, server(Arc::new(store.clone())).await);
    active(&[a.address, b.address]).await;
    let url = format!("http://{},{}", a.address, b.address);
    let through = Coordinator::connect(&url).await.unwrap();
    let servers = ElectionName::new(baton::SERVERS).unwrap();
    let keys = async || {
        let direct = Coordinator::with_store(Arc::new(store.clone()), Memory::new());
        direct.view(&servers).await.unwrap().document.unwrap().operator_keys
    };
    let [one, two] = [1, 2].map(|seed| OperatorKey::from_seed([seed; 32]));
    assert_eq!(through.operators().enrol(&one).await.unwrap(), 1, "there is no election but theirs");
    let added = through.operators().add(&one, two.public()).await.unwrap();
    assert!(added.failed.is_empty(), "{added:?}");
    assert_eq!(**keys().await, [one.public(), two.public()]);
    let removed = through.operators().remove(&two, one.public()).await.unwrap();
    assert!(removed.failed.is_empty(), "{removed:?}");
    assert_eq!(**keys().await, [two.public()]);
    // Whatever else an operator does to it is done in the store.
    let deposed = through.operate(&servers, &two, &Act::Depose { force: false, reason: String::new() }).await;
    assert!(matches!(deposed, Err(Error::Refused(Refusal::Invalid { .. }))), "{deposed:?}");
    for server in [a, b] {
        server.stop.send(()).unwrap();
        server.served.await.unwrap();
    }
}
