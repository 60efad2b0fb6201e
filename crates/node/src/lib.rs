//! Runs a machine of `baton-peer` over a real network.

mod transport;

pub use transport::{
    Counters, MAX_MESSAGE_BYTES, Outgoing, Peer, QUEUE_LENGTH, Received, Transport, flush, receive,
};
