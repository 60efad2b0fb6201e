//! A wire that can be cut, between a client and the server. It counts requests: each begins with one frame of headers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The length of HTTP/2's opening words.
const PREFACE: usize = 24;
/// The length of what begins every frame.
const FRAME_HEAD: usize = 9;
/// The kind of frame that begins a request.
const HEADERS: u8 = 1;

/// The wire.
pub(crate) struct Proxy {
    pub(crate) address: String,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    requests: AtomicUsize,
    /// From this request on, replies are lost.
    deaf_from: AtomicUsize,
    /// From this request on, requests are lost.
    mute_from: AtomicUsize,
    down: AtomicBool,
    wires: Mutex<JoinSet<()>>,
}

impl Proxy {
    pub(crate) async fn to(upstream: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            upstream: upstream.to_string(),
            requests: AtomicUsize::new(0),
            deaf_from: AtomicUsize::new(usize::MAX),
            mute_from: AtomicUsize::new(usize::MAX),
            down: AtomicBool::new(false),
            wires: Mutex::default(),
        });
        tokio::spawn(listen(listener, Arc::clone(&shared)));
        Proxy { address, shared }
    }

    /// How many requests came so far.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Loses the reply to the n-th request from here on, and all later ones.
    pub(crate) fn lose_reply(&self, n: usize) {
        self.shared.deaf_from.store(self.requests() + n, Ordering::SeqCst);
    }

    /// Loses the n-th request from here on, and all later ones.
    pub(crate) fn lose_request(&self, n: usize) {
        self.shared.mute_from.store(self.requests() + n, Ordering::SeqCst);
    }

    /// Cuts all connections and lets no other through.
    pub(crate) fn down(&self) {
        self.shared.down.store(true, Ordering::SeqCst);
        self.shared.wires.lock().unwrap().abort_all();
    }

    /// Lets everything through. What was lost stays lost, and so do the connections that lost it.
    pub(crate) fn up(&self) {
        self.shared.wires.lock().unwrap().abort_all();
        self.shared.deaf_from.store(usize::MAX, Ordering::SeqCst);
        self.shared.mute_from.store(usize::MAX, Ordering::SeqCst);
        self.shared.down.store(false, Ordering::SeqCst);
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if shared.down.load(Ordering::SeqCst) {
            continue;
        }
        let Ok(server) = TcpStream::connect(&shared.upstream).await else { continue };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let mut wires = shared.wires.lock().unwrap();
        wires.spawn(requests(from_client, to_server, Arc::clone(&shared)));
        wires.spawn(replies(from_server, to_client, Arc::clone(&shared)));
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: Arc<Shared>) {
    let mut preface = [0; PREFACE];
    if from.read_exact(&mut preface).await.is_err() || to.write_all(&preface).await.is_err() {
        return;
    }
    loop {
        let mut frame = vec![0; FRAME_HEAD];
        if from.read_exact(&mut frame).await.is_err() {
            return;
        }
        let length = usize::from(frame[0]) << 16 | usize::from(frame[1]) << 8 | usize::from(frame[2]);
        if frame[3] == HEADERS {
            shared.requests.fetch_add(1, Ordering::SeqCst);
        }
        frame.resize(FRAME_HEAD + length, 0);
        if from.read_exact(&mut frame[FRAME_HEAD..]).await.is_err() {
            return;
        }
        let lost = shared.requests.load(Ordering::SeqCst) >= shared.mute_from.load(Ordering::SeqCst);
        if !lost && to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn replies(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: Arc<Shared>) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let lost = shared.requests.load(Ordering::SeqCst) >= shared.deaf_from.load(Ordering::SeqCst);
        if !lost && to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
