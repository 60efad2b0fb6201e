//! What others than those who decide want to know of an engine: its time, and what happened in it.

use std::collections::BTreeSet;

use baton_election::ElectionName;
use baton_election::time::{Moment, Span};
use tokio::sync::broadcast;

use super::Engine;

impl Engine {
    /// The time, on the clock that notices stalls.
    pub fn moment(&self) -> Moment {
        self.shared.clock.now()
    }

    /// A lower bound on the time since something that was stamped by [`Engine::moment`]; what happened before a stall happened at its end.
    pub fn age(&self, stamp: Moment) -> Span {
        self.shared.clock.age(stamp, self.moment())
    }

    /// Tells of changes of all elections: their numbers, and which election it was. The first [`Engine::follow`] begins it.
    pub fn changes(&self) -> broadcast::Receiver<(u64, ElectionName)> {
        self.shared.changes.subscribe_to_all()
    }

    /// The elections that changed after the event of this number; none if that is not known any more.
    pub fn changed_since(&self, number: u64) -> Option<BTreeSet<ElectionName>> {
        self.shared.changes.since(number)
    }

    /// The number of the last event. Whatever comes after it is told by [`Engine::changes`].
    pub fn follow(&self) -> u64 {
        self.shared.changes.follow()
    }

    /// The number of the event by which an election came to this beat or went past it, as far as that is kept; zero if nothing is.
    pub fn event_of(&self, election: &ElectionName, beat: u64) -> u64 {
        self.shared.changes.first_at(election, beat)
    }
}
