//! A network in memory, for tests of the shell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use baton_node::{Counters, Outgoing, Peer, Received, Transport};
use baton_peer::NodeId;
use tokio::sync::mpsc;

#[derive(Clone, Default)]
pub(crate) struct Wires(Arc<Mutex<BTreeMap<NodeId, mpsc::UnboundedSender<Received>>>>);

impl Wires {
    pub(crate) fn new() -> Wires {
        Wires::default()
    }

    /// The end of one member.
    pub(crate) fn end(&self, id: NodeId) -> End {
        let (sender, inbox) = mpsc::unbounded_channel();
        self.0.lock().unwrap().insert(id, sender);
        End { id, wires: self.clone(), inbox, places: Vec::new() }
    }
}

pub(crate) struct End {
    id: NodeId,
    wires: Wires,
    inbox: mpsc::UnboundedReceiver<Received>,
    /// Where it was last told that the others are.
    places: Vec<Peer>,
}

impl End {
    /// Says something as this member.
    pub(crate) fn tell(&self, to: NodeId, bytes: &[u8]) {
        if let Some(sender) = self.wires.0.lock().unwrap().get(&to) {
            let _ = sender.send(Received { from: self.id, bytes: bytes.to_vec() });
        }
    }

    /// The next number that a toy says.
    pub(crate) async fn said(&mut self) -> u64 {
        let received = self.inbox.recv().await.unwrap();
        postcard::from_bytes(&received.bytes).unwrap()
    }

    /// All that a toy has said.
    pub(crate) fn all_said(&mut self) -> Vec<u64> {
        let mut said = Vec::new();
        while let Ok(received) = self.inbox.try_recv() {
            said.push(postcard::from_bytes(&received.bytes).unwrap());
        }
        said
    }
}

impl Transport for End {
    fn send(&mut self, message: Outgoing) {
        self.tell(message.to, &message.bytes);
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<Received>> {
        self.inbox.poll_recv(context)
    }

    fn reach(&mut self, peers: &[Peer]) {
        self.places = peers.to_vec();
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn connected(&self) -> Vec<NodeId> {
        let wires = self.wires.0.lock().unwrap();
        let others = wires.iter().filter(|(id, sender)| **id != self.id && !sender.is_closed());
        others.map(|(id, _)| *id).collect()
    }

    fn addresses(&self) -> Vec<Peer> {
        self.places.clone()
    }

    fn complaints(&mut self) -> Vec<String> {
        Vec::new()
    }
}
