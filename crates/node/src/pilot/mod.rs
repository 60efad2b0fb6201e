//! Members on the Pilot network, an overlay of agents with addresses for ever and encrypted tunnels between their daemons.
//!
//! Each member talks to the Pilot daemon beside it, on its Unix socket, and sends datagrams to a port of the daemons of the
//! others: JSON in the shapes of the skill `pilot-leader-election`, with the machine's message inside ([`envelope`]). For whoever
//! listens, candidacies, a new leader and its heartbeats are also published on the topic `election:GROUP` of the own daemon; nothing is
//! decided by those.
//!
//! **Assumes** that the daemon tells truly which node a datagram is from: Pilot's tunnels are bound to the nodes' keys. With a shared secret
//! each message is also sealed, whole, and heard once ([`fresh`]). **Guarantees** what [`Transport`] asks for; that a message is
//! passed on only if it comes from the address that the list has for its sender, or that a sender which the list does not have has told under
//! the secret's seal; and if its sender runs the same algorithm in the same rhythm; that a
//! daemon that goes and comes back is found again; and a bound on everything that is kept. **Does not** guarantee that anything arrives:
//! Pilot is a network here, never the arbiter. The machine, its majority and its kept terms decide which
//! member leads.

mod address;
mod daemon;
mod envelope;
mod frame;
mod fresh;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod outbox;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use baton_peer::{NodeId, Term};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::tally::{Complaints, Source, Tally, count, lock};
use crate::tcp::{GroupSettings, Secret, seed};
use crate::transport::{Counters, Outgoing, Peer, Received, Transport};
use daemon::{DaemonConnection, PING};
use envelope::{Claim, MAX_PAYLOAD_BYTES, MessageCodec, SenderPosition, Type};
use frame::Request;
use fresh::Freshness;
use outbox::Outbox;

pub use address::{InvalidPilotAddress, PilotAddress};

/// Messages that came and wait to be taken; what comes while so many wait is dropped.
const INBOX_LENGTH: usize = 1_024;
/// Those who can be reached: more than a group can have, since some may come while others go.
const PEERS_MAX: usize = 256;
/// A member that told where it is and was not heard for so long is not sent to any more.
const FORGET_AFTER: Duration = Duration::from_secs(3_600);
/// Heartbeats are announced at most so often.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// Who a member is, and which daemon is its own.
#[derive(Clone, Debug)]
pub struct PilotOptions {
    /// The member.
    pub id: NodeId,
    /// Its priority, which is announced.
    pub priority: u8,
    /// The group's name, at most 64 bytes.
    pub group: String,
    /// The algorithm and the rhythm.
    pub terms: GroupSettings,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// The Pilot port, the same for all members of a group.
    pub port: u16,
    /// Where the list says that this member is; the daemon must be there.
    pub address: Option<PilotAddress>,
    /// What all members know and nobody else.
    pub secret: Option<Secret>,
}

