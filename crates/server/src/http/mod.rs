//! The doors: HTTP/1.1 with JSON.
//!
//! On a loopback address everybody is an agent. A browser is not fooled into speaking for somebody else: the name in `Host` must be a
//! loopback one, a page of another origin is refused, and what changes anything is JSON and says so.

mod batch;
mod calls;
mod events;
mod gate;
mod openapi;
mod reply;
mod route;
mod sessions;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton::{Coordinator, Memory};
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use self::calls::Call;
use self::reply::{Problem, Reply};
use self::route::{Ask, Matched};
use crate::engine::Engine;
use crate::sessions::Sessions;
use crate::store::Behind;

/// The largest body of a single command: a checkpoint of 64 KiB, written as JSON, and room.
const MAX_BODY: usize = 256 * 1024;
/// The largest body of a batch.
const MAX_BATCH_BODY: usize = 8 * 1024 * 1024;
/// How many batches are in memory at once.
const BATCHES: usize = 4;
/// How long a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);
/// How many connections are served at once.
const MAX_CONNECTIONS: usize = 16_384;
/// How long requests that are under way may take when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// What answers requests.
pub(crate) struct Service {
    pub(crate) engine: Engine,
    behind: Arc<Behind>,
    sessions: Arc<Sessions>,
    coordinator: Coordinator,
    /// Tells this run of the server from others, in the numbers of events.
    run: String,
    /// Whom it listens as.
    address: SocketAddr,
    batches: Semaphore,
    /// Becomes true when the server is to stop.
    stopping: watch::Sender<bool>,
}

impl Service {
    pub(crate) fn new(engine: Engine, address: SocketAddr) -> Service {
        let behind = Arc::new(Behind::new(engine.clone()));
        let coordinator = Coordinator::with_store(behind.clone(), Memory::new());
        let run =
            format!("{:016x}", getrandom::u64().unwrap_or_else(|_| baton_store::boot::now().as_nanos()));
        let sessions = Sessions::start(engine.clone(), run.clone());
        Service {
            engine,
            behind,
            sessions,
            coordinator,
            run,
            address,
            batches: Semaphore::new(BATCHES),
            stopping: watch::Sender::new(false),
        }
    }

    /// By what an event of this run is known.
    fn id_of(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }

    /// The number of an event of this run.
    fn number_of(&self, id: &str) -> Option<u64> {
        let (run, number) = id.rsplit_once('-')?;
        if run == self.run { number.parse().ok() } else { None }
    }

    /// Waits until the server is to stop.
    async fn stops(&self) {
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Reply {
        let head = *request.method() == Method::HEAD;
        match self.answer_or_fail(request).await {
            Ok(mut reply) if head => {
                *reply.body_mut() = reply::empty();
                reply
            }
            Ok(reply) => reply,
            Err(problem) => problem.into_reply(),
        }
    }

    async fn answer_or_fail(self: &Arc<Self>, request: Request<Incoming>) -> Result<Reply, Problem> {
        let (parts, body) = request.into_parts();
        gate::admit(&parts, self.address)?;
        let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
        let (route, names) = match route::find(method, parts.uri.path()) {
            Matched::Route(route, names) => (route, names),
            Matched::OtherMethod(allowed) => {
                let mut reply = Problem::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "invalid",
                    format!("{} takes {allowed}", parts.uri.path()),
                    "see /openapi.json",
                )
                .into_reply();
                reply.headers_mut().insert(ALLOW, http::HeaderValue::from_static(allowed));
                return Ok(reply);
            }
            Matched::None => {
                return Err(Problem::new(
                    StatusCode::NOT_FOUND,
                    "no-such-route",
                    format!("there is nothing at {}", parts.uri.path()),
                    "see /openapi.json",
                ));
            }
        };
        if route.method == Method::POST {
            gate::admit_body(&parts)?;
        }
        // A batch is large: few are read at a time, and the others wait before they are.
        let _place = if route.ask == Ask::Batch { self.batches.acquire().await.ok() } else { None };
        let body = match route.method == Method::POST {
            true => read(body, if route.ask == Ask::Batch { MAX_BATCH_BODY } else { MAX_BODY }).await?,
            false => Bytes::new(),
        };
        let last_event = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        self.call(route.ask, Call { names, query: parts.uri.query(), last_event, body }).await
    }
}

async fn read(body: Incoming, limit: usize) -> Result<Bytes, Problem> {
    match tokio::time::timeout(ARRIVAL, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "invalid",
            format!("the body is larger than {limit} bytes"),
            "a checkpoint carries at most 64 KiB; leave more elsewhere and name it: --reference",
        )),
        Ok(Err(error)) => Err(Problem::invalid(format!("the body broke off: {error}"), "send it whole")),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "invalid",
            format!("the body did not arrive within {ARRIVAL:?}"),
            "send it at once",
        )),
    }
}

/// Serves until it is to stop, then lets what is under way end.
pub(crate) async fn serve(listener: TcpListener, service: Arc<Service>, until: impl Future<Output = ()>) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut served = tokio::task::JoinSet::new();
    let mut until = std::pin::pin!(until);
    loop {
        let accepted = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = until.as_mut() => break,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, most likely: those that are served end some time.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (service, mut stop) = (Arc::clone(&service), service.stopping.subscribe());
        served.spawn(async move {
            let answer = service_fn(move |request| {
                let service = Arc::clone(&service);
                async move { Ok::<_, Infallible>(service.answer(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(ARRIVAL)
                .max_headers(64)
                .max_buf_size(64 * 1024)
                .serve_connection(TokioIo::new(stream), answer);
            let mut connection = std::pin::pin!(connection);
            let stopping = async { stop.wait_for(|stop| *stop).await.is_ok() };
            let stopped = tokio::select! {
                _ = connection.as_mut() => false,
                _ = stopping => true,
            };
            if stopped {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(DRAIN, connection).await;
            }
            drop(permit);
        });
        while served.try_join_next().is_some() {}
    }
    drop(listener);
    service.stopping.send_replace(true);
    while served.join_next().await.is_some() {}
}

/// Whether a request says that it has a body.
fn has_body(headers: &http::HeaderMap) -> bool {
    headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
        || headers.contains_key(http::header::TRANSFER_ENCODING)
}
