//! The doors: HTTP/1.1 with JSON.
//!
//! A caller that shows no token is an agent on a plain loopback address and at the Unix socket, and nobody
//! elsewhere. A browser is not fooled into speaking for somebody else: the name in `Host` must be the
//! server's, a page of another origin is refused, and what changes anything is JSON and says so. The table of
//! endpoints (`crates/api/src/endpoints.rs`) says what a request needs, `identity.rs` identifies the caller, and `limits.rs` bounds how much a caller
//! may have.

mod audit;
mod batch;
mod body;
mod calls;
mod connection;
mod events;
mod feed;
mod fences;

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod gate;
mod identity;
mod limits;
mod openapi;
mod overview;
mod pace;
mod page;
mod parsing;
mod peer;
mod proofs;
mod reply;
mod requests;
mod role;
mod sessions;
mod sign_ins;
mod toolbox;
mod uses;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use baton::{Executor, Memory};
use baton_api::endpoints::{Endpoint, Matched, Right, Row, Scope};
use baton_election::operator::PublicKey;
use baton_election::time::WallTime;
use baton_http_listener::ClientCertificate;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};

use self::calls::Call;
pub(crate) use self::gate::is_loopback;
pub(crate) use self::identity::Register;
use self::identity::{Caller, Identity};
use self::limits::{Streams, Throttle};
use self::parsing::Parsers;
use self::peer::Peer;
use self::reply::{Problem, Reply};
pub(crate) use self::requests::Requests;
pub(crate) use self::role::{ActiveTerm, ServingRole};
use self::uses::RequestRecord;
pub(crate) use self::uses::Uses;
use crate::Listeners;
use crate::access::AccessLog;
use crate::alerts::Alerts;
use crate::engine::Engine;
use crate::engine_store::EngineStore;
use crate::founders::Founders;
use crate::metrics::RenewalRoute;
use crate::options::Options;
use crate::own_lease::OwnLease;
use crate::sessions::{SessionLimits, Sessions};
use crate::sign_ins::SignIns;
use crate::socket::Socket;
use crate::tokens;
use crate::toolbox::Boards;
use crate::traces::Tracer;

/// How many batches are carried out at once.
const BATCHES: usize = 4;
/// How long the body of a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);
/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// How long requests that are under way may take when the server stops.
const DRAIN: Duration = Duration::from_secs(5);
/// How long traces that are still to be sent are waited for at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What answers requests.
pub(crate) struct Service {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<EngineStore>,
    sessions: Arc<Sessions>,
    /// The sign-ins at the page.
    sign_ins: Arc<SignIns<Identity>>,
    /// The keys and the code that make a first operator.
    founders: Arc<Founders>,
    alerts: Arc<Alerts>,
    requests: Requests,
    access_log: Option<Arc<AccessLog>>,
    /// When and from where each token was used.
    uses: Arc<Uses>,
    tracer: Option<Arc<Tracer>>,
    /// Since when it serves, for people.
    started: WallTime,
    /// Decides on all but elections, on the records as this server shows them.
    executor: Arc<Executor>,
    /// What the last look at the orders on access tokens showed.
    tokens_looked_at: tokio::sync::Mutex<Option<audit::TokensLook>>,
    /// What the leaders coordinate with.
    boards: Arc<Boards>,
    /// Tells this run of the server from others, in the numbers of events.
    run: String,
    /// Where it listens, for people.
    place: String,
    /// The tokens and other proofs that are let in.
    register: Arc<Register>,
    /// Keeps the register as the store has it.
    follower: AbortHandle,
    /// Counts what stands in the store.
    counting: AbortHandle,
    names: gate::Names,
    throttle: Throttle,
    /// Counts the rows that tokens look at.
    reads: Throttle,
    /// Counts the leases that streams watch.
    watched: Streams,
    /// Counts requests without a token.
    strangers: Throttle,
    parsers: Parsers,
    streams: Streams,
    batches: Semaphore,
    /// For batches that arrive, or wait until they are carried out.
    room: body::Room,
    /// Becomes true when the server is to stop.
    stopping: watch::Sender<bool>,
}

