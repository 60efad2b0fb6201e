//! One connection: whether there is room for it, and its streams.

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::StreamExt;
use http::Request;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Incoming;
use tokio::net::TcpStream;

use super::identity::{Identity, Who};
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
pub(super) fn while_let_in(service: &Arc<Service>, who: Who, reply: Reply) -> Result<Reply, Problem> {
    let Who { identity, sign_in, .. } = who;
    let reply = match sign_in {
        Some(key) => {
            let sign_ins = Arc::clone(&service.sign_ins);
            let over = async move { sign_ins.over(&key).await };
            reply.map(|body| StreamBody::new(BodyStream::new(body).take_until(Box::pin(over))).boxed_unsync())
        }
        None => reply,
    };
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

#[cfg(test)]
mod tests {
    use baton_election::Tokens;
    use baton_store::MemoryStore;
    use bytes::Bytes;

    use super::super::calls::Call;
    use super::super::identity::Register;
    use super::super::route::Ask;
    use super::*;
    use crate::engine::Engine;
    use crate::options::Options;
    use crate::own_lease::OwnLease;

    /// There may be tens of thousands, and each has room for what any request of its may need.
    #[tokio::test]
    async fn a_connection_and_a_request_take_few_kilobytes() {
        let engine = Engine::start(Arc::new(MemoryStore::default())).await.unwrap();
        let register = Arc::new(Register::new(&Tokens::default(), false));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service =
            Arc::new(Service::new(engine, OwnLease::not_needed(), address, register, Options::default()));
        let who = Who { identity: Identity::Anybody, peer: address.ip(), sign_in: None };
        let call = Call {
            who: &who,
            names: Vec::new(),
            query: None,
            last_event: None,
            host: "",
            body: Bytes::new(),
        };
        let request = size_of_val(&service.call(Ask::Renew, call));
        let front = Arc::new(Front::alone(Arc::clone(&service), Options::default()));
        let stream = TcpStream::connect(address).await.unwrap();
        let connection = size_of_val(&converse(front, stream, address.ip()));
        assert!(request <= 2_048 && connection <= 3_072, "{request} and {connection} bytes");
    }
}
