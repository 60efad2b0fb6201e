//! What carries messages from member to member: the trait that every network is behind.
//!
//! Assumes nothing of the network: messages may get lost, come late, twice, or in another order, and every algorithm
//! lives with that. Guarantees (each transport must) that nothing here ever waits: [`Transport::send`] puts a message into
//! a bounded queue of that one receiver, from which the **oldest** falls out when it is full, so that a silent member
//! neither blocks the sender nor the others; and that [`Received::from`] is who sent it, as surely as the transport can
//! know. Does not guarantee that anything arrives, nor that the sender learns of it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use baton_peer::{NodeId, Term};
use serde::{Deserialize, Serialize};

/// The largest message, in bytes; a larger one is counted and dropped by whoever sees it first.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Messages that wait for one receiver; of more, the oldest are dropped. Enough for several rounds of any algorithm, and so
/// few that a receiver that comes back is not told old stories for long.
pub const QUEUE_LENGTH: usize = 64;

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// For whom.
    pub to: NodeId,
    /// What it is, in the paper's word: for transports that sort messages by topics, and for people.
    pub kind: &'static str,
    /// The sender's term, for transports that show it. What counts is in the bytes.
    pub term: Term,
    /// The message as the machine's type was serialised, at most [`MAX_MESSAGE_BYTES`].
    pub bytes: Vec<u8>,
}

/// A message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub from: NodeId,
    /// As it was sent. Not yet understood, and not trusted.
    pub bytes: Vec<u8>,
}

/// Where a member can be reached, in the transport's own way of saying it: `HOST:PORT` over TCP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Peer {
    /// Which member.
    pub id: NodeId,
    /// Where it is.
    pub address: String,
}

/// A network. It works in tasks of its own; these calls only leave something there or take something away.
pub trait Transport: Send {
    /// Leaves a message for a member. Never waits. What cannot be sent is dropped and counted.
    fn send(&mut self, message: Outgoing);

    /// The next message, if there is one; else wakes the task once there is. `None` if the network has failed for good and
    /// nothing will come any more.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<Received>>;

    /// These are the others, and where they are. A member that is not among them is reached only if it has
    /// told its address itself.
    fn reach(&mut self, peers: &[Peer]);

    /// This member leads from here on, in that term, or does not any more: for networks that tell listeners. What they are told decides
    /// nothing.
    fn leads(&mut self, _term: Option<Term>) {}

    /// Ready once nothing is left in the queues of those who can be reached: before the process leaves. The caller bounds
    /// the wait.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// What has happened so far.
    fn counters(&self) -> Counters;

    /// The members that can be sent to at this moment, in the order of the ids.
    fn connected(&self) -> Vec<NodeId>;

    /// Where the others are, as far as this is known here, in the order of the ids.
    fn addresses(&self) -> Vec<Peer>;

    /// What people should know and has not been told yet: a member of another version, a wrong secret. Each is told once,
    /// and at most a few are kept.
    fn complaints(&mut self) -> Vec<String>;
}

/// Waits for the next message.
pub async fn receive(transport: &mut dyn Transport) -> Option<Received> {
    poll_fn(|context| transport.poll_receive(context)).await
}

/// The next message, if one is there already.
pub(crate) async fn waiting(transport: &mut dyn Transport) -> Option<Option<Received>> {
    poll_fn(|context| match transport.poll_receive(context) {
        Poll::Ready(received) => Poll::Ready(Some(received)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Waits until everything that can be sent is sent.
pub async fn flush(transport: &mut dyn Transport) {
    poll_fn(|context| transport.poll_flush(context)).await;
}

/// What a transport has seen. Numbers only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Messages given to the network.
    pub sent: u64,
    /// Messages that came and were passed on.
    pub received: u64,
    /// Messages that fell out of a full queue, or had nowhere to go.
    pub dropped: u64,
    /// Messages above the bound, of either direction.
    pub oversized: u64,
    /// Messages and greetings that made no sense.
    pub malformed: u64,
    /// Whoever could not prove to be a member, or sent something that was not its own.
    pub refused: u64,
    /// Times that a connection was made.
    pub connections: u64,
}
