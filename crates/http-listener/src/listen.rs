//! Connections: taken, encrypted, answered, ended.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::client::ClientCertificate;
use crate::problem::Problem;
use crate::problem_stream::{AnswerStage, ProblemBodyStream, TrackedBody};
use crate::tls::Tls;
use crate::write_timeout::WriteTimeoutStream;

/// How long the head of a request, or the beginning of an encrypted connection, may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);
/// The largest head of a request.
const MAX_HEAD: usize = 64 * 1024;
/// After a connection could not be taken: out of descriptors, most likely, and those that are served end some time.
const AGAIN: Duration = Duration::from_millis(50);

/// How connections are answered.
#[derive(Clone)]
pub struct ListenerConfig {
    /// Whether and as whom it speaks TLS.
    pub tls: Option<Arc<Tls>>,
    /// How long the other end may leave an answer unread.
    pub unread: Duration,
    /// The most headers of a request.
    pub headers: usize,
    /// How long a request that is under way may take once the connection is to end.
    pub drain: Duration,
    /// How it is told that what came is no request.
    pub tell: fn(Problem) -> Response<Bytes>,
    /// Becomes true when connections are to end.
    pub stop: watch::Receiver<bool>,
}

/// Why a connection did not become an encrypted one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HandshakeError(String);

/// A place at which connections arrive: a TCP address or a Unix socket.
pub trait Listener {
    /// A connection.
    type Stream;
    /// The other end: an address, or the uid that the kernel gives.
    type Peer;

    /// Takes the next connection.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Self::Peer)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Peer = IpAddr;

    async fn next(&self) -> io::Result<(TcpStream, IpAddr)> {
        let (stream, peer) = self.accept().await?;
        let _ = stream.set_nodelay(true);
        Ok((stream, peer.ip().to_canonical()))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    /// The effective user that connected (`SO_PEERCRED`). No message of the client can change it.
    type Peer = u32;

    async fn next(&self) -> io::Result<(UnixStream, u32)> {
        let (stream, _) = self.accept().await?;
        let peer = stream.peer_cred()?.uid();
        Ok((stream, peer))
    }
}

/// Takes connections until it is to stop, so many at once; the others wait. Returns those that are still being answered.
pub async fn accept<L, F>(
    listener: &L,
    most: usize,
    until: impl Future<Output = ()>,
    mut answer: impl FnMut(L::Stream, L::Peer) -> F,
) -> JoinSet<()>
where
    L: Listener,
    F: Future<Output = ()> + Send + 'static,
{
    let connections = Arc::new(Semaphore::new(most));
    let mut served = JoinSet::new();
    let mut until = std::pin::pin!(until);
    loop {
        let accepted = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.next().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = until.as_mut() => return served,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let answered = answer(stream, peer);
        served.spawn(async move {
            answered.await;
            drop(permit);
        });
        while served.try_join_next().is_some() {}
    }
}

impl ListenerConfig {
    /// Answers what comes over a connection until it ends or is to end; one request only if the connection is not kept.
    pub async fn converse<S, F, B>(
        &self,
        stream: S,
        keep: bool,
        answer: impl Fn(Request<Incoming>) -> F,
    ) -> Result<(), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        F: Future<Output = Response<B>>,
        B: Body + Unpin + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let stream = WriteTimeoutStream::new(stream, self.unread);
        match &self.tls {
            None => self.answer_all(stream, keep, None, answer).await,
            // Apart: who speaks in the clear has no room for it.
            Some(tls) => {
                let accepted = Box::pin(tokio::time::timeout(ARRIVAL, tls.acceptor().accept(stream))).await;
                match accepted {
                    Ok(Ok(stream)) => {
                        let client = ClientCertificate::of(&stream, tls);
                        Box::pin(self.answer_all(stream, keep, client, answer)).await;
                    }
                    Ok(Err(error)) => return Err(HandshakeError(error.to_string())),
                    Err(_) => return Err(HandshakeError(format!("it took longer than {ARRIVAL:?}"))),
                }
            }
        }
        Ok(())
    }

