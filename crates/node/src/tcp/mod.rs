//! Members on a network with TCP.
//!
//! Each member dials every other and sends on the connection that it made; what comes on one that others made is only read.
//! Assumes that addresses lead to the members that they are said to. Guarantees what [`Transport`] asks for; that a message is
//! passed on only if its sender has proved who it is ([`Trust`]) and runs the same algorithm in the same rhythm; and
//! that every connection, queue, message and greeting has a bound in number, size and time. Does not guarantee that messages
//! are kept over a reconnection, nor, with a shared secret, that nobody reads them.

mod accept;
mod dial;
mod frame;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod greeting;
mod line;
mod requests;
mod secret;
#[cfg(test)]
mod tests;
mod tls;

pub use greeting::{GroupSettings, Trust};
pub use requests::{AskError, Remote};
pub use secret::Secret;
pub use tls::{CertificateError, CertificateFiles, Certificates};

pub(crate) use accept::is_host_and_port;
pub(crate) use dial::seed;
pub(crate) use secret::Side;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use baton_peer::{NodeId, Timing};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::control::ControlHandle;
use crate::queue::Queue;
use crate::tally::{Complaints, Tally, count, lock};
use crate::transport::{Counters, MAX_MESSAGE_BYTES, Outgoing, Peer, Received, Transport};
use greeting::{Caller, Greeter, MAX_ADDRESS_BYTES};

/// Messages that came and wait to be taken; what comes while so many wait is dropped.
const INBOX_LENGTH: usize = 1_024;
/// Names that are looked up at once. Who looks up waits on a thread, of those that everything in this process shares: the warden's work must find one.
const LOOKUPS_MAX: usize = 32;
/// Those who can be dialled: more than a group can have, since some may come while others go.
const PEERS_MAX: usize = 256;

/// Who a member is, and how it is reached.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// The member.
    pub id: NodeId,
    /// The group's name, at most 64 bytes.
    pub group: String,
    /// The algorithm and the rhythm.
    pub terms: GroupSettings,
    /// The rhythm, from which patience with connections is derived.
    pub timing: Timing,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where others shall dial this member; where it listens if none. A host of 0.0.0.0 means: from where it dials.
    pub advertise: Option<String>,
    /// How members know each other.
    pub trust: Trust,
}

/// Why a member cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum TcpError {
    /// It would be open to everybody.
    #[error("{0} is not a loopback address, and nobody would have to prove who they are")]
    Unguarded(String),
    /// The address cannot be listened at.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The certificate is not this member's.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// TCP as a transport.
pub struct Tcp {
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Received>,
    listener: JoinHandle<()>,
    local: SocketAddr,
}

/// What the tasks of one transport share.
pub(crate) struct Shared {
    me: Greeter,
    id: NodeId,
    patience: Patience,
    inbox: mpsc::Sender<Received>,
    control_handle: ControlHandle,
    tally: Tally,
    links: Mutex<BTreeMap<NodeId, Link>>,
    callers: Mutex<BTreeMap<NodeId, IncomingConnection>>,
    complaints: Complaints,
    lookups: Arc<Semaphore>,
    flushing: Mutex<Option<Waker>>,
}

/// What one member sends.
struct IncomingConnection {
    /// Of which process.
    life: u64,
    /// How often a connection of another process took the place of one that still worked.
    clashes: u32,
    /// Since when.
    since: Instant,
    task: tokio::task::AbortHandle,
}

/// The way to one member.
struct Link {
    address: String,
    /// It was told by the member itself, and gives way to what this member is told by its own user.
    learned: bool,
    queue: Arc<Queue>,
    connected: Arc<AtomicBool>,
    /// One lookup of its name at a time, however long the last one takes.
    lookup: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How long things may take, in proportion to the rhythm.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// The first wait after a connection failed.
    retry_first: Duration,
    /// The longest such wait.
    retry_most: Duration,
    /// For making a connection, and then for the greeting; and for what is on its way unacknowledged.
    connect: Duration,
    /// Between two signs of life on a quiet connection.
    ping: Duration,
    /// After so much silence a connection that others made is closed.
    silence: Duration,
    /// A member that told its address itself and was out of reach for so long is not dialled any more; it can tell it again.
    forget: Duration,
}

impl Patience {
    fn of(timing: &Timing) -> Patience {
        let duration = |span: baton_election::Span| Duration::from_nanos(span.as_nanos());
        let (heartbeat, longest) = (duration(timing.heartbeat), duration(timing.timeout_max));
        Patience {
            retry_first: (heartbeat / 2).clamp(Duration::from_millis(10), Duration::from_secs(1)),
            retry_most: longest.clamp(Duration::from_millis(100), Duration::from_secs(5)),
            connect: longest.clamp(Duration::from_millis(500), Duration::from_secs(5)),
            ping: Duration::from_secs(10),
            silence: Duration::from_secs(45),
            forget: (20 * longest).clamp(Duration::from_secs(5), Duration::from_secs(3_600)),
        }
    }
}

