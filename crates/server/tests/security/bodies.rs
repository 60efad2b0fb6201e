//! The nastiest bodies and queries to every route: none keeps other requests waiting.
//!
//! The server runs on one worker thread, beside a task that reads that thread's CPU clock again and again. What the clock moved between two
//! readings is an upper bound on what one poll of any task took. It does not count the time in which the machine did other things.

#![allow(clippy::print_stderr, reason = "the figures of the run")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use baton_election::tokens::Role;
use baton_server::Options;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::client::{Answer, HANG, get, post, receive, request};
use super::matrix::{body, named};
use super::setting::{Setting, acquire, credential};

/// What one poll may take of the CPU.
const LONGEST: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 50 });

/// A server whose polls are watched.
struct WatchedServer {
    setting: Setting,
    longest: Arc<AtomicU64>,
    runtime: Option<Runtime>,
}

impl WatchedServer {
    async fn start(options: Options) -> WatchedServer {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let longest = Arc::new(AtomicU64::new(0));
        let setting = runtime.spawn(async move { Setting::new(options).await }).await.unwrap();
        runtime.spawn(watch_polls(Arc::clone(&longest)));
        WatchedServer { setting, longest, runtime: Some(runtime) }
    }

    /// The longest poll since the last look.
    fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest.swap(0, Ordering::Relaxed))
    }
}

impl Drop for WatchedServer {
    fn drop(&mut self) {
        // One runtime cannot be waited for in another.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn watch_polls(longest: Arc<AtomicU64>) {
    let used = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
    };
    let mut before = used();
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now = used();
        longest.fetch_max(now - before, Ordering::Relaxed);
        before = now;
    }
}

