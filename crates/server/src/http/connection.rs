//! One connection: its encryption, its requests, its end.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::StreamExt;
use http::Request;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::identity::Identity;
use super::patient::Patient;
use super::reply::{Problem, Reply};
use super::{ARRIVAL, DRAIN, Front, Service, limits};

/// Answers what comes over a connection until it ends, or the server stops.
pub(super) async fn converse(front: Arc<Front>, stream: TcpStream, peer: IpAddr) {
    let (mut place, mut told) = (None, None);
    if !peer.is_loopback() {
        place = front.peers.enter(peer);
        if place.is_none() {
            // It has too many. A few at a time are told so, and the others are not even that.
            let Ok(permit) = front.told.try_acquire() else { return };
            told = Some(permit);
        }
    }
    let refused = told.is_some();
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream, front.limits.unread);
    match front.tls.as_ref().map(|tls| tls.acceptor()) {
        None => answer_all(&front, stream, peer, refused).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(ARRIVAL, acceptor.accept(stream)).await {
                answer_all(&front, stream, peer, refused).await;
            }
        }
    }
    drop((place, told));
}

async fn answer_all<S>(front: &Arc<Front>, stream: S, peer: IpAddr, refused: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut stop = front.stopping.subscribe();
    let answer = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(match refused {
            true => limits::too_many_connections().into_reply(),
            false => front.answer(request, peer).await,
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ARRIVAL)
        .keep_alive(!refused)
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
}

/// A stream that ends when who reads it is let in no longer. One token has so many of them and no more.
pub(super) fn while_let_in(
    service: &Arc<Service>,
    identity: Identity,
    reply: Reply,
) -> Result<Reply, Problem> {
    let Identity::Bearer(entry) = &identity else { return Ok(reply) };
    let place = service.streams.enter(entry.id).ok_or_else(limits::too_many_streams)?;
    let register = Arc::clone(&service.register);
    let ended = async move { register.ended(&identity).await };
    Ok(reply.map(|body| {
        let rest = BodyStream::new(body).take_until(Box::pin(ended)).map(move |frame| {
            let _held = &place;
            frame
        });
        StreamBody::new(rest).boxed_unsync()
    }))
}
