//! Elections whose records others deleted, or may have deleted: their epochs go on rising, and their leases are waited out.
//!
//! Holds only what was lost or is in doubt, not every election.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_api::{TimedTrace, epoch_went_back};
use baton_election::time::{Moment, Span};
use baton_election::{Document, ElectionName, Epoch};
use baton_store::{StoreError, Trace};

/// What is known of an election beside its record.
#[derive(Clone, Copy, Default)]
struct LastKnown {
    /// The highest epoch that this engine has seen.
    epoch: Epoch,
    /// Until when a lease that it has seen may last.
    until: Moment,
    /// What the store told.
    trace: Option<TimedTrace>,
}

/// All of them.
#[derive(Default)]
pub(super) struct VanishedElections {
    last: Mutex<HashMap<ElectionName, LastKnown>>,
}

impl VanishedElections {
    fn last(&self) -> MutexGuard<'_, HashMap<ElectionName, LastKnown>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An election is no longer known as it stands. This was known of it.
    pub(super) fn doubted(&self, document: &Document, until: Moment) {
        let mut all = self.last();
        let last = all.entry(document.election.clone()).or_default();
        (last.epoch, last.until) = (last.epoch.max(document.epoch), last.until.max(until));
    }

    /// It was not found. Gives what a new document must respect: the store's own word, timed from when it was first told, and what
    /// was known before.
    pub(super) fn gone(&self, election: &ElectionName, trace: Option<Trace>, now: Moment) -> Option<Trace> {
        let mut all = self.last();
        let known = all.get(election).copied();
        let told = TimedTrace::after(known.and_then(|last| last.trace), trace, |lease| now + lease);
        if known.is_none() && told.is_none() {
            return None;
        }
        let last = LastKnown { trace: told, ..known.unwrap_or_default() };
        let TimedTrace { epoch, lease_until } = told.unwrap_or_default();
        let trace = Trace { epoch: epoch.max(last.epoch), lease: lease_until.max(last.until).since(now) };
        // What has run out and was told by the store is told again.
        if trace.lease > Span::ZERO || last.epoch > Epoch(0) {
            all.insert(election.clone(), last);
        } else {
            all.remove(election);
        }
        Some(trace)
    }

    /// It was found. Refuses one whose epoch went back, unless the store itself says that epochs may have been lost and go on above them.
    pub(super) fn found(
        &self,
        document: &Document,
        trace: Option<Trace>,
        location: &str,
    ) -> Result<(), StoreError> {
        let mut all = self.last();
        let seen = all.get(&document.election).map_or(Epoch(0), |last| last.epoch);
        let reserved = trace.map_or(Epoch(0), |trace| trace.epoch);
        if seen > document.epoch && seen > reserved {
            return Err(epoch_went_back(location, seen, document));
        }
        if reserved > document.epoch {
            all.insert(document.election.clone(), LastKnown { epoch: reserved, ..LastKnown::default() });
        } else {
            all.remove(&document.election);
        }
        Ok(())
    }

    /// An epoch that the next one of an election must be above, beside its document's own.
    pub(super) fn floor(&self, election: &ElectionName) -> Epoch {
        self.last().get(election).map_or(Epoch(0), |last| last.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_election::StoreId;

    fn document(epoch: u64) -> Document {
        Document::new(ElectionName::new("e").unwrap(), StoreId([1; 8]), Epoch(epoch), &[])
    }

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(0) + Span::secs(secs)
    }

    #[test]
    fn what_was_known_is_waited_out_and_epochs_go_on_above_it() {
        let vanished = VanishedElections::default();
        assert_eq!(vanished.gone(&document(0).election, None, at(1)), None);
        vanished.doubted(&document(7), at(30));
        let trace = vanished.gone(&document(0).election, None, at(10)).unwrap();
        assert_eq!((trace.epoch, trace.lease), (Epoch(7), Span::secs(20)));
        let trace = vanished.gone(&document(0).election, None, at(40)).unwrap();
        assert_eq!((trace.epoch, trace.lease), (Epoch(7), Span::ZERO));
        assert!(vanished.found(&document(6), None, "s").is_err());
        vanished.found(&document(8), None, "s").unwrap();
        vanished.found(&document(6), None, "s").unwrap();
    }

    #[test]
    fn epochs_that_the_store_lost_are_gone_past() {
        let vanished = VanishedElections::default();
        let mark = Some(Trace { epoch: Epoch(16), lease: Span::ZERO });
        vanished.doubted(&document(7), at(30));
        vanished.found(&document(6), mark, "s").unwrap();
        assert_eq!(vanished.floor(&document(6).election), Epoch(16));
        vanished.found(&document(17), mark, "s").unwrap();
        assert_eq!(vanished.floor(&document(6).election), Epoch(0));
    }

    #[test]
    fn what_the_store_tells_is_timed_from_the_first_time() {
        let vanished = VanishedElections::default();
        let told = |epoch| Some(Trace { epoch: Epoch(epoch), lease: Span::secs(10) });
        let lease = |epoch, now| vanished.gone(&document(0).election, told(epoch), at(now)).unwrap().lease;
        assert_eq!(lease(5, 0), Span::secs(10));
        assert_eq!(lease(5, 4), Span::secs(6));
        assert_eq!(lease(6, 5), Span::secs(10), "another record came and went");
    }
}
