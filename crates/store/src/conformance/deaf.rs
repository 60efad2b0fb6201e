//! Servers that do not answer, or oddly: nobody waits for them for long, and people can read what is said of them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::sample;
use crate::Persistence;
use crate::error::StoreError;
use crate::key::{Key, Prefix};
use crate::store::{AgeStamp, BoxFuture, Expect, Store};

/// What libraries say to those who know them.
const RAW: [&str; 8] = ["Error(", "Error {", "{ ", "hyper", "tonic", "transport", "h2 ", "os error"];
/// How long a connection to a server takes that has no room for it: none is made.
const NO_ROOM: Duration = Duration::from_millis(200);
/// A bound on a hang.
const HANG: Duration = Duration::from_secs(60);
/// The connections that fit into the queue of the fullest server, and more.
const QUEUE: usize = 64;

/// A way to open a store whose server is at `HOST:PORT`.
pub type OpenAt<'a> = &'a (dyn Fn(String) -> BoxFuture<'a, Arc<dyn Store>> + Send + Sync);

/// A server that does not answer.
struct Deaf {
    address: String,
    /// What listens, and what fills its queue.
    held: (TcpListener, Vec<TcpStream>),
}

impl Deaf {
    /// Takes connections and says nothing.
    fn silent() -> io::Result<Deaf> {
        Deaf::listening(1_024)
    }

    /// Takes no connection, and does not refuse it either.
    async fn full() -> io::Result<Deaf> {
        let mut deaf = Deaf::listening(1)?;
        while deaf.held.1.len() < QUEUE {
            match tokio::time::timeout(NO_ROOM, TcpStream::connect(&deaf.address)).await {
                Ok(connected) => deaf.held.1.push(connected?),
                Err(_) => return Ok(deaf),
            }
        }
        Err(io::Error::other("its queue is never full"))
    }

    /// Nobody listens there, and nobody else gets it while the socket is kept.
    fn gone() -> io::Result<(String, TcpSocket)> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, 1], 0).into())?;
        Ok((socket.local_addr()?.to_string(), socket))
    }

    /// Speaks of something else. Ends with its task.
    async fn odd() -> io::Result<(String, JoinHandle<()>)> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?.to_string();
        let answering = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            }
        });
        Ok((address, answering))
    }

    fn listening(queue: u32) -> io::Result<Deaf> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, 1], 0).into())?;
        let listener = socket.listen(queue)?;
        let address = listener.local_addr()?.to_string();
        Ok(Deaf { address, held: (listener, Vec::new()) })
    }
}

/// Everything that is asked of a store fails within `limit` when its server takes connections and says nothing, and when it takes
/// none. Nothing is said to have been refused, and a swap at most to be unknown.
///
/// The runtime's clock is paused meanwhile: it moves on to the next timer whenever nothing else is to be done, so that a machine
/// that stands still adds nothing. The runtime has one thread.
pub async fn bounded(open: OpenAt<'_>, limit: Duration) {
    for server in [Deaf::silent(), Deaf::full().await] {
        let server = match server {
            Ok(server) => server,
            Err(error) => panic!("there is no server that does not answer: {error}"),
        };
        let took = fails(open, &server).await;
        assert!(took <= limit, "a server that does not answer was waited for: {took:?}");
    }
}

/// How long it takes until everything that is asked of a store has failed.
async fn fails(open: OpenAt<'_>, server: &Deaf) -> Duration {
    let store = open(server.address.clone()).await;
    let election = sample::fresh("deaf");
    let (key, record) = sample::record(&election, 1);
    tokio::time::pause();
    let begun = Instant::now();
    let all = async {
        tokio::join!(
            async { store.read(&key).await.err() },
            async { store.read(&Key::Store).await.err() },
            async { store.list(&Prefix::Elections).await.err() },
            async { store.watch(&key).await.err() },
            async {
                store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await.err()
            },
        )
    };
    let Ok((a, b, c, d, swapped)) = tokio::time::timeout(HANG, all).await else {
        panic!("something still waits for a server that does not answer after {:?}", begun.elapsed());
    };
    let took = begun.elapsed();
    tokio::time::resume();
    for error in [a, b, c, d] {
        assert!(matches!(error, Some(StoreError::Unavailable { .. })), "{error:?}");
    }
    let passing = matches!(swapped, Some(StoreError::Unavailable { .. } | StoreError::Unknown { .. }));
    assert!(passing, "{swapped:?}");
    took
}

/// What is said of a server that is gone, or is none of this kind, is said in words for people, with a hint.
pub async fn plain_words(open: OpenAt<'_>) {
    let (gone, odd) = match (Deaf::gone(), Deaf::odd().await) {
        (Ok(gone), Ok(odd)) => (gone, odd),
        (gone, odd) => panic!("there is no server to fail: {gone:?}, {:?}", odd.err()),
    };
    for address in [gone.0, odd.0] {
        let store = open(address).await;
        match store.read(&Key::Store).await {
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Refused { .. })) => {
                let said = error.to_string();
                assert!(RAW.iter().all(|raw| !said.contains(raw)), "not in words for people: {said}");
                assert!(!error.hint().is_empty(), "{said}");
            }
            other => panic!("{other:?}"),
        }
    }
    odd.1.abort();
}