impl Tcp {
    /// Listens, and dials the peers that [`Transport::reach`] names. Passes a caller that only wants to ask
    /// to the `control_handle`.
    pub async fn open(options: TcpOptions, control_handle: ControlHandle) -> Result<Tcp, TcpError> {
        match &options.trust {
            Trust::Loopback if !options.listen.ip().is_loopback() => {
                return Err(TcpError::Unguarded(options.listen.ip().to_string()));
            }
            Trust::Certificates(certificates) => certificates.check_names(options.id)?,
            Trust::Loopback | Trust::Secret(_) => {}
        }
        let listener =
            accept::listen(options.listen).map_err(|error| TcpError::Listen(options.listen, error))?;
        let local = listener.local_addr().map_err(|error| TcpError::Listen(options.listen, error))?;
        let (sender, inbox) = mpsc::channel(INBOX_LENGTH);
        let advertise = options.advertise.unwrap_or_else(|| local.to_string());
        let me = Greeter {
            caller: Caller::Member(options.id),
            group: options.group,
            terms: options.terms,
            advertise,
            life: dial::seed(),
            trust: options.trust,
        };
        let shared = Arc::new(Shared {
            me,
            id: options.id,
            patience: Patience::of(&options.timing),
            inbox: sender,
            control_handle,
            tally: Tally::default(),
            links: Mutex::default(),
            callers: Mutex::default(),
            complaints: Complaints::default(),
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            flushing: Mutex::default(),
        });
        let listener = tokio::spawn(accept::serve(Arc::clone(&shared), listener));
        Ok(Tcp { shared, inbox, listener, local })
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.listener.abort();
        lock(&self.shared.links).clear();
        for (_, caller) in std::mem::take(&mut *lock(&self.shared.callers)) {
            caller.task.abort();
        }
    }
}

impl Transport for Tcp {
    fn send(&mut self, message: Outgoing) {
        let tally = &self.shared.tally;
        if message.bytes.len() > MAX_MESSAGE_BYTES {
            return count(&tally.oversized);
        }
        let links = lock(&self.shared.links);
        let fell_out = match links.get(&message.to) {
            Some(link) => link.queue.push(message.bytes),
            None => true,
        };
        if fell_out {
            count(&tally.dropped);
        }
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<Received>> {
        self.inbox.poll_recv(context)
    }

    fn reach(&mut self, peers: &[Peer]) {
        lock(&self.shared.links).retain(|id, link| link.learned || peers.iter().any(|peer| peer.id == *id));
        for peer in peers.iter().filter(|peer| peer.id != self.shared.id) {
            self.shared.connect(peer.id, &peer.address, false);
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<()> {
        *lock(&self.shared.flushing) = Some(context.waker().clone());
        let links = lock(&self.shared.links);
        let busy =
            links.values().any(|link| link.connected.load(Ordering::Acquire) && !link.queue.is_empty());
        if busy { Poll::Pending } else { Poll::Ready(()) }
    }

    fn counters(&self) -> Counters {
        self.shared.tally.counters()
    }

    fn connected(&self) -> Vec<NodeId> {
        let links = lock(&self.shared.links);
        links.iter().filter(|(_, link)| link.connected.load(Ordering::Acquire)).map(|(id, _)| *id).collect()
    }

    fn addresses(&self) -> Vec<Peer> {
        let links = lock(&self.shared.links);
        links.iter().map(|(id, link)| Peer { id: *id, address: link.address.clone() }).collect()
    }

    fn complaints(&mut self) -> Vec<String> {
        self.shared.complaints.take()
    }
}

impl Shared {
    /// Dials a member at that address from here on. What a member says of itself counts less than what our user says of it.
    fn connect(self: &Arc<Self>, id: NodeId, address: &str, learned: bool) {
        let mut links = lock(&self.links);
        if let Some(link) = links.get_mut(&id)
            && (link.address == address || (learned && !link.learned))
        {
            link.learned &= learned;
            return;
        }
        if address.len() > MAX_ADDRESS_BYTES || (links.len() >= PEERS_MAX && !links.contains_key(&id)) {
            return count(&self.tally.malformed);
        }
        let (queue, connected) = (Arc::new(Queue::default()), Arc::new(AtomicBool::new(false)));
        // A name that is still being looked up is not looked up once more under another address.
        let lookup =
            links.get(&id).map_or_else(|| Arc::new(Semaphore::new(1)), |link| Arc::clone(&link.lookup));
        let way = dial::Dialer {
            shared: Arc::clone(self),
            to: id,
            address: address.to_string(),
            queue: Arc::clone(&queue),
            connected: Arc::clone(&connected),
            lookup: Arc::clone(&lookup),
        };
        let task = tokio::spawn(way.keep());
        links.insert(id, Link { address: address.to_string(), learned, queue, connected, lookup, task });
    }

    /// Forgets an address that the member told itself, if it is not heard either: it may have left for good.
    fn forget(&self, id: NodeId, address: &str) {
        let is_heard = lock(&self.callers).get(&id).is_some_and(|line| !line.task.is_finished());
        let mut links = lock(&self.links);
        if !is_heard && links.get(&id).is_some_and(|link| link.learned && link.address == address) {
            links.remove(&id);
        }
    }

    fn wake_flusher(&self) {
        if let Some(waker) = lock(&self.flushing).take() {
            waker.wake();
        }
    }
}
