//! One connection: whether there is room for it, and its streams.

use std::sync::Arc;

use futures_util::StreamExt;
use http::Request;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite};

use super::identity::{Caller, Identity};
use super::peer::Peer;
use super::reply::{Problem, Reply};
use super::{Service, ServingRole, limits};

/// Answers what comes over a connection until it ends, or the server stops.
pub(super) async fn converse(
    serving: Arc<ServingRole>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
) {
    let seat = match peer.is_near() {
        true => None,
        false => match serving.peers.enter(peer.origin()) {
            None => return,
            some => some,
        },
    };
    let (refused, serving, peer) = (seat.as_ref().is_some_and(|seat| !seat.is_served()), &serving, &peer);
    let (door, keep) = (serving.door_of(peer), !refused && peer.check().is_ok());
    let answer = |request: Request<Incoming>| async move {
        match refused {
            true => Problem::from(baton_door::too_many_connections()).into_reply(),
            false => serving.answer(request, peer).await,
        }
    };
    if let Err(error) = door.converse(stream, keep, answer).await {
        serving.note_handshake(peer, &error);
    }
    drop(seat);
}

/// A stream that ends when who reads it is let in no longer. One token has so many of them and no more.
pub(super) fn while_let_in(service: &Arc<Service>, who: Caller, reply: Reply) -> Result<Reply, Problem> {
    let Caller { identity, sign_in, .. } = who;
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
    use baton_api::endpoints::Endpoint;
    use baton_election::Tokens;
    use baton_store::MemoryStore;
    use bytes::Bytes;

    use super::super::calls::Call;
    use super::super::identity::Register;
    use super::*;
    use crate::engine::Engine;
    use crate::options::Options;
    use crate::own_lease::OwnLease;

    /// There may be tens of thousands, and each has room for what any request of its may need.
    #[tokio::test]
    async fn a_connection_and_a_request_take_few_kilobytes() {
        let engine = Engine::start(Arc::new(MemoryStore::default())).await.unwrap();
        let register = Arc::new(Register::new(&Tokens::default(), false, None));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = Arc::new(Service::new(
            engine,
            OwnLease::not_needed(),
            "here".to_string(),
            register,
            Options::default(),
        ));
        let who = Caller {
            identity: Identity::Anybody,
            peer: Peer::Address(address.ip()),
            sign_in: None,
            agent: std::sync::OnceLock::new(),
        };
        let call = Call {
            who: &who,
            names: Vec::new(),
            query: None,
            last_event: None,
            host: "",
            body: Bytes::new(),
            parsers: &super::super::parsing::Parsers::default(),
        };
        let request = size_of_val(&service.call(Endpoint::Renew, call));
        let serving = Arc::new(ServingRole::alone(Arc::clone(&service), Options::default()));
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let connection = size_of_val(&converse(serving, stream, Peer::Address(address.ip())));
        assert!(request <= 2_048 && connection <= 3_072, "{request} and {connection} bytes");
    }
}
