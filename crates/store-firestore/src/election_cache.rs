//! What this client last saw of elections: what a swap is conditioned on beside the document itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_election::ElectionName;
use baton_election::time::Moment;
use baton_store::{Expect, Version};

use crate::mark::Mark;
use crate::pace::Beat;

/// The most elections that are kept in mind; the rest are read again when they are swapped.
const MAX_KNOWN: usize = 4_096;

/// What was last seen of an election.
#[derive(Clone, Debug)]
pub(crate) struct CachedElection {
    /// Its document; none if there was none.
    pub(crate) document: Option<CachedDocument>,
    /// Its mark.
    pub(crate) mark: Option<Mark>,
    /// When this client last wrote the document.
    pub(crate) written: Option<Moment>,
}

/// What of a document matters here.
#[derive(Clone, Debug)]
pub(crate) struct CachedDocument {
    pub(crate) version: Version,
    pub(crate) beat: Beat,
    /// When its clock was last restarted, on this machine's clock, as far as that is known.
    pub(crate) beaten: Moment,
}

/// The memory.
#[derive(Debug, Default)]
pub(crate) struct ElectionCache {
    elections: Mutex<HashMap<ElectionName, CachedElection>>,
}

impl ElectionCache {
    fn elections(&self) -> MutexGuard<'_, HashMap<ElectionName, CachedElection>> {
        self.elections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of an election, if it is what a swap expects.
    pub(crate) fn expected(&self, election: &ElectionName, expect: &Expect) -> Option<CachedElection> {
        let known = self.elections().get(election).cloned()?;
        let version = known.document.as_ref().map(|seen| &seen.version);
        (Expect::of(version) == *expect).then_some(known)
    }

    /// Keeps in mind what was read.
    pub(crate) fn read(&self, election: &ElectionName, document: Option<CachedDocument>, mark: Option<Mark>) {
        let mut elections = self.elections();
        let written = elections.get(election).and_then(|known| known.written);
        ElectionCache::keep(&mut elections, election, CachedElection { document, mark, written });
    }

    /// Keeps in mind what was written.
    pub(crate) fn wrote(&self, election: &ElectionName, known: CachedElection) {
        ElectionCache::keep(&mut self.elections(), election, known);
    }

    fn keep(
        elections: &mut HashMap<ElectionName, CachedElection>,
        election: &ElectionName,
        known: CachedElection,
    ) {
        if elections.len() >= MAX_KNOWN && !elections.contains_key(election) {
            elections.clear();
        }
        elections.insert(election.clone(), known);
    }
}
