//! A way to the server that can be cut, and that counts what passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the proxy does, changed from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyMode {
    /// Everything passes.
    Open,
    /// Questions pass, answers do not: the connection ends when the first answer comes.
    NoAnswers,
    /// Questions do not pass: the connection ends when one comes.
    NoQuestions,
    /// Nothing passes, and nobody is told.
    Silent,
}

pub struct Proxy {
    /// The URL of the server through the proxy.
    pub server: String,
    way: watch::Sender<ProxyMode>,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    /// Messages that run something: Execute and simple queries.
    statements: AtomicU64,
    /// Messages that end a transaction of their own: Sync.
    syncs: AtomicU64,
    refusing: AtomicBool,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// A proxy before the server of this URL, whose host and port are numbers.
    pub async fn before(server: &str) -> Proxy {
        let (head, tail) = server.split_once('@').unwrap();
        let (address, database) = tail.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mine = listener.local_addr().unwrap();
        let (way, ways) = watch::channel(ProxyMode::Open);
        let counts = Arc::new(Counts::default());
        let task = tokio::spawn(accept(listener, address.to_string(), ways, Arc::clone(&counts)));
        Proxy { server: format!("{head}@{mine}/{database}"), way, counts, task }
    }

    pub fn set(&self, way: ProxyMode) {
        self.way.send_replace(way);
    }

    /// Ends every connection, and whether new ones are let in.
    pub async fn cut(&self, refusing: bool) {
        self.counts.refusing.store(refusing, Ordering::SeqCst);
        self.way.send_replace(ProxyMode::NoAnswers);
        self.way.send_replace(ProxyMode::NoQuestions);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        self.way.send_replace(ProxyMode::Open);
    }

    /// How many statements passed so far, and how many transactions.
    pub fn passed(&self) -> (u64, u64) {
        (self.counts.statements.load(Ordering::SeqCst), self.counts.syncs.load(Ordering::SeqCst))
    }
}

async fn accept(
    listener: TcpListener,
    server: String,
    ways: watch::Receiver<ProxyMode>,
    counts: Arc<Counts>,
) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        if counts.refusing.load(Ordering::SeqCst) {
            continue;
        }
        let Ok(server) = TcpStream::connect(&server).await else { continue };
        tokio::spawn(carry(client, server, ways.clone(), Arc::clone(&counts)));
    }
}

/// Carries both directions until one of them ends.
async fn carry(
    client: TcpStream,
    server: TcpStream,
    mut ways: watch::Receiver<ProxyMode>,
    counts: Arc<Counts>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut questions, mut answers) = (vec![0; 65_536], vec![0; 65_536]);
    let mut parser = Parser::default();
    loop {
        let way = *ways.borrow_and_update();
        tokio::select! {
            read = from_client.read(&mut questions) => {
                let Ok(count @ 1..) = read else { return };
                match way {
                    ProxyMode::NoQuestions => return,
                    ProxyMode::Silent => {}
                    ProxyMode::Open | ProxyMode::NoAnswers => {
                        parser.count(&questions[..count], &counts);
                        if to_server.write_all(&questions[..count]).await.is_err() { return }
                    }
                }
            }
            read = from_server.read(&mut answers) => {
                let Ok(count @ 1..) = read else { return };
                match way {
                    ProxyMode::NoAnswers => return,
                    ProxyMode::Silent => {}
                    ProxyMode::Open | ProxyMode::NoQuestions => {
                        if to_client.write_all(&answers[..count]).await.is_err() { return }
                    }
                }
            }
            changed = ways.changed() => {
                // The store was cut off as a whole.
                if changed.is_err() || *ways.borrow() == ProxyMode::NoQuestions { return }
            }
        }
    }
}

/// Takes the stream of a client apart: a start without a type, then messages of a type and a length.
#[derive(Default)]
struct Parser {
    started: bool,
    left: Vec<u8>,
}

impl Parser {
    fn count(&mut self, bytes: &[u8], counts: &Counts) {
        self.left.extend_from_slice(bytes);
        loop {
            let head = usize::from(self.started);
            let Some(length) = self.left.get(head..head + 4) else { return };
            let length = usize::try_from(u32::from_be_bytes(length.try_into().unwrap())).unwrap() + head;
            if self.left.len() < length {
                return;
            }
            let message: Vec<u8> = self.left.drain(..length).collect();
            // A request for TLS is followed by the start proper.
            let is_request = !self.started && length == 8;
            match (self.started, message[0]) {
                (true, b'E' | b'Q') => _ = counts.statements.fetch_add(1, Ordering::SeqCst),
                (true, b'S') => _ = counts.syncs.fetch_add(1, Ordering::SeqCst),
                (true | false, _) => {}
            }
            self.started |= !is_request;
        }
    }
}
