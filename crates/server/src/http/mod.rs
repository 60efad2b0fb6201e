//! The doors: HTTP/1.1 with JSON.
//!
//! Who shows no token is an agent on a plain loopback address, and nobody elsewhere. A browser is not fooled into speaking for somebody
//! else: the name in `Host` must be the server's, a page of another origin is refused, and what changes anything is JSON and says so.
//! What a request needs stands in `right.rs`, who asks in `identity.rs`, how much one may have in `limits.rs`.

mod batch;
mod body;
mod calls;
mod connection;
mod events;
mod fences;
mod front;
mod gate;
mod identity;
mod limits;
mod openapi;
mod reply;
mod right;
mod route;
mod sessions;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use baton::{Coordinator, Memory};
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use self::calls::Call;
pub(crate) use self::front::{Front, Turn};
pub(crate) use self::identity::Register;
use self::identity::{Identity, Who};
use self::limits::{Streams, Throttle};
use self::reply::{Problem, Reply};
use self::right::Right;
use self::route::{Ask, Matched, Route};
use crate::engine::Engine;
use crate::options::Options;
use crate::sessions::Sessions;
use crate::store::Behind;
use crate::tokens;

/// The largest body of a single command: a checkpoint of 64 KiB, written as JSON, and room.
const MAX_BODY: usize = 256 * 1024;
/// The largest body of a batch.
const MAX_BATCH_BODY: usize = 8 * 1024 * 1024;
/// How many batches are carried out at once.
const BATCHES: usize = 4;
/// How long the body of a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);
/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// How many at once are told that they have too many connections.
const TOLD: usize = 64;
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
    /// Who is let in.
    register: Arc<Register>,
    /// Keeps the register as the store has it.
    follower: AbortHandle,
    names: gate::Names,
    throttle: Throttle,
    streams: Streams,
    batches: Semaphore,
    /// For batches that arrive, or wait until they are carried out.
    room: body::Room,
    /// Becomes true when the server is to stop.
    stopping: watch::Sender<bool>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl Service {
    pub(crate) fn new(
        engine: Engine,
        address: SocketAddr,
        register: Arc<Register>,
        options: Options,
    ) -> Service {
        let behind = Arc::new(Behind::new(engine.clone(), Arc::clone(&register)));
        let following = tokens::follow(Arc::clone(engine.store()), Arc::clone(&register));
        let Options { tls, names, limits, require_tokens: _ } = options;
        let coordinator = Coordinator::with_store(behind.clone(), Memory::new());
        let run =
            format!("{:016x}", getrandom::u64().unwrap_or_else(|_| baton_store::boot::now().as_nanos()));
        let sessions = Sessions::start(engine.clone(), run.clone(), limits.sessions);
        Service {
            engine,
            behind,
            sessions,
            coordinator,
            run,
            address,
            register,
            follower: tokio::spawn(following).abort_handle(),
            names: gate::Names { given: names, tls },
            throttle: Throttle::new(limits.commands),
            streams: Streams::new(limits.streams),
            batches: Semaphore::new(BATCHES),
            room: body::Room::default(),
            stopping: watch::Sender::new(false),
        }
    }

    /// What tells this run of the server from others.
    pub(crate) fn run(&self) -> &str {
        &self.run
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

    async fn answer(self: &Arc<Self>, request: Request<Incoming>, peer: IpAddr) -> Reply {
        let head = *request.method() == Method::HEAD;
        match self.answer_or_fail(request, peer).await {
            Ok(mut reply) if head => {
                *reply.body_mut() = reply::empty();
                reply
            }
            Ok(reply) => reply,
            Err(problem) => problem.into_reply(),
        }
    }

    async fn answer_or_fail(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Reply, Problem> {
        let (parts, body) = request.into_parts();
        let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
        let matched = route::find(method, parts.uri.path());
        let right = if let Matched::Route(route, _) = &matched { route.ask.right() } else { Right::Read };
        gate::admit(&parts, &self.names, right)?;
        let (route, names) = match matched {
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
        let who = Who { identity: self.let_in(&parts.headers, route, &names)?, peer };
        refuse_odd_query(route.ask, parts.uri.query())?;
        if route.method == Method::POST {
            gate::admit_body(&parts)?;
        }
        let (body, _room) = match (route.ask == Ask::Batch, route.method == Method::POST) {
            (true, _) => body::read_batch(body, &self.room).await?,
            (false, true) => (body::read(body).await?, None),
            (false, false) => (Bytes::new(), None),
        };
        // A batch is much work, and has a place only once it is whole: who is slow to send one keeps nobody from it.
        let _place = if route.ask == Ask::Batch { self.batches.acquire().await.ok() } else { None };
        let last_event = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let call = Call { who: &who, names, query: parts.uri.query(), last_event, body };
        if route.ask == Ask::Renew
            && let Some(reply) = self.renew_at_once(&call)
        {
            return reply;
        }
        // Who is let go of while it waits gets nothing.
        let waits = route.ask == Ask::News || route.ask == Ask::Acquire && call.query.is_some();
        if waits && matches!(who.identity, Identity::Bearer(_)) {
            return tokio::select! {
                reply = self.call(route.ask, call) => reply,
                () = self.register.ended(&who.identity) => Err(identity::unauthorized("the token was revoked")),
            };
        }
        let reply = self.call(route.ask, call).await?;
        if reply.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
            return connection::while_let_in(self, who.identity, reply);
        }
        Ok(reply)
    }

    /// Who asks, if it may ask this at all, and of this election.
    fn let_in(&self, headers: &HeaderMap, route: &Route, names: &[String]) -> Result<Identity, Problem> {
        let right = route.ask.right();
        if right == Right::Public {
            return Ok(Identity::Anybody);
        }
        let identity = self.register.identify(headers)?;
        identity.check(right)?;
        if route.ask.is_of_the_store() {
            identity.check_store()?;
        }
        if let (Some(election), true) = (names.first(), route.path.contains("{election}")) {
            identity.check_election_name(election)?;
        }
        Ok(identity)
    }
}

/// What is not understood is not passed over in silence.
fn refuse_odd_query(ask: Ask, query: Option<&str>) -> Result<(), Problem> {
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or_default();
        if !ask.query().iter().any(|(known, ..)| *known == name) {
            let known: Vec<&str> = ask.query().iter().map(|(known, ..)| *known).collect();
            let hint = match known.is_empty() {
                true => "this takes none; see /openapi.json".to_string(),
                false => format!("this takes {}", known.join(", ")),
            };
            let shown: String = name.chars().take(64).collect();
            return Err(Problem::invalid(
                format!("the parameter `{}` is not known", shown.escape_debug()),
                hint,
            ));
        }
    }
    Ok(())
}

/// Serves until it is to stop, then lets what is under way end.
pub(crate) async fn serve(listener: TcpListener, front: Arc<Front>, until: impl Future<Output = ()>) {
    let answer = |stream, peer| connection::converse(Arc::clone(&front), stream, peer);
    let mut served = baton_door::accept(listener, front.limits.connections, until, answer).await;
    front.stop();
    while served.join_next().await.is_some() {}
}

/// Whether a request says that it has a body.
fn has_body(headers: &http::HeaderMap) -> bool {
    headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
        || headers.contains_key(http::header::TRANSFER_ENCODING)
}