/// Why a member is not on the network.
#[derive(Debug, thiserror::Error)]
pub enum PilotError {
    /// No daemon answers at the socket.
    #[error("no Pilot daemon answers at {}: {error}", socket.display())]
    Unreachable {
        /// Where it should.
        socket: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The daemon refuses to tell who it is.
    #[error("the Pilot daemon says: {0}")]
    Daemon(String),
    /// The port cannot be had.
    #[error("the Pilot daemon does not give us port {0}: {1}")]
    Port(u16, String),
    /// The daemon is another node than the list says.
    #[error("the daemon is at {actual}, and the list says that this member is at {listed}")]
    Elsewhere {
        /// By the list.
        listed: PilotAddress,
        /// By the daemon.
        actual: PilotAddress,
    },
}

/// The Pilot network as a transport.
pub struct Pilot {
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Received>,
    keeper: JoinHandle<()>,
    told: LastAnnouncements,
    /// In which term it leads.
    leads: Option<Term>,
}

/// What the tasks of one transport share.
struct Shared {
    speech: MessageCodec,
    socket: PathBuf,
    port: u16,
    listed: Option<PilotAddress>,
    own: Mutex<PilotAddress>,
    /// Whether the daemon is there.
    up: AtomicBool,
    outbox: Outbox,
    inbox: mpsc::Sender<Received>,
    peers: Mutex<BTreeMap<NodeId, PeerRoute>>,
    heard: Mutex<BTreeMap<NodeId, Instant>>,
    fresh: Mutex<Freshness>,
    topic: Mutex<Topic>,
    tally: Tally,
    complaints: Complaints,
    flushing: Mutex<Option<Waker>>,
}

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PeerRoute {
    address: PilotAddress,
    /// It was told by the member itself, which was heard last then, and gives way to what this member is told by its own user.
    learned: Option<Instant>,
}

impl PeerRoute {
    /// Whether it told where it is and then went, as it seems for good. It can tell it again.
    fn is_gone(&self, now: Instant) -> bool {
        self.learned.is_some_and(|heard| now - heard >= FORGET_AFTER)
    }
}

/// The stream on which the topic's events are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    Closed { until: Instant },
    Dialled,
    Open { stream: u32 },
}

/// What was announced last.
#[derive(Debug, Default)]
struct LastAnnouncements {
    candidacy: Option<Term>,
    leadership: Option<Term>,
    at: Option<Instant>,
}

impl Pilot {
    /// Talks to the daemon, which must be there; from then on it may go and come back.
    pub async fn open(options: PilotOptions) -> Result<Pilot, PilotError> {
        let line = DaemonConnection::open(&options.socket, options.port).await?;
        let (sender, inbox) = mpsc::channel(INBOX_LENGTH);
        let shared = Arc::new(Shared {
            speech: MessageCodec {
                id: options.id,
                priority: options.priority,
                group: options.group,
                terms: options.terms,
                secret: options.secret,
            },
            socket: options.socket,
            port: options.port,
            listed: options.address,
            own: Mutex::new(line.own),
            up: AtomicBool::new(true),
            outbox: Outbox::default(),
            inbox: sender,
            peers: Mutex::default(),
            heard: Mutex::default(),
            fresh: Mutex::new(Freshness::new(seed())),
            topic: Mutex::new(Topic::Closed { until: Instant::now() }),
            tally: Tally::default(),
            complaints: Complaints::default(),
            flushing: Mutex::default(),
        });
        shared.check_own(line.own)?;
        let keeper = tokio::spawn(daemon::keep(Arc::clone(&shared), line));
        Ok(Pilot { shared, inbox, keeper, told: LastAnnouncements::default(), leads: None })
    }

    /// Where its daemon is.
    pub fn local(&self) -> PilotAddress {
        *lock(&self.shared.own)
    }

    /// Tells the topic's listeners what this message means, at a pace that they can bear.
    fn announce(&mut self, kind: &str, term: Term) {
        let due = self.told.at.is_none_or(|at| at.elapsed() >= ANNOUNCE_EVERY);
        match Type::of(kind).1 {
            Claim::Candidate if self.told.candidacy != Some(term) => {
                if self.publish(Type::Election, term) {
                    self.told.candidacy = Some(term);
                }
            }
            Claim::Leader if self.leads == Some(term) && (due || self.told.leadership != Some(term)) => {
                self.announce_leader(term);
            }
            Claim::Candidate | Claim::Leader | Claim::Nothing => {}
        }
    }

    /// That it leads, the first time; from then on that it still does.
    fn announce_leader(&mut self, term: Term) {
        let known = self.told.leadership == Some(term);
        if self.publish(if known { Type::Heartbeat } else { Type::Leader }, term) {
            (self.told.leadership, self.told.at) = (Some(term), Some(Instant::now()));
        }
    }

