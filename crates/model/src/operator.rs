//! What the operator does: deposes whoever leads, with a signed order that takes its time.

use baton_election::Span;

use crate::model::Election;
use crate::state::{Sender, Swap, World};

impl Election {
    /// The operator signs, decides and sends. On an observed store it has only just looked, so that it knows of no age.
    pub(crate) fn order(&self, world: &mut World) -> Option<()> {
        let age = self.stamped_age(world).unwrap_or(Span::ZERO);
        let next = self.shipped.depose(&world.store.document, age, &self.config)?;
        world.spent.deposes += 1;
        world.order = Some(Swap { expect: world.store.version, next, by: Sender::Operator });
        Some(())
    }
}