    /// Each request carries its client's certificate, if there is one.
    async fn answer_all<S, F, B>(
        &self,
        stream: S,
        keep: bool,
        client: Option<Arc<ClientCertificate>>,
        answer: impl Fn(Request<Incoming>) -> F,
    ) where
        S: AsyncRead + AsyncWrite + Unpin,
        F: Future<Output = Response<B>>,
        B: Body + Unpin + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let stage = Arc::new(AnswerStage::default());
        let tell = self.tell;
        let stream =
            ProblemBodyStream::new(stream, Arc::clone(&stage), move |status| tell(not_a_request(status)));
        let answer = service_fn(|mut request: Request<Incoming>| {
            stage.asked();
            if let Some(client) = &client {
                request.extensions_mut().insert(Arc::clone(client));
            }
            let (answered, stage, client) = (answer(request), Arc::clone(&stage), client.clone());
            async move {
                let mut answered = answered.await.map(|body| TrackedBody::new(body, stage));
                if client.is_some_and(|client| client.ends_soon()) {
                    answered.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(answered)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(ARRIVAL)
            .keep_alive(keep)
            .max_headers(self.headers)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), answer);
        let mut connection = std::pin::pin!(connection);
        let mut stop = self.stop.clone();
        let stopped = tokio::select! {
            _ = connection.as_mut() => false,
            stop = stop.wait_for(|stop| *stop) => stop.is_ok(),
        };
        if stopped {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(self.drain, connection).await;
        }
    }
}

/// What who sent what is no request is told.
fn not_a_request(status: StatusCode) -> Problem {
    let (detail, hint) = match status {
        StatusCode::URI_TOO_LONG => {
            ("the address of the request is too long", "send what is long as its body")
        }
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            ("the request has too many headers, or too long ones", "send fewer, and 64 KiB at most")
        }
        _ => (
            "this is no request of HTTP/1.1",
            "see that the client speaks it, and https:// where TLS is spoken",
        ),
    };
    Problem::new(status, "invalid", detail, hint)
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What an upstream might answer, and an answer that looks as if the library had given it.
    const LOOKS_BARE: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";

    /// All that comes back when this is sent.
    async fn said(sent: &str) -> String {
        let (mut here, there) = tokio::io::duplex(1 << 20);
        let (_stop, stop) = watch::channel(false);
        let (unread, drain) = (Duration::from_secs(60), Duration::from_secs(60));
        let config =
            ListenerConfig { tls: None, unread, headers: 8, drain, tell: Problem::into_response, stop };
        let answer = |request: Request<Incoming>| async move {
            let (status, body) = match request.uri().path() {
                "/bare" => (StatusCode::BAD_REQUEST, ""),
                _ => (StatusCode::OK, LOOKS_BARE),
            };
            let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
            *response.status_mut() = status;
            response
        };
        let asking = async {
            here.write_all(sent.as_bytes()).await.unwrap();
            here.shutdown().await.unwrap();
            let mut all = String::new();
            here.read_to_string(&mut all).await.unwrap();
            all
        };
        tokio::join!(asking, config.answer_all(there, true, None, answer)).0
    }

    #[tokio::test]
    async fn what_is_no_request_is_told_so_as_every_failure_is() {
        let headers = "x: y\r\n".repeat(9);
        let many = format!("GET / HTTP/1.1\r\n{headers}\r\n");
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(65_535));
        for (sent, status) in [("GET\r\n\r\n", 400), ("\0\r\n\r\n", 400), (&*many, 431), (&*long, 414)] {
            let said = said(sent).await;
            let (head, body) = said.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
            assert!(head.contains("content-type: application/problem+json"), "{said}");
            assert!(head.contains(&format!("content-length: {}", body.len())), "{said}");
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!((&body["code"], &body["status"]), (&"invalid".into(), &status.into()));
        }
    }

    #[tokio::test]
    async fn what_was_answered_is_left_as_it_is() {
        let said =
            said("GET / HTTP/1.1\r\n\r\nGET /bare HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET\r\n\r\n").await;
        let whole = said.matches(&format!("\r\n\r\n{LOOKS_BARE}")).count();
        assert_eq!(whole, 2, "{said}");
        // Those two, and the bare one that was answered.
        assert_eq!(said.matches("content-length: 0\r\n").count(), 3, "{said}");
        assert_eq!(said.matches("application/problem+json").count(), 1, "the last is no request: {said}");
    }
}
