//! What the guarded resource does: lets its fence decide on every write, whenever it arrives.

use baton_election::{Epoch, Span};

use crate::config::{BrokenRule, Reads};
use crate::model::Election;
use crate::state::{Event, World, Write};

impl World {
    /// A guarded write sets out.
    pub(crate) fn send_write(&mut self, token: Epoch) {
        self.spent.writes += 1;
        self.wire.push(Write { token, sight: None });
        self.sort_wire();
    }

    fn sort_wire(&mut self) {
        self.wire.sort_by_key(|write| {
            let sight = write.sight.as_ref().map(|(document, age)| (document.rank(), *age));
            (write.token, sight)
        });
    }
}

impl Election {
    /// The guard looks at the election for a write that has arrived. Beside an observed store it knows of no age.
    pub(crate) fn look(&self, world: &mut World, write: usize) {
        let age = self.stamped_age(world).unwrap_or(Span::ZERO);
        world.wire[write].sight = Some((world.store.document.clone(), age));
        world.sort_wire();
    }

    /// The fence decides on a write, by what the guard saw.
    pub(crate) fn deliver(&self, world: &mut World, write: usize) -> Option<()> {
        if self.config.guards == Reads::Instant {
            self.look(world, write);
        }
        let Write { token, sight } = world.wire.remove(write);
        let (document, age) = sight?;
        let admitted = self.shipped.admit(world.resource.fence.as_ref(), token, &document, age);
        let taken = admitted.is_ok() || self.config.fault == Some(BrokenRule::NoFence);
        let current = document.leader.as_ref().is_some_and(|leader| leader.epoch == token);
        world.event = match (taken, current) {
            (true, true) | (false, true) => None,
            (true, false) => Some(Event::EndedWriteTaken),
            (false, false) if document.leader.is_none() && document.outgoing.is_some() => {
                Some(Event::EndedWriteRefused)
            }
            (false, false) => Some(Event::StaleWriteRefused),
        };
        if let Ok(fence) = admitted {
            world.resource.fence = Some(fence);
        }
        if taken {
            world.resource.written.push(token);
        }
        Some(())
    }
}