/// Texts of this length that are much work to somebody who reads them carelessly.
fn nasty(length: usize) -> Vec<(&'static str, String)> {
    let filled = |begin: &str, with: &str, end: &str| {
        let room = length.saturating_sub(begin.len() + end.len());
        format!("{begin}{}{end}", with.repeat(room / with.len()))
    };
    vec![
        ("large numbers", filled(r#"{"x":["#, "1e308,", "1]}")),
        ("whole floats", filled(r#"{"x":["#, "1e9,", "1]}")),
        ("a number of many digits", filled(r#"{"x":"#, "1", "}")),
        ("a fraction of many digits", filled(r#"{"x":0."#, "3", "e-300}")),
        ("depth", filled(r#"{"x":"#, "[", "")),
        ("many keys", filled("{", r#""k":1.0,"#, r#""x":1}"#)),
        ("escapes", filled(r#"{"x":""#, r"\u0000", r#""}"#)),
        ("white space", filled("{", " ", "}")),
    ]
}

/// The same as a batch.
fn nasty_batches(length: usize) -> Vec<(&'static str, String)> {
    let many = |entry: &str| format!("[{}{entry}]", format!("{entry},").repeat(19_999));
    let mut all: Vec<_> =
        nasty(length - 2).into_iter().map(|(what, text)| (what, format!("[{text}]"))).collect();
    let acquires =
        (0..20_000).map(|number| json!({ "election": format!("e/{number}"), "acquire": acquire("a", 1) }));
    all.extend([
        ("entries that are none", many("1e308")),
        ("odd entries", many(r#"{"election":"mine","check":{"token":1e308}}"#)),
        ("checks of one election", many(r#"{"election":"mine","check":{"token":7.0}}"#)),
        ("checks of no election", many(r#"{"election":"nobody/s","check":{"token":7}}"#)),
        ("acquires", Value::Array(acquires.collect()).to_string()),
    ]);
    all
}

async fn post_text(at: SocketAddr, path: &str, token: &str, text: &str) -> Answer {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    tokio::time::timeout(HANG, receive(&mut stream)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_on_any_route_holds_up_the_others() {
    let watched = WatchedServer::start(Options { require_tokens: true, ..Options::default() }).await;
    let (setting, at) = (&watched.setting, watched.setting.address);
    let operator = setting.token(Role::Operator).await;
    let led = post(at, "/v1/elections/mine/acquire", Some(&operator), &acquire("alice", 1)).await;
    assert_eq!(led.status, 200, "{led:?}");
    let described = get(at, "/openapi.json", None).await.json();
    watched.longest();
    let mut worst = (Duration::ZERO, String::new());
    let mut routes = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        let Some(operation) = methods.get("post") else { continue };
        let id = operation["operationId"].as_str().unwrap();
        let largest = operation["requestBody"]["x-max-bytes"].as_u64().unwrap();
        let largest = usize::try_from(largest).unwrap();
        let mut texts = if id == "batch" { nasty_batches(largest) } else { nasty(largest) };
        if let Value::Object(mut usual) = body(setting, id).await {
            usual.insert("state".to_string(), json!(vec![1e308; (largest / 8).min(10_000)]));
            texts.push(("a large state", Value::Object(usual).to_string()));
        }
        for (what, text) in texts {
            let answer = post_text(at, &named(path), &operator, &text).await;
            assert!(answer.status < 500, "{what} to {id}: {answer:?}");
            let longest = watched.longest();
            worst = worst.max((longest, format!("{what} to {id}")));
            assert!(longest < LONGEST, "a poll took {longest:?} for {what}, {} bytes, to {id}", text.len());
        }
        routes += 1;
    }
    assert!(routes >= 30, "{routes}");
    assert!(worst.0 > Duration::ZERO, "nothing was measured");
    eprintln!("{routes} routes; the longest poll took {:?}: {}", worst.0, worst.1);
}

/// Streams do not end, and are left out.
#[tokio::test(flavor = "multi_thread")]
async fn no_look_holds_up_the_others() {
    const ELECTIONS: usize = 5_000;
    let watched = WatchedServer::start(Options { require_tokens: true, ..Options::default() }).await;
    let (setting, at) = (&watched.setting, watched.setting.address);
    let operator = setting.token(Role::Operator).await;
    let entries =
        (0..ELECTIONS).map(|number| json!({ "election": format!("e/{number}"), "acquire": acquire("a", 1) }));
    let begun = post(at, "/v1/batch", Some(&operator), &Value::Array(entries.collect())).await;
    assert_eq!(begun.status, 200, "{begun:?}");
    let described = get(at, "/openapi.json", None).await.json();
    let long = format!("?after={}", "a/".repeat(2_000));
    watched.longest();
    let mut worst = (Duration::ZERO, String::new());
    let mut routes = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        let Some(operation) = methods.get("get") else { continue };
        if operation["responses"]["200"]["content"].get("text/event-stream").is_some() {
            continue;
        }
        for query in ["", "?limit=10000", "?limit=1e308", &long] {
            let answer = get(at, &format!("{}{query}", named(path)), Some(&operator)).await;
            assert!(answer.status < 500, "{path}{query}: {answer:?}");
            let longest = watched.longest();
            worst = worst.max((longest, format!("{path}{query:.20}")));
            assert!(longest < LONGEST, "a poll took {longest:?} for {path}{query:.20}");
        }
        routes += 1;
    }
    assert!(routes >= 15, "{routes}");
    assert!(worst.0 > Duration::ZERO, "nothing was measured");
    eprintln!("{routes} routes; the longest poll took {:?}: {}", worst.0, worst.1);
}

/// Large records that a session follows, and many sessions.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_hold_up_nobody() {
    const ELECTIONS: usize = 200;
    const SESSIONS: u8 = 250;
    let watched = WatchedServer::start(Options { require_tokens: true, ..Options::default() }).await;
    let (setting, at) = (&watched.setting, watched.setting.address);
    let agent = setting.token(Role::Agent).await;
    let names: Vec<String> = (0..ELECTIONS).map(|number| format!("e-{number}")).collect();
    for name in &names {
        let path = format!("/v1/elections/{name}");
        let led = post(at, &format!("{path}/acquire"), Some(&agent), &acquire("a", 1)).await;
        assert_eq!(led.status, 200, "{led:?}");
        let left = json!({ "token": 1, "credential": credential(1), "seq": 1, "summary": "", "state": "x".repeat(40_000) });
        let kept = post(at, &format!("{path}/checkpoint"), Some(&agent), &left).await;
        assert_eq!(kept.status, 200, "{kept:?}");
    }
    for number in 1..=SESSIONS {
        let announced = json!({ "agent": "a", "credential": credential(number), "follows": names });
        let known = post(at, "/v1/sessions", Some(&agent), &announced).await;
        assert_eq!(known.status, 200, "{known:?}");
    }
    watched.longest();
    let (mut told, mut acknowledged) = (0, Value::Null);
    while told < ELECTIONS {
        let ask = json!({ "credential": credential(1), "acknowledged": acknowledged });
        let news = post(at, "/v1/sessions/news", Some(&agent), &ask).await;
        assert_eq!(news.status, 200, "{}", news.status);
        let news = news.json();
        let some = news["news"].as_array().unwrap().len();
        assert!(some > 0, "whoever asks gets on");
        (told, acknowledged) = (told + some, news["event"].clone());
    }
    let of_news = watched.longest();
    assert!(of_news < LONGEST, "a poll took {of_news:?} for news");
    let all = get(at, "/v1/sessions", Some(&agent)).await.json();
    assert_eq!(all.as_array().unwrap().len(), usize::from(SESSIONS));
    let of_list = watched.longest();
    assert!(of_list < LONGEST, "a poll took {of_list:?} for the list of sessions");
    eprintln!("the longest poll took {of_news:?} for news, {of_list:?} for the list of sessions");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_keep_nobody_waiting() {
    let watched = WatchedServer::start(Options { require_tokens: true, ..Options::default() }).await;
    let at = watched.setting.address;
    watched.longest();
    let over = Arc::new(AtomicBool::new(false));
    let mut strangers = JoinSet::new();
    for _ in 0..6 {
        let over = Arc::clone(&over);
        strangers.spawn(async move {
            let floats = vec![1e308; 43_687];
            let text = request("POST", "/v1/sign-ins/open", None, Some(&json!({ "code": floats })));
            while !over.load(Ordering::Relaxed) {
                let mut stream = TcpStream::connect(at).await.unwrap();
                // It is refused before it is read: the rest may not be taken.
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = tokio::time::timeout(HANG, stream.shutdown()).await;
            }
        });
    }
    for _ in 0..50 {
        let health = get(at, "/healthz", None).await;
        assert_eq!(health.status, 200, "{health:?}");
    }
    over.store(true, Ordering::Relaxed);
    while strangers.join_next().await.is_some() {}
    let longest = watched.longest();
    assert!(longest < LONGEST, "a poll took {longest:?}");
}

#[tokio::test]
async fn requests_without_a_token_are_counted_by_address_and_probes_are_not() {
    let limits = baton_server::Limits { unauthenticated: 5, ..baton_server::Limits::default() };
    let setting = Setting::new(Options { require_tokens: true, limits, ..Options::default() }).await;
    let at = setting.address;
    let mut codes = Vec::new();
    for _ in 0..50 {
        codes.push(post(at, "/v1/sign-ins/open", None, &json!({ "code": "00".repeat(32) })).await.code());
    }
    assert!(codes.iter().any(|code| code == "too-many"), "{codes:?}");
    for _ in 0..50 {
        assert_eq!(get(at, "/healthz", None).await.status, 200);
    }
    let mut refused = Vec::new();
    for _ in 0..50 {
        refused.push(get(at, "/v1/elections", Some("wrong")).await.status);
    }
    assert!(refused.contains(&429) && !refused.contains(&200), "{refused:?}");
    let renew = json!({ "token": 1, "credential": credential(1) });
    let (known, _, _) =
        setting.store.tokens().create(&setting.operator, &super::setting::token(Role::Agent)).await.unwrap();
    let answer = || post(at, "/v1/elections/e/renew", Some(known.reveal()), &renew);
    // The server hears of the token from the store.
    let deadline = tokio::time::Instant::now() + HANG;
    let mut last = answer().await;
    while last.status != 404 && tokio::time::Instant::now() < deadline {
        last = answer().await;
    }
    assert_eq!((last.status, last.code().as_str()), (404, "unknown-election"), "{last:?}");
}
