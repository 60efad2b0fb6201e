//! What becomes of an election if the task that is at it breaks off.

use std::sync::Arc;

use baton_election::ElectionName;

use super::{AFTER_A_FAILURE, Shared};

/// Sees to it that a task that breaks off, by a fault or by the server's end, leaves nobody waiting for it.
pub(super) struct InFlightGuard {
    shared: Option<Arc<Shared>>,
    election: ElectionName,
}

impl InFlightGuard {
    pub(super) fn on(shared: &Arc<Shared>, election: &ElectionName) -> InFlightGuard {
        InFlightGuard { shared: Some(Arc::clone(shared)), election: election.clone() }
    }

    /// It did not break off.
    pub(super) fn done(mut self) {
        self.shared = None;
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        let mut shard = shared.shard(&self.election);
        shared.doubt(&mut shard, &self.election);
        // Whoever is queued hears that nobody knows.
        shard.in_flight.remove(&self.election);
        shared.arm(&mut shard, &self.election, shared.clock.now() + AFTER_A_FAILURE);
    }
}
