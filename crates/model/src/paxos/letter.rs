//! Messages under way, and those that need not be any more.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use baton_election::Moment;
use baton_peer::paxos::Message;
use baton_peer::{Effects, Input, Machine, Term};

use super::world::{Group, Node, World, number};

/// A message under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    /// Its place in the order, and all that needs to be hashed.
    pub(super) rank: u64,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) message: Arc<Message>,
}

impl Hash for Letter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.rank);
    }
}

impl Letter {
    pub(super) fn new(from: usize, to: usize, message: Message) -> Letter {
        let mut hasher = DefaultHasher::new();
        (from, to, &message).hash(&mut hasher);
        Letter { rank: hasher.finish(), from, to, message: Arc::new(message) }
    }
}

impl Group {
    /// Drops what is under way to a member and could only be ignored, now and for ever: worlds that differ in nothing else are one.
    pub(super) fn forget_dead_letters(&self, world: &mut World, node: usize) {
        let now = self.clock(world, node);
        let mine = Arc::clone(&world.nodes[node]);
        world.wire.retain(|letter| letter.to != node || !self.is_dead(&mine, now, letter));
    }

    fn is_dead(&self, mine: &Node, now: Moment, letter: &Letter) -> bool {
        let promised = mine.saved.as_ref().map_or(Term::ZERO, |saved| saved.promised);
        match &*letter.message {
            Message::Prepare { ballot, .. } => *ballot < promised,
            Message::Accept { vote, .. } if vote.ballot < promised => !self.scene.outbid,
            // A ballot that is over does not come back, and who has been counted is not counted again.
            Message::Accept { .. }
            | Message::Promise { .. }
            | Message::Accepted { .. }
            | Message::Refused { .. } => {
                let mut after = mine.machine.clone();
                let input = Input::Received { from: number(letter.from), message: (*letter.message).clone() };
                let effects = after.step(now, input);
                effects == Effects::none() && after == mine.machine
            }
            Message::Query { .. }
            | Message::Open { .. }
            | Message::HandOver { .. }
            | Message::Ask(_)
            | Message::Told { .. } => false,
        }
    }
}
