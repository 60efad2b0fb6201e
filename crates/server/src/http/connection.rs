//! One connection: whether there is room for it, and its streams.

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::StreamExt;
use http::Request;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Incoming;
use tokio::net::TcpStream;

use super::identity::Identity;
use super::reply::{Problem, Reply};
use super::{Front, Service, limits};

/// Answers what comes over a connection until it ends, or the server stops.
pub(super) async fn converse(front: Arc<Front>, stream: TcpStream, peer: IpAddr) {
    let (mut place, mut told) = (None, None);
    if !peer.is_loopback() {
        place = front.peers.enter(limits::network(peer));
        if place.is_none() {
            // It has too many. A few at a time are told so, and the others are not even that.
            let Ok(permit) = front.told.try_acquire() else { return };
            told = Some(permit);
        }
    }
    let (refused, front) = (told.is_some(), &front);
    let answer = |request: Request<Incoming>| async move {
        match refused {
            true => limits::too_many_connections().into_reply(),
            false => front.answer(request, peer).await,
        }
    };
    front.door.converse(stream, !refused, answer).await;
    drop((place, told));
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
