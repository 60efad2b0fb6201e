//! How a server is reached: over TCP, perhaps with TLS, or over a Unix socket of this machine.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustix::process::geteuid;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep};
use tower_service::Service;

/// The name by which requests call a server at a socket. It is a loopback name, as a server demands, with a port that no TCP server has.
pub(crate) const AT_SOCKET: &str = "http://localhost:0";
/// How long a server may leave a connection waiting.
const CONNECT: Duration = Duration::from_secs(5);
/// How soon a connection is tried again while too many wait.
const AGAIN: Duration = Duration::from_millis(10);

/// Opens connections. What is called [`AT_SOCKET`] is reached over the socket; redirects may name other servers.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) network: HttpsConnector<HttpConnector>,
    pub(crate) socket: Option<Arc<Path>>,
    pub(crate) trust: Trust,
}

/// To which servers at a socket something is sent.
#[derive(Clone, Copy)]
pub(crate) struct Trust {
    /// The user whose server it must be, if the URL names one.
    pub(crate) owner: Option<u32>,
    /// Requests show an access token.
    pub(crate) shows_token: bool,
}

/// A connection of either kind.
pub(crate) enum Wire {
    /// On the heap: the state of TLS is large.
    Network(Box<MaybeHttpsStream<TokioIo<TcpStream>>>),
    Socket(TokioIo<UnixStream>),
}

/// This user may not use the socket, or should not: nothing was sent.
#[derive(Debug)]
pub(crate) struct NotForUs {
    why: String,
    pub(crate) hint: String,
}

impl NotForUs {
    fn new(why: String) -> NotForUs {
        let hint = "run as the server's user, or use the server's address with a token".to_string();
        NotForUs { why, hint }
    }
}

impl fmt::Display for NotForUs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for NotForUs {}

type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for Dial {
    type Response = Wire;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Wire, Failed>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        self.network.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        match &self.socket {
            Some(path) if to.port_u16() == Some(0) => {
                let (path, trust) = (Arc::clone(path), self.trust);
                Box::pin(async move { Ok(Wire::Socket(TokioIo::new(connect(&path, trust).await?))) })
            }
            Some(_) | None => {
                let connecting = self.network.call(to);
                Box::pin(async move { Ok(Wire::Network(Box::new(connecting.await?))) })
            }
        }
    }
}

/// Connects to a socket, and checks the listener's user before it sends anything.
async fn connect(path: &Path, trust: Trust) -> Result<UnixStream, Failed> {
    let begun = Instant::now();
    let stream = loop {
        match UnixStream::connect(path).await {
            Ok(stream) => break stream,
            // As many wait as may: the server is busy, or stopped.
            Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < CONNECT => {
                sleep(AGAIN).await;
            }
            Err(error) => return Err(worded(error)),
        }
    };
    check_owner(stream.peer_cred()?.uid(), geteuid().as_raw(), trust)?;
    Ok(stream)
}

/// Refuses a server of another user, before it is shown a token or a lease key. An honest one would refuse us anyway. Root may ask every server, but any
/// user's process can listen at a path, so root's token goes to another user's server only where the URL names that user.
fn check_owner(server: u32, own: u32, trust: Trust) -> Result<(), NotForUs> {
    match trust.owner {
        Some(owner) if server == owner => Ok(()),
        Some(owner) => {
            let why = format!("its server runs as the user {server}, and the URL says owner={owner}");
            let hint = "see which process listens there, or correct the URL".to_string();
            Err(NotForUs { why, hint })
        }
        None if server == own => Ok(()),
        None if own == 0 && !trust.shows_token => Ok(()),
        None if own == 0 => Err(NotForUs {
            why: format!("its server runs as the user {server}, who would see the access token of root"),
            hint: format!(
                "if it is the right server, name its user: unix:/PATH?owner={server}; or ask without a token"
            ),
        }),
        None => Err(NotForUs::new(format!(
            "its server runs as the user {server}, and lets only that user and root in, not {own}"
        ))),
    }
}

fn worded(error: io::Error) -> Failed {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            let own = geteuid().as_raw();
            Box::new(NotForUs::new(format!(
                "the user {own} may not use this socket: it is for the server's own user and for root"
            )))
        }
        ErrorKind::NotFound => "there is no such socket".into(),
        ErrorKind::ConnectionRefused => "no server listens at this socket".into(),
        ErrorKind::WouldBlock => "too many connections wait for the server".into(),
        _ => error.into(),
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        match self {
            Wire::Network(stream) => stream.connected(),
            Wire::Socket(_) => Connected::new(),
        }
    }
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Network(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
            Wire::Socket(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Network(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
            Wire::Socket(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Network(stream) => Pin::new(stream.as_mut()).poll_flush(context),
            Wire::Socket(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Network(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            Wire::Socket(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUST: Trust = Trust { owner: None, shows_token: false };

    #[test]
    fn only_root_asks_a_server_of_another_user() {
        for (server, own, may) in [(7, 7, true), (7, 0, true), (0, 0, true), (0, 7, false), (8, 7, false)] {
            let checked = check_owner(server, own, TRUST);
            assert_eq!(checked.is_ok(), may, "the user {own} at a server of {server}");
        }
        let refused = check_owner(8, 7, TRUST).unwrap_err().to_string();
        assert_eq!(refused, "its server runs as the user 8, and lets only that user and root in, not 7");
    }

    #[test]
    fn the_token_of_root_is_shown_to_no_other_users_server_unless_the_url_names_it() {
        let shows = Trust { shows_token: true, ..TRUST };
        assert!(check_owner(0, 0, shows).is_ok() && check_owner(7, 7, shows).is_ok());
        let refused = check_owner(7, 0, shows).unwrap_err();
        assert!(refused.why.contains("the user 7, who would see the access token of root"), "{refused}");
        assert!(refused.hint.contains("unix:/PATH?owner=7"), "{}", refused.hint);
        assert!(check_owner(7, 0, Trust { owner: Some(7), ..shows }).is_ok());
        for (server, own) in [(8, 0), (0, 0), (8, 8)] {
            let named = Trust { owner: Some(7), ..TRUST };
            assert!(check_owner(server, own, named).is_err(), "a server of {server} is none of 7");
        }
    }

    #[tokio::test]
    async fn a_socket_without_a_server_is_told_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        assert_eq!(connect(&path, TRUST).await.unwrap_err().to_string(), "there is no such socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let refused = connect(&path, TRUST).await.unwrap_err().to_string();
        assert_eq!(refused, "no server listens at this socket");
    }

    #[tokio::test]
    async fn a_server_that_is_busy_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let socket = tokio::net::UnixSocket::new_stream().unwrap();
        socket.bind(&path).unwrap();
        let listener = socket.listen(1).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(&path).await {
            waiting.push(stream);
        }
        let (connected, accepted) = tokio::join!(connect(&path, TRUST), async {
            sleep(AGAIN).await;
            listener.accept().await
        });
        assert!(connected.is_ok() && accepted.is_ok());
    }
}
