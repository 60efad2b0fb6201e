//! Who answers: this server, if it is alone or the active one of several; otherwise it says who does.
//!
//! Assumes that the terms of two servers do not overlap, which their own election guarantees. Guarantees that nothing which tells of
//! elections leaves this server unless its own lease held after it was found out; once it does not, whoever asks is sent on, and streams
//! end.
//!
//! A reply that is held up after that check, in a stopped process or on the way, is harmless. Whoever asked counts its lease from before it
//! asked, which was before this server's lease ended, and the next server gives every lease its full length from its own start,
//! which is after that.

use std::sync::{Arc, PoisonError, RwLock};

use baton::Leadership;
use baton_api::FORMAT_HEADER;
use baton_api::endpoints::{Endpoint, Matched, Right};
use baton_api::server::ReadinessResponse;
use baton_http_listener::{HandshakeError, ListenerConfig, Peers};
use baton_store::boot;
use futures_util::{StreamExt, future};
use http::header::{HeaderValue, LOCATION, STRICT_TRANSPORT_SECURITY};
use http::{Method, Request, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Incoming;
use tokio::sync::watch;

use super::peer::Peer;
use super::reply::{Problem, Reply, empty, json as answer, ok, reply};
use super::{DRAIN, MAX_HEADERS, Service, gate, openapi};
use crate::access::{AccessLog, Handshake};
use crate::alerts::Alerts;
use crate::metrics;
use crate::options::{Limits, Options};

/// What every request comes to first.
pub(crate) struct ServingRole {
    role: RwLock<Role>,
    names: gate::Names,
    pub(super) limits: Limits,
    pub(super) peers: Peers,
    /// For TCP.
    door: ListenerConfig,
    /// For the Unix socket: the same without TLS.
    socket_door: ListenerConfig,
    access_log: Option<Arc<AccessLog>>,
    /// Becomes true when the server is to stop.
    stopping: watch::Sender<bool>,
}

#[derive(Clone)]
enum Role {
    /// Nobody else serves this store.
    Alone(Arc<Service>),
    /// The active one of several.
    Active(Arc<ActiveTerm>),
    /// Another one of several is active: where, if that is known.
    Standby(Option<Arc<str>>),
}

/// One time of being the active one.
pub(crate) struct ActiveTerm {
    service: Arc<Service>,
    pub(crate) lead: Arc<Leadership>,
}

impl ActiveTerm {
    pub(crate) fn new(service: Service, lead: Arc<Leadership>) -> ActiveTerm {
        ActiveTerm { service: Arc::new(service), lead }
    }

    /// What tells this run of the server from others.
    pub(crate) fn run(&self) -> &str {
        self.service.run()
    }

    /// What is wrong with elections.
    pub(crate) fn alerts(&self) -> &Alerts {
        self.service.alerts()
    }

    /// Whether what this server says holds.
    fn holds(&self) -> bool {
        self.service.store.holds()
    }
}

impl ServingRole {
    /// For a server that is alone with its store.
    pub(crate) fn alone(service: Arc<Service>, options: Options) -> ServingRole {
        ServingRole::new(Role::Alone(service), options)
    }

    /// For one of several, which is not the active one yet.
    pub(crate) fn one_of_several(options: Options) -> ServingRole {
        ServingRole::new(Role::Standby(None), options)
    }

    fn new(role: Role, options: Options) -> ServingRole {
        let Options {
            tls,
            names,
            limits,
            require_tokens: _,
            jwt: _,
            founders: _,
            warnings: _,
            collector: _,
            access_log,
        } = options;
        let stopping = watch::Sender::new(false);
        let door = ListenerConfig {
            tls: tls.clone(),
            unread: limits.unread,
            headers: MAX_HEADERS,
            drain: DRAIN,
            tell: baton_http_listener::Problem::into_response,
            stop: stopping.subscribe(),
        };
        ServingRole {
            role: RwLock::new(role),
            names: gate::Names { given: names, tls },
            peers: Peers::new(limits.peer_connections),
            limits,
            socket_door: ListenerConfig { tls: None, ..door.clone() },
            door,
            access_log,
            stopping,
        }
    }

    /// How a connection is answered.
    pub(super) fn door_of(&self, peer: &Peer) -> &ListenerConfig {
        match peer {
            Peer::Address(_) => &self.door,
            Peer::User { .. } => &self.socket_door,
        }
    }

    /// Notes a connection that did not become an encrypted one: whoever connected learns little of why.
    pub(super) fn note_handshake(&self, peer: &Peer, error: &HandshakeError) {
        if let (Some(log), Some(address)) = (&self.access_log, peer.address()) {
            log.note(&Handshake { time: boot::wall(), address, handshake: error.to_string() });
        }
    }

    fn role(&self) -> Role {
        self.role.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn become_(&self, role: Role) {
        *self.role.write().unwrap_or_else(PoisonError::into_inner) = role;
    }

    /// From here on this server answers.
    pub(crate) fn begin(&self, term: &Arc<ActiveTerm>) {
        self.become_(Role::Active(Arc::clone(term)));
    }

    /// From here on this server does not answer: it sends no reply that is under way, and closes waits and streams.
    pub(crate) fn end(&self, term: &ActiveTerm) {
        term.service.store.end();
        self.become_(Role::Standby(None));
        term.service.stopping.send_replace(true);
    }

    /// Another one is active, there.
    pub(crate) fn stand_by(&self, contact: Option<Arc<str>>) {
        self.become_(Role::Standby(contact));
    }

    /// Begins the shutdown: closes waits and streams.
    pub(super) fn stop(&self) {
        match self.role() {
            Role::Alone(service) => drop(service.stopping.send_replace(true)),
            Role::Active(term) => drop(term.service.stopping.send_replace(true)),
            Role::Standby(_) => {}
        }
        self.stopping.send_replace(true);
    }

    pub(super) async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Reply {
        let by_tls = self.door_of(peer).tls.is_some();
        transported(self.answer_by_role(request, peer).await, by_tls)
    }

    async fn answer_by_role(&self, request: Request<Incoming>, peer: &Peer) -> Reply {
        match self.role() {
            Role::Alone(service) => service.answer(request, peer).await,
            Role::Active(term) if term.holds() => {
                let (target, reads) = (request.uri().clone(), is_read(request.method()));
                let reply = term.service.answer(request, peer).await;
                match (term.holds(), reads) {
                    (true, _) => while_it_holds(reply, term),
                    (false, true) => elsewhere(&target, None),
                    (false, false) => overtaken(),
                }
            }
            Role::Active(_) => self.redirect(&request, peer, None),
            Role::Standby(active) => self.redirect(&request, peer, active.as_deref()),
        }
    }

    /// What who is not active answers.
    fn redirect(&self, request: &Request<Incoming>, peer: &Peer, active: Option<&str>) -> Reply {
        let (parts, ()) = cut(request);
        let head = parts.method == Method::HEAD;
        let method = if head { &Method::GET } else { &parts.method };
        let row = match Endpoint::find(method.as_str(), parts.uri.path()) {
            Matched::Endpoint(row, _) => Some(row),
            Matched::OtherMethod(_) | Matched::None => None,
        };
        let admitted = peer.check();
        let right = row.map_or(Right::Read, |row| row.right);
        if let Err(problem) = admitted.and_then(|()| gate::admit(&parts, &self.names, right)) {
            return problem.into_reply();
        }
        let mut said = match (row.map(|row| row.endpoint), active) {
            (Some(Endpoint::Health), _) => ok(),
            // Of elections it knows nothing, and says so: whoever collects metrics asks each server.
            (Some(Endpoint::Metrics), _) => reply(StatusCode::OK, metrics::FORMAT, metrics::standby().into()),
            (Some(Endpoint::OpenApi), _) => reply(StatusCode::OK, "application/json", openapi::written()),
            (Some(Endpoint::Ready), Some(active)) => {
                let readiness = ReadinessResponse { ready: true, active: Some(active.to_string()) };
                answer(&readiness).unwrap_or_else(Problem::into_reply)
            }
            (_, active) => elsewhere(request.uri(), active),
        };
        if head {
            *said.body_mut() = empty();
        }
        said
    }
}

/// An answer as it leaves: it says which format this server speaks. A browser that has been here by TLS comes by nothing else for a year.
fn transported(mut reply: Reply, by_tls: bool) -> Reply {
    reply.headers_mut().insert(FORMAT_HEADER, baton_store::format().into());
    if by_tls {
        let value = HeaderValue::from_static("max-age=31536000");
        reply.headers_mut().insert(STRICT_TRANSPORT_SECURITY, value);
    }
    reply
}

/// Whether a request of this method changes nothing.
fn is_read(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

/// The reply to a write when this server stopped being active while handling it. Distinct from the reply sent before anything was
/// attempted.
fn overtaken() -> Reply {
    let (detail, hint) = (
        "this server stopped being the active one while it handled this request, which may or may not have been applied",
        "repeat the request: it is safe to repeat",
    );
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unknown", detail, hint);
    problem.with("active", false).again_in(1).into_reply()
}

/// The head of a request, as the gate takes it.
fn cut(request: &Request<Incoming>) -> (http::request::Parts, ()) {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    head.into_parts()
}

/// A stream goes on only as long as this server is the active one: each piece of it is an answer.
fn while_it_holds(reply: Reply, term: Arc<ActiveTerm>) -> Reply {
    if reply.body().size_hint().exact().is_some() {
        return reply;
    }
    reply.map(|body| {
        StreamBody::new(BodyStream::new(body).take_while(move |_| future::ready(term.holds()))).boxed_unsync()
    })
}

/// Sends whoever asks to the active server, or asks for patience if there is none.
fn elsewhere(target: &Uri, active: Option<&str>) -> Reply {
    let path = target.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let location = active.and_then(|active| HeaderValue::try_from(format!("{active}{path}")).ok());
    match (location, active) {
        (Some(location), Some(active)) => {
            let (detail, hint) = ("another server is the active one", format!("ask it: {active}"));
            let mut reply =
                Problem::new(StatusCode::TEMPORARY_REDIRECT, "not-active", detail, hint).into_reply();
            reply.headers_mut().insert(LOCATION, location);
            reply
        }
        (_, _) => {
            let (detail, hint) = ("no server is active at the moment", "ask again in a second");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-active", detail, hint).again_in(1).into_reply()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_tls_a_browser_is_told_to_stay_with_it() {
        let told = |by_tls| transported(ok(), by_tls).headers().get(STRICT_TRANSPORT_SECURITY).cloned();
        assert_eq!(told(true), Some(HeaderValue::from_static("max-age=31536000")));
        assert_eq!(told(false), None, "a plain server can promise nothing of TLS");
    }
}