    /// Whether there was a stream to publish it on.
    fn publish(&self, what: Type, term: Term) -> bool {
        let Topic::Open { stream } = *lock(&self.shared.topic) else { return false };
        let data = self.shared.speech.announcement(self.local().node(), what, term.0);
        self.shared.outbox.push(None, Request::Send { stream, data: &data }.encode());
        true
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Transport for Pilot {
    fn send(&mut self, message: Outgoing) {
        let tally = &self.shared.tally;
        if message.bytes.len() > MAX_PAYLOAD_BYTES {
            return count(&tally.oversized);
        }
        let way = lock(&self.shared.peers).get(&message.to).copied();
        let Some(way) = way.filter(|_| self.shared.up.load(Ordering::Acquire)) else {
            return count(&tally.dropped);
        };
        let leads = self.leads == Some(message.term);
        let data = self.shared.speech.message(self.shared.place(message.to), leads, &message);
        let frame = Request::SendTo { to: way.address, port: self.shared.port, data: &data }.encode();
        if self.shared.outbox.push(Some(message.to), frame) {
            count(&tally.dropped);
        }
        self.announce(message.kind, message.term);
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<Received>> {
        self.inbox.poll_recv(context)
    }

    fn reach(&mut self, peers: &[Peer]) {
        let mut ways = lock(&self.shared.peers);
        ways.retain(|_, way| way.learned.is_some());
        for peer in peers.iter().filter(|peer| peer.id != self.shared.speech.id).take(PEERS_MAX) {
            match peer.address.parse() {
                Ok(address) => {
                    ways.insert(peer.id, PeerRoute { address, learned: None });
                }
                Err(error) => {
                    let text = format!("member {}: {error}", peer.id);
                    self.shared.complaints.tell(Source::Member(peer.id), text);
                }
            }
        }
        lock(&self.shared.heard).retain(|id, _| ways.contains_key(id));
    }

    fn leads(&mut self, term: Option<Term>) {
        self.leads = term;
        if let Some(term) = term {
            self.announce_leader(term);
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<()> {
        *lock(&self.shared.flushing) = Some(context.waker().clone());
        let busy = self.shared.up.load(Ordering::Acquire) && !self.shared.outbox.is_empty();
        if busy { Poll::Pending } else { Poll::Ready(()) }
    }

    fn counters(&self) -> Counters {
        self.shared.tally.counters()
    }

    /// The members that were heard not long ago: the sender of a datagram does not learn whether it arrives.
    fn connected(&self) -> Vec<NodeId> {
        let since = |at: &Instant| at.elapsed() < 3 * PING;
        lock(&self.shared.heard).iter().filter(|(_, at)| since(at)).map(|(id, _)| *id).collect()
    }

    fn addresses(&self) -> Vec<Peer> {
        let peers = lock(&self.shared.peers);
        peers.iter().map(|(id, way)| Peer { id: *id, address: way.address.to_string() }).collect()
    }

    fn complaints(&mut self) -> Vec<String> {
        self.shared.complaints.take()
    }
}

impl Shared {
    /// The place of the next message to a member.
    fn place(&self, to: NodeId) -> SenderPosition {
        let stamp = self.speech.secret.is_some().then(|| lock(&self.fresh).stamp(to));
        SenderPosition { at: *lock(&self.own), stamp }
    }

    fn wake_flusher(&self) {
        if let Some(waker) = lock(&self.flushing).take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_told_where_it_is_and_went_is_forgotten_and_who_is_listed_is_not() {
        let (address, heard) = ("0:0000.0000.0002".parse().unwrap(), Instant::now());
        let way = |learned| PeerRoute { address, learned };
        assert!(!way(Some(heard)).is_gone(heard + FORGET_AFTER / 2));
        assert!(way(Some(heard)).is_gone(heard + FORGET_AFTER));
        assert!(!way(None).is_gone(heard + 2 * FORGET_AFTER));
    }
}
