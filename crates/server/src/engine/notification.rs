//! That all who follow an election know of its last change of leader: the last phase of it.
//!
//! It is put into the document in memory, and becomes durable with the next change of it, at the latest with the next change of leader, which moves
//! it into the history. Does not guarantee that a crash before that leaves it known: it decides nothing, and no write is spent on it.

use std::sync::Arc;

use baton_election::time::Span;
use baton_election::{ElectionName, Epoch};

use super::{Engine, Shard, Shared};

/// A phase that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotificationPhase {
    epoch: Epoch,
    took: Span,
}

impl Engine {
    /// All who follow know of the change of leader that began this epoch, so long after it.
    pub(crate) fn notified(&self, election: &ElectionName, epoch: Epoch, took: Span) {
        let notified = NotificationPhase { epoch, took: took.whole_millis() };
        let mut shard = self.shared.shard(election);
        match shard.in_flight.get_mut(election) {
            // What is being written would take its place.
            Some(in_flight) => in_flight.notified = Some(notified),
            None => self.shared.put_notified(&mut shard, election, notified),
        }
    }
}

impl Shared {
    /// Puts it where it belongs, unless another has become the leader since.
    pub(super) fn put_notified(
        &self,
        shard: &mut Shard,
        election: &ElectionName,
        notified: NotificationPhase,
    ) {
        let Some(known) = shard.known.get_mut(election.as_str()) else { return };
        let mut document = known.document(election);
        let Some(last) = document.last_transition.as_mut().filter(|last| last.epoch == notified.epoch) else {
            return;
        };
        Arc::make_mut(last).phases.notification = Some(notified.took);
        let stamp = known.stamp;
        known.put(document, &self.interner, stamp);
    }
}
