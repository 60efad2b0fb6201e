//! How messages go round: to the next one that answers.

use baton_election::Moment;

use super::{Message, Out, Ring};
use crate::{Envelope, NodeId};

/// How many passed-on messages a member waits for at once; the oldest is given up for a newer one, and whoever misses it begins
/// again. Two for each origin would be a whole group's.
pub(super) const MAX_HOPS: usize = 16;

/// A message that was passed on and whose receiver has not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hop {
    pub(super) message: Message,
    /// How many successors it was sent to.
    tried: usize,
    /// When the receiver counts as dead.
    pub(super) due: Moment,
}

impl Ring {
    /// Sends a message to the successor.
    pub(super) fn pass_on(&mut self, now: Moment, message: Message, out: &mut Out) {
        // A second copy of a lap takes the place of the first.
        self.hops.retain(|hop| hop.message.lap() != message.lap());
        if self.hops.len() >= MAX_HOPS {
            self.hops.remove(0);
        }
        self.send_to_next(now, Hop { message, tried: 0, due: now }, out);
    }

    /// Passes on to the one after what was not answered in time.
    pub(super) fn skip_the_silent(&mut self, now: Moment, out: &mut Out) {
        while let Some(index) = self.hops.iter().position(|hop| hop.due <= now) {
            let hop = self.hops.remove(index);
            self.send_to_next(now, hop, out);
        }
    }

    fn send_to_next(&mut self, now: Moment, mut hop: Hop, out: &mut Out) {
        hop.tried += 1;
        hop.due = now + self.member.answer_within();
        match (self.successor(hop.tried), &hop.message) {
            (Some(to), message) => {
                out.send.push(Envelope { to, message: message.clone() });
                self.hops.push(hop);
            }
            // Nobody answers: whoever asked is the whole ring.
            (None, Message::Election { ids, .. }) if ids.as_slice() == [self.member.id] => {
                let ids = [self.member.id];
                self.conclude(now, &ids, out);
            }
            // The rest of the ring is gone; whoever misses a leader begins again.
            (
                None,
                Message::Election { .. }
                | Message::Coordinator { .. }
                | Message::Ack { .. }
                | Message::Heartbeat { .. }
                | Message::Refused { .. },
            ) => {}
        }
    }

    /// The member that stands so many places further on the ring; none if that is this one again.
    fn successor(&self, places: usize) -> Option<NodeId> {
        let own = self.member.group.index(self.member.id)?;
        if places >= self.member.group.size() {
            return None;
        }
        self.member.group.members().get((own + places) % self.member.group.size()).map(|member| member.id)
    }
}