/// How long after a failure it is tried again to count what stands in the store.
const COUNT_AGAIN: Duration = Duration::from_secs(1);

/// Counts what stands in the store, once.
async fn count(engine: Engine) {
    // Whoever only observes keeps nothing.
    while !engine.observes() && engine.census().take(&**engine.store()).await.is_err() {
        tokio::time::sleep(COUNT_AGAIN).await;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.follower.abort();
        self.counting.abort();
    }
}

impl Service {
    pub(crate) fn new(
        engine: Engine,
        own_lease: OwnLease,
        place: String,
        register: Arc<Register>,
        options: Options,
    ) -> Service {
        let store = Arc::new(EngineStore::new(engine.clone(), own_lease, Arc::clone(&register)));
        let following = tokens::follow(Arc::clone(engine.store()), Arc::clone(&register));
        let Options {
            tls,
            names,
            limits,
            require_tokens: _,
            jwt: _,
            founders,
            warnings,
            collector,
            access_log,
        } = options;
        engine.census().limit(limits.quotas);
        let counting = count(engine.clone());
        if let Some(longest) = limits.lease {
            engine.limit_leases(longest);
        }
        let executor = Arc::new(Executor::new(store.clone(), Memory::new()));
        let boards = Boards::new(Arc::clone(&executor), engine.clone());
        let boards = Arc::new(boards);
        let run =
            format!("{:016x}", getrandom::u64().unwrap_or_else(|_| baton_store::boot::now().as_nanos()));
        let most = SessionLimits { sessions: limits.sessions, follows: limits.follows };
        let sessions = Sessions::start(engine.clone(), run.clone(), most);
        let uses: Arc<Uses> = Arc::default();
        let tracer = collector.map(|collector| Tracer::start(collector, &run));
        if let Some(tracer) = &tracer {
            engine.meters().trace_by(tracer);
        }
        Service {
            alerts: Alerts::start(warnings, &sessions, &store, &uses),
            requests: Requests::default(),
            access_log,
            uses,
            tracer,
            started: baton_store::boot::wall(),
            engine,
            store,
            sessions,
            sign_ins: Arc::default(),
            founders,
            executor,
            tokens_looked_at: tokio::sync::Mutex::default(),
            boards,
            run,
            place,
            register,
            follower: tokio::spawn(following).abort_handle(),
            counting: tokio::spawn(counting).abort_handle(),
            names: gate::Names { given: names, tls },
            throttle: Throttle::new(limits.commands),
            reads: Throttle::new(limits.reads),
            watched: Streams::new(limits.watched),
            strangers: Throttle::new(limits.unauthenticated),
            parsers: Parsers::default(),
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

    async fn answer(self: &Arc<Self>, request: Request<Incoming>, peer: &Peer) -> Reply {
        let (begun, head) = (Instant::now(), *request.method() == Method::HEAD);
        let mut asked = RequestRecord::default();
        let mut reply = match self.answer_or_fail(request, peer, &mut asked).await {
            Ok(reply) => reply,
            Err(mut problem) => {
                asked.why = problem.take_why();
                problem.into_reply()
            }
        };
        self.requests.count(asked.row, reply.status());
        self.note_use(&asked, peer, begun, &reply);
        if head {
            *reply.body_mut() = reply::empty();
        }
        reply
    }

    async fn answer_or_fail(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: &Peer,
        asked: &mut RequestRecord,
    ) -> Result<Reply, Problem> {
        let begun = Instant::now();
        if let Err(problem) = peer.check() {
            self.strangers.take_for_peer(peer)?;
            return Err(problem);
        }
        let (parts, body) = request.into_parts();
        let method = if parts.method == Method::HEAD { &Method::GET } else { &parts.method };
        let matched = Endpoint::find(method.as_str(), parts.uri.path());
        let right = if let Matched::Endpoint(row, _) = &matched { row.right } else { Right::Read };
        gate::admit(&parts, &self.names, right)?;
        let (row, names) = match matched {
            Matched::Endpoint(row, names) => (row, names),
            Matched::OtherMethod(allowed) => return Ok(other_method(parts.uri.path(), allowed)),
            Matched::None => return Err(no_such_route(parts.uri.path())),
        };
        asked.row = Some(row);
        let known = self.identify(peer, &parts, row);
        self.count_stranger(row, &known, peer)?;
        let (identity, sign_in) = known?;
        let who = Caller { identity, peer: peer.clone(), sign_in, agent: OnceLock::new() };
        let who = &*asked.who.insert(who);
        if self.access_log.is_some() && row.scope == Scope::Election {
            asked.election = names.first().cloned();
        }
        may_ask(who, row, &names)?;
        let (is_post, is_batch) = (row.request.is_some(), row.endpoint == Endpoint::Batch);
        if !is_post {
            self.reads.may_look(who)?;
            self.reads.looked_at(who, 1);
        }
        if let Some(name) = page_file(row.endpoint, &names) {
            return page::file(name, &parts.headers);
        }
        refuse_odd_query(row, parts.uri.query())?;
        if is_post {
            gate::admit_body(&parts)?;
        }
        let (body, _room) = match (is_batch, is_post) {
            (true, _) => body::read_batch(body, &self.room).await?,
            (false, true) => (body::read(body, row.max_body).await?, None),
            (false, false) => (Bytes::new(), None),
        };
        // A batch is much work, and has a place only once it is whole: who is slow to send one keeps nobody from it.
        let _place = if is_batch { self.batches.acquire().await.ok() } else { None };
        let last_event = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let call = Call {
            who,
            names,
            query: parts.uri.query(),
            last_event,
            host: gate::host(&parts).unwrap_or_default(),
            body,
            parsers: &self.parsers,
        };
        if row.endpoint == Endpoint::Renew
            && let Some(reply) = self.renew_at_once(&call)
        {
            self.engine.meters().renewing(RenewalRoute::Single, begun);
            return reply;
        }
        let traceparent = parts.headers.get("traceparent").and_then(|context| context.to_str().ok());
        let span = self.span(row, &call, traceparent);
        let reply = self.carry_out(row.endpoint, call, who).await;
        self.measure(row.endpoint, begun, span, &reply);
        let reply = reply?;
        if reply.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
            return connection::while_let_in(self, who.clone(), reply);
        }
        Ok(reply)
    }

    /// Does what is asked.
    async fn carry_out(
        self: &Arc<Self>,
        endpoint: Endpoint,
        call: Call<'_>,
        who: &Caller,
    ) -> Result<Reply, Problem> {
        // A request that waits is refused once its token is revoked.
        let waits = matches!(endpoint, Endpoint::News | Endpoint::Board)
            || endpoint == Endpoint::Acquire && call.query.is_some();
        if waits && matches!(who.identity, Identity::Bearer(_)) {
            return tokio::select! {
                reply = self.call(endpoint, call) => reply,
                () = self.register.ended(&who.identity) => Err(identity::unauthorized("the token was revoked")),
            };
        }
        self.call(endpoint, call).await
    }

    /// Refuses an address or a user that sends too many requests without a token, before anything of them is read. Probes are not counted: they take
    /// nothing, and a server that answers none is taken for dead.
    fn count_stranger<T>(&self, row: &Row, let_in: &Result<T, Problem>, peer: &Peer) -> Result<(), Problem> {
        let is_probe = matches!(row.endpoint, Endpoint::Health | Endpoint::Ready);
        let is_stranger = match let_in {
            Ok(_) => row.right == Right::Public && !is_probe,
            Err(problem) => problem.status() == StatusCode::UNAUTHORIZED,
        };
        if is_stranger { self.strangers.take_for_peer(peer) } else { Ok(()) }
    }

    /// The identity of the caller, and the sign-in by which it was identified, if it was.
    fn identify(
        &self,
        peer: &Peer,
        parts: &Parts,
        row: &Row,
    ) -> Result<(Identity, Option<PublicKey>), Problem> {
        let (headers, client) = (&parts.headers, parts.extensions.get::<Arc<ClientCertificate>>());
        if row.right == Right::Public {
            return Ok((Identity::Anybody, None));
        }
        // A caller that shows a token is bound by it, signed in or not.
        let sign_in = if headers.contains_key(AUTHORIZATION) { None } else { self.signed_in(headers) };
        let sign_in = sign_in.filter(|sign_in| self.register.knows(&sign_in.who));
        let identity = match &sign_in {
            Some(sign_in) => sign_in.who.clone(),
            None => self.register.identify(peer, headers, client, || self.strangers.take_for_peer(peer))?,
        };
        Ok((identity, sign_in.map(|sign_in| sign_in.given.order.key)))
    }
}

/// Refuses what it may not ask at all, or not of this election or resource.
fn may_ask(who: &Caller, row: &Row, names: &[String]) -> Result<(), Problem> {
    let (right, identity) = (row.right, &who.identity);
    if right == Right::Public {
        return Ok(());
    }
    identity.check(right)?;
    if who.sign_in.is_some() && right == Right::Act {
        return Err(identity::only_looks());
    }
    let name = names.first().map_or("", String::as_str);
    match row.scope {
        Scope::Any => Ok(()),
        Scope::Election => identity.check_election_name(name),
        Scope::Resource => identity.check_resource_name(name),
        Scope::Store => identity.check_store(),
    }
}

fn other_method(path: &str, allowed: &'static str) -> Reply {
    let (status, why) = (StatusCode::METHOD_NOT_ALLOWED, format!("{path} takes {allowed}"));
    let mut reply = Problem::new(status, "invalid", why, "see /openapi.json").into_reply();
    reply.headers_mut().insert(ALLOW, http::HeaderValue::from_static(allowed));
    reply
}

fn no_such_route(path: &str) -> Problem {
    let hint = "see /openapi.json; a `/` in a name is written %2F";
    Problem::new(StatusCode::NOT_FOUND, "no-such-route", format!("there is nothing at {path}"), hint)
}

/// Which file of the page is asked for, if one is.
fn page_file(endpoint: Endpoint, names: &[String]) -> Option<&str> {
    match endpoint {
        Endpoint::Page => Some("index.html"),
        Endpoint::PageFile => names.first().map(String::as_str),
        _ => None,
    }
}

/// What is not understood is not passed over in silence.
fn refuse_odd_query(row: &Row, query: Option<&str>) -> Result<(), Problem> {
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or_default();
        if !row.query.iter().any(|known| known.name == name) {
            let known: Vec<&str> = row.query.iter().map(|known| known.name).collect();
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
pub(crate) async fn serve(listening: Listeners, serving: Arc<ServingRole>, until: impl Future<Output = ()>) {
    let Listeners { address, socket } = listening;
    // Each has a share of its own, so that no flood of connections at the address keeps local users out.
    let most = serving.limits.connections / if address.is_some() && socket.is_some() { 2 } else { 1 };
    let stop = watch::Sender::new(false);
    let stopped = || {
        let mut stop = stop.subscribe();
        async move { drop(stop.wait_for(|stop| *stop).await) }
    };
    let over_tcp = async {
        let Some(listener) = &address else { return JoinSet::new() };
        let answer = |stream, peer| connection::converse(Arc::clone(&serving), stream, Peer::Address(peer));
        baton_http_listener::accept(listener, most, stopped(), answer).await
    };
    let over_socket = async {
        let Some(Socket { listener, owner, .. }) = &socket else { return JoinSet::new() };
        let answer =
            |stream, uid| connection::converse(Arc::clone(&serving), stream, Peer::of_user(uid, *owner));
        baton_http_listener::accept(listener, most, stopped(), answer).await
    };
    let until = async {
        until.await;
        stop.send_replace(true);
    };
    let (mut over_tcp, mut over_socket, ()) = tokio::join!(over_tcp, over_socket, until);
    // Nobody connects any more: the socket's file is removed.
    drop((address, socket));
    serving.stop();
    while over_tcp.join_next().await.is_some() {}
    while over_socket.join_next().await.is_some() {}
}

/// Whether a request says that it has a body.
fn has_body(headers: &http::HeaderMap) -> bool {
    headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
        || headers.contains_key(http::header::TRANSFER_ENCODING)
}
