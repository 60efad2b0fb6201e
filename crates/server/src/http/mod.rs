//! The doors: HTTP/1.1 with JSON.
//!
//! Who shows no token is an agent on a plain loopback address, and nobody elsewhere. A browser is not fooled into speaking for somebody
//! else: the name in `Host` must be the server's, a page of another origin is refused, and what changes anything is JSON and says so.
//! What a request needs stands in `right.rs`, who asks in `identity.rs`, how much one may have in `limits.rs`.

mod audit;
mod batch;
mod body;
mod calls;
mod connection;
mod events;
mod feed;
mod fences;
mod front;
mod gate;
mod identity;
mod limits;
mod openapi;
mod overview;
mod page;
mod reply;
mod requests;
mod right;
mod route;
mod sessions;
mod sign_ins;
mod toolbox;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::{Coordinator, Memory};
use baton_election::operator::PublicKey;
use baton_election::time::WallTime;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use self::calls::Call;
pub(crate) use self::front::{Front, Turn};
pub(crate) use self::gate::is_loopback;
pub(crate) use self::identity::Register;
use self::identity::{Identity, Who};
use self::limits::{Streams, Throttle};
use self::reply::{Problem, Reply};
pub(crate) use self::requests::Requests;
use self::right::Right;
use self::route::{Ask, Matched, Route};
use crate::alerts::Alerts;
use crate::engine::Engine;
use crate::metrics::Way;
use crate::options::Options;
use crate::own_lease::OwnLease;
use crate::sessions::Sessions;
use crate::sign_ins::SignIns;
use crate::store::Behind;
use crate::tokens;
use crate::toolbox::Boards;
use crate::traces::Tracer;

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
/// How long traces that are still to be sent are waited for at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What answers requests.
pub(crate) struct Service {
    pub(crate) engine: Engine,
    pub(crate) behind: Arc<Behind>,
    sessions: Arc<Sessions>,
    /// Who is signed in at the page.
    sign_ins: Arc<SignIns<Identity>>,
    alerts: Arc<Alerts>,
    requests: Requests,
    tracer: Option<Arc<Tracer>>,
    /// Since when it serves, for people.
    started: WallTime,
    coordinator: Coordinator,
    /// What the last look at the orders on access tokens showed.
    tokens_looked_at: tokio::sync::Mutex<Option<audit::Looked>>,
    /// What the leaders coordinate with.
    boards: Arc<Boards>,
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
        own_lease: OwnLease,
        address: SocketAddr,
        register: Arc<Register>,
        options: Options,
    ) -> Service {
        let behind = Arc::new(Behind::new(engine.clone(), own_lease, Arc::clone(&register)));
        let following = tokens::follow(Arc::clone(engine.store()), Arc::clone(&register));
        let Options { tls, names, limits, require_tokens: _, warnings, collector } = options;
        let coordinator = Coordinator::with_store(behind.clone(), Memory::new());
        let boards = Boards::new(coordinator.clone(), Some(engine.clone()), Arc::clone(engine.meters()));
        let boards = Arc::new(boards);
        let run =
            format!("{:016x}", getrandom::u64().unwrap_or_else(|_| baton_store::boot::now().as_nanos()));
        let sessions = Sessions::start(engine.clone(), run.clone(), limits.sessions);
        let tracer = collector.map(|collector| Tracer::start(collector, &run));
        if let Some(tracer) = &tracer {
            engine.meters().trace_by(tracer);
        }
        Service {
            alerts: Alerts::start(warnings, &sessions, &behind),
            requests: Requests::default(),
            tracer,
            started: baton_store::boot::wall(),
            engine,
            behind,
            sessions,
            sign_ins: Arc::default(),
            coordinator,
            tokens_looked_at: tokio::sync::Mutex::default(),
            boards,
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

    /// What is wrong with elections.
    pub(crate) fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// Sends what is still to be sent, for a moment at most.
    pub(crate) async fn last_words(&self) {
        if let Some(tracer) = &self.tracer {
            tracer.finish(LAST_WORDS).await;
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
        let mut route = None;
        let mut reply = match self.answer_or_fail(request, peer, &mut route).await {
            Ok(reply) => reply,
            Err(problem) => problem.into_reply(),
        };
        self.requests.count(route, reply.status());
        if head {
            *reply.body_mut() = reply::empty();
        }
        reply
    }

    async fn answer_or_fail(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
        asked: &mut Option<&'static Route>,
    ) -> Result<Reply, Problem> {
        let begun = Instant::now();
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
                    "see /openapi.json; a `/` in a name is written %2F",
                ));
            }
        };
        *asked = Some(route);
        let (identity, sign_in) = self.let_in(&parts.headers, route, &names)?;
        let who = Who { identity, peer, sign_in };
        if let Some(name) = page_file(route.ask, &names) {
            return page::file(name, &parts.headers);
        }
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
        let call = Call {
            who: &who,
            names,
            query: parts.uri.query(),
            last_event,
            host: gate::host(&parts).unwrap_or_default(),
            body,
        };
        if route.ask == Ask::Renew
            && let Some(reply) = self.renew_at_once(&call)
        {
            self.engine.meters().renewing(Way::Single, begun);
            return reply;
        }
        let traceparent = parts.headers.get("traceparent").and_then(|context| context.to_str().ok());
        let span = self.span(route, &call, traceparent);
        let reply = self.carry_out(route, call, &who).await;
        self.measure(route.ask, begun, span, &reply);
        let reply = reply?;
        if reply.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
            return connection::while_let_in(self, who, reply);
        }
        Ok(reply)
    }

    /// Does what is asked.
    async fn carry_out(self: &Arc<Self>, route: &Route, call: Call<'_>, who: &Who) -> Result<Reply, Problem> {
        // Who is let go of while it waits gets nothing.
        let waits = route.ask == Ask::News
            || route.ask == Ask::Board
            || route.ask == Ask::Acquire && call.query.is_some();
        if waits && matches!(who.identity, Identity::Bearer(_)) {
            return tokio::select! {
                reply = self.call(route.ask, call) => reply,
                () = self.register.ended(&who.identity) => Err(identity::unauthorized("the token was revoked")),
            };
        }
        self.call(route.ask, call).await
    }

    /// Who asks, and by which sign-in, if it may ask this at all, and of this election.
    fn let_in(
        &self,
        headers: &HeaderMap,
        route: &Route,
        names: &[String],
    ) -> Result<(Identity, Option<PublicKey>), Problem> {
        let right = route.ask.right();
        if right == Right::Public {
            return Ok((Identity::Anybody, None));
        }
        // Who shows a token is bound by it, signed in or not.
        let sign_in = if headers.contains_key(AUTHORIZATION) { None } else { self.signed_in(headers) };
        let sign_in = sign_in.filter(|sign_in| self.register.knows(&sign_in.who));
        let identity = match &sign_in {
            Some(sign_in) => sign_in.who.clone(),
            None => self.register.identify(headers)?,
        };
        identity.check(right)?;
        if sign_in.is_some() && right == Right::Act {
            return Err(identity::only_looks());
        }
        if route.ask.is_of_the_store() {
            identity.check_store()?;
        }
        if let (Some(election), true) = (names.first(), route.path.contains("{election}")) {
            identity.check_election_name(election)?;
        }
        Ok((identity, sign_in.map(|sign_in| sign_in.given.order.key)))
    }
}

/// Which file of the page is asked for, if one is.
fn page_file(ask: Ask, names: &[String]) -> Option<&str> {
    match ask {
        Ask::Page => Some("index.html"),
        Ask::PageFile => names.first().map(String::as_str),
        _ => None,
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
