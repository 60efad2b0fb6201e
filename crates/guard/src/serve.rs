//! Connections, and what becomes of each request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_http_listener::{ListenerConfig, Peers, Problem, Tls, too_many_connections};
use http::header::{CONNECTION, HeaderValue};
use http::uri::Scheme;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::forward::{self, Body, Broken};
use crate::gate::Gate;
use crate::problem;
use crate::request::{self, Kind};
use crate::upstream::Upstream;

/// The most headers of a request.
const MAX_HEADERS: usize = 128;
/// How many connections are served at once.
const MAX_CONNECTIONS: usize = 4_096;
/// How long an answer that nobody takes is kept.
const STALLED: Duration = Duration::from_secs(60);

/// What answers requests.
pub(crate) struct Service {
    pub(crate) gate: Arc<Gate>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) limit: Duration,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) peers: Peers,
}

impl Service {
    async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Response<Body> {
        self.pass_on(request, peer).await.unwrap_or_else(problem::reply)
    }

    async fn pass_on(&self, request: Request<Incoming>, peer: IpAddr) -> Result<Response<Body>, Problem> {
        let (mut parts, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        let kind = request::kind(&parts, has_body, &self.upstream.name)?;
        let came_by = if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        self.upstream.readdress(&mut parts, peer, came_by)?;
        if has_body && request::is_safe(&parts.method) {
            // What the upstream leaves unread of the body must not come before anybody's next request.
            parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        match kind {
            Kind::Read => {
                let body = body.map_err(Broken::from).boxed_unsync();
                forward::read(&self.upstream, Request::from_parts(parts, body), self.limit).await
            }
            Kind::Write(token) => {
                let place = self.gate.enter(token).await?;
                forward::write(Arc::clone(&self.upstream), parts, body, place, self.limit).await
            }
        }
    }
}

/// Guards until it is to stop, then lets what is under way end.
pub(crate) async fn serve(listener: TcpListener, service: Arc<Service>, until: impl Future<Output = ()>) {
    let stopping = watch::Sender::new(false);
    let config = Arc::new(ListenerConfig {
        tls: service.tls.clone(),
        unread: STALLED,
        headers: MAX_HEADERS,
        drain: service.limit,
        tell: problem::signed,
        stop: stopping.subscribe(),
    });
    let answer = |stream, peer| {
        let (config, service) = (Arc::clone(&config), Arc::clone(&service));
        async move {
            let Some(seat) = service.peers.enter(peer) else { return };
            let served = seat.is_served();
            let answer = |request| async {
                match served {
                    true => service.answer(request, peer).await,
                    false => problem::reply(too_many_connections()),
                }
            };
            // A client that speaks no TLS, or does not trust the guard, is gone.
            let _ = config.converse(stream, served, answer).await;
        }
    };
    let mut served = baton_http_listener::accept(&listener, MAX_CONNECTIONS, until, answer).await;
    stopping.send_replace(true);
    let end = Instant::now() + service.limit;
    let _ = tokio::time::timeout_at(end, async { while served.join_next().await.is_some() {} }).await;
    served.abort_all();
    // Writes go on without their clients.
    service.gate.shut(end).await;
}
