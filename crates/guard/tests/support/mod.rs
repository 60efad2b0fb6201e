//! An upstream, a client, a store and leaders of a test's own.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a helper of tests")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::election::{AgentName, ElectionName, ResourceName, Span};
use baton::store::conformance::{Swap, Wrapped};
use baton::store::{BoxFuture, Key, MemoryStore, Reading, Store, StoreError, Swapped};
use baton::{Bid, Coordinator, Grant, Memory, mint_credential};
use baton_guard::{Guard, Settings};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// A bound on a hang, not an expectation.
pub(crate) const HANG: Duration = Duration::from_secs(180);

/// The size of an answer that no buffer on the way takes whole.
pub(crate) const LARGE: usize = 16 << 20;

/// What an upstream saw of a request.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// None if it did not arrive whole.
    pub(crate) body: Option<Bytes>,
}

/// An upstream that notes what it sees. It holds the reply to a path that begins with `/slow` until a test
/// releases it.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    /// `begin PATH` and `end PATH`, in order.
    events: Arc<Mutex<Vec<String>>>,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    go: watch::Sender<bool>,
    changed: watch::Sender<()>,
}

impl Upstream {
    pub(crate) async fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Upstream {
            address: listener.local_addr().unwrap(),
            events: Arc::default(),
            seen: Arc::default(),
            go: watch::Sender::new(false),
            changed: watch::Sender::new(()),
        };
        let answering = upstream.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answering = answering.clone();
                tokio::spawn(async move { answering.converse(stream).await });
            }
        });
        upstream
    }

    async fn converse(&self, stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
        let answer = service_fn(|request| {
            let upstream = self.clone();
            // What an upstream has begun, it finishes, whoever has hung up.
            let work = tokio::spawn(async move { upstream.answer(request).await });
            async move { Ok::<_, Infallible>(work.await.unwrap()) }
        });
        let _ =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
    }

    /// Serves over what is accepted elsewhere.
    pub(crate) async fn serve(&self, stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
        self.converse(stream).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().unwrap().to_string();
        self.note(format!("begin {path}"));
        let body = body.collect().await.ok().map(http_body_util::Collected::to_bytes);
        let whole = body.is_some();
        let seen = SeenRequest { method: parts.method, path: path.clone(), headers: parts.headers, body };
        self.seen.lock().unwrap().push(seen);
        if path.starts_with("/slow") {
            let _ = self.go.subscribe().wait_for(|go| *go).await;
        }
        self.note(format!("{} {path}", if whole { "end" } else { "broken" }));
        let size = if path.starts_with("/large") { LARGE } else { 2 };
        let reply = Response::builder()
            .header("baton-guard", "forged")
            .header("connection", "x-secret")
            .header("x-secret", "1")
            .header("x-kept", "1");
        reply.body(Full::new(Bytes::from(vec![b'.'; size]))).unwrap()
    }

    fn note(&self, event: String) {
        self.events.lock().unwrap().push(event);
        self.changed.send_replace(());
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets the slow ones go.
    pub(crate) fn go(&self) {
        self.go.send_replace(true);
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until something was noted.
    pub(crate) async fn until(&self, event: &str) {
        let mut changed = self.changed.subscribe();
        let noted = async {
            while !self.events().iter().any(|noted| noted == event) {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(HANG, noted).await.unwrap_or_else(|_| panic!("never noted: {event}"));
    }
}

/// A store that can be made to fail, and counts what is asked of it.
#[derive(Clone, Default)]
pub(crate) struct Fickle {
    inner: MemoryStore,
    pub(crate) down: Arc<AtomicBool>,
    pub(crate) asked: Arc<AtomicUsize>,
    /// Reads take until this is taken back.
    pub(crate) stalled: watch::Sender<bool>,
}

impl Fickle {
    fn up(&self) -> Result<(), StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) { Err(self.unavailable("it was told to")) } else { Ok(()) }
    }
}

impl Wrapped for Fickle {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.inner.clone())
    }

    fn reads<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            self.up()?;
            let _ = self.stalled.subscribe().wait_for(|stalled| !*stalled).await;
            self.inner.read(key).await
        })
    }

    fn swaps<'a>(&'a self, swap: Swap<'a>) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            self.up()?;
            swap.at(&self.inner).await
        })
    }
}

pub(crate) fn election() -> ElectionName {
    ElectionName::new("e").unwrap()
}

/// A client of a store of its own.
pub(crate) fn coordinator(store: &Fickle) -> Coordinator {
    Coordinator::with_store(Arc::new(store.clone()), Memory::new())
}

/// Has an agent lead.
pub(crate) async fn lead(store: &Fickle, agent: &str, ttl: Span) -> Grant {
    let bid = Bid { ttl: Some(ttl), ..Bid::new(AgentName::new(agent).unwrap()) };
    coordinator(store).acquire(&election(), &bid, mint_credential().unwrap(), None, None).await.unwrap()
}

pub(crate) async fn release(store: &Fickle, grant: &Grant) {
    coordinator(store).release(&election(), grant.epoch, grant.credential, None).await.unwrap();
}

/// The next leader, with the next token.
pub(crate) async fn succeed(store: &Fickle, grant: &Grant, agent: &str) -> Grant {
    release(store, grant).await;
    lead(store, agent, Span::secs(600)).await
}

/// A guard that runs.
pub(crate) struct RunningGuard {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl RunningGuard {
    pub(crate) async fn start(store: &Fickle, upstream: &str, drain: Duration) -> RunningGuard {
        RunningGuard::with(store, Settings { drain, ..settings(upstream) }).await
    }

    pub(crate) async fn with(store: &Fickle, settings: Settings) -> RunningGuard {
        let listener = Guard::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let guard = Guard::start(listener, coordinator(store), settings).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let address = guard.address();
        let until = async {
            let _ = stopped.await;
        };
        RunningGuard { address, stop: Some(stop), task: tokio::spawn(guard.serve(until)) }
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.stop.take();
        tokio::time::timeout(HANG, self.task).await.unwrap().unwrap();
    }

    pub(crate) async fn put(&self, path: &str, token: u64) -> Answer {
        let token = token.to_string();
        self.ask("PUT", path, &[("baton-token", &token)], "body").await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: guarded\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
        );
        self.raw(&format!("{head}{body}")).await
    }

    /// Sends what is sent, and reads until the other end hangs up.
    pub(crate) async fn raw(&self, text: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The guard may hang up on a client that it refuses before the client has sent all.
        let _ = stream.write_all(text.as_bytes()).await;
        let mut bytes = Vec::new();
        let _ = tokio::time::timeout(HANG, stream.read_to_end(&mut bytes)).await.expect("no answer");
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }
}

/// How a guard is told what to do, if nothing matters.
pub(crate) fn settings(upstream: &str) -> Settings {
    Settings {
        upstream: upstream.to_string(),
        authority: None,
        election: election(),
        resource: ResourceName::new("orders").unwrap(),
        drain: Duration::from_secs(30),
        limit: Duration::from_secs(30),
        tls: None,
        peer_connections: 1_024,
    }
}

/// An answer, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn parse(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_string() }
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The body of a problem.
    pub(crate) fn problem(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: u16, code: &str) -> serde_json::Value {
        assert_eq!(self.status, status, "{self:?}");
        let problem = self.problem();
        assert_eq!((&problem["code"], self.header("baton-guard")), (&code.into(), Some(code)), "{self:?}");
        assert!(problem["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{self:?}");
        problem
    }
}
