//! The door: connections, and what becomes of each request.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::forward::{self, Body, Broken};
use crate::gate::Gate;
use crate::pace::Paced;
use crate::problem::Problem;
use crate::request::{self, Kind};
use crate::upstream::Upstream;

/// How long the head of a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);
/// How many connections are served at once.
const MAX_CONNECTIONS: usize = 4_096;
/// How long an answer that nobody takes is kept.
const STALLED: Duration = Duration::from_secs(60);

/// What answers requests.
pub(crate) struct Service {
    pub(crate) gate: Arc<Gate>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) limit: Duration,
}

impl Service {
    async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Response<Body> {
        self.pass_on(request, peer).await.unwrap_or_else(Problem::into_reply)
    }

    async fn pass_on(&self, request: Request<Incoming>, peer: IpAddr) -> Result<Response<Body>, Problem> {
        let (mut parts, body) = request.into_parts();
        let kind = request::kind(&parts, &self.upstream.name)?;
        self.upstream.readdress(&mut parts, peer)?;
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
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let stopping = watch::Sender::new(false);
    let mut served = JoinSet::new();
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
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors, most likely: those that are served end some time.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (service, stop) = (Arc::clone(&service), stopping.subscribe());
        served.spawn(async move {
            converse(stream, peer.ip(), service, stop).await;
            drop(permit);
        });
        while served.try_join_next().is_some() {}
    }
    drop(listener);
    stopping.send_replace(true);
    let end = Instant::now() + service.limit;
    let _ = tokio::time::timeout_at(end, async { while served.join_next().await.is_some() {} }).await;
    served.abort_all();
    // Writes go on without their clients.
    service.gate.shut(end).await;
}

/// One connection.
async fn converse(stream: TcpStream, peer: IpAddr, service: Arc<Service>, mut stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(service.answer(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ARRIVAL)
        .max_headers(128)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(Paced::new(stream, STALLED)), answer);
    let mut connection = std::pin::pin!(connection);
    let stopped = tokio::select! {
        _ = connection.as_mut() => false,
        _ = stop.wait_for(|stop| *stop) => true,
    };
    if stopped {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}
