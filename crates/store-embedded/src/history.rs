//! The transitions of elections, by election and epoch: written by the swap that brings them.
//!
//! Each entry carries its place in the line of its election, so that the newest [`MAX_HISTORY`] are kept without counting. Older
//! ones lie there a little longer and are swept together: each by itself would cost a page of the commit.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use baton_election::document::Transition;
use baton_election::log::MAX_HISTORY;
use baton_election::{Document, ElectionName};
use baton_store::NotARecord;
use redb::{ReadableTable, StorageError};

use crate::shape::{self, Rows};

/// How many old entries lie there before they are swept.
const SWEPT_AT_ONCE: u64 = 64;

/// A transition, ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    election: ElectionName,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Entry {
    /// The last transition of a document.
    pub(crate) fn of(document: &Document) -> Option<Entry> {
        let transition = document.last_transition.as_ref()?;
        let Ok(json) = serde_json::to_vec(&**transition) else {
            unreachable!("a transition is always expressible as JSON: {transition:?}")
        };
        Some(Entry {
            election: document.election.clone(),
            key: shape::transition_key(&document.election, transition.epoch.0),
            value: shape::value(&json),
        })
    }

    /// One that was made ready before.
    pub(crate) fn written(election: &str, key: Vec<u8>, value: Vec<u8>) -> Option<Entry> {
        Some(Entry { election: ElectionName::new(election).ok()?, key, value })
    }

    pub(crate) fn election(&self) -> &str {
        self.election.as_str()
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    /// How much room it takes in a frame of the journal.
    pub(crate) fn encoded_len(&self) -> usize {
        self.election.as_str().len() + self.key.len() + self.value.len() + 12
    }

    /// Puts it where it belongs, unless it stands there as it is, and takes out the oldest if there are too many.
    pub(crate) fn put(mut self, table: &mut Rows<'_>) -> Result<(), StorageError> {
        let (from, to) = shape::transition_bounds(self.election.as_str().as_bytes());
        let mut surplus = Vec::new();
        let (place, same) = {
            let mut all = table.range(from.as_slice()..to.as_slice())?;
            match all.next_back().transpose()? {
                None => (1, false),
                Some((key, value)) => match key.value().cmp(self.key.as_slice()) {
                    Ordering::Equal => self.beside(value.value()),
                    // One that comes late stands in line with the one before it.
                    Ordering::Greater => match table.get(self.key.as_slice())? {
                        Some(standing) => self.beside(standing.value()),
                        None => (place_of(value.value()), false),
                    },
                    Ordering::Less => {
                        let place = place_of(value.value()) + 1;
                        let mut bound = MAX_HISTORY as u64 + SWEPT_AT_ONCE;
                        for entry in all {
                            let (key, value) = entry?;
                            if place.saturating_sub(place_of(value.value())) < bound {
                                break;
                            }
                            bound = MAX_HISTORY as u64;
                            surplus.push(key.value().to_vec());
                        }
                        (place, false)
                    }
                },
            }
        };
        if same {
            return Ok(());
        }
        shape::number(&mut self.value, place);
        table.insert(self.key.as_slice(), self.value.as_slice())?;
        for oldest in surplus {
            table.remove(oldest.as_slice())?;
        }
        Ok(())
    }

    /// The place of what stands under the same key, and whether it says the same.
    fn beside(&self, standing: &[u8]) -> (u64, bool) {
        (place_of(standing), shape::json(standing) == shape::json(&self.value))
    }
}

fn place_of(value: &[u8]) -> u64 {
    shape::parts(value).map_or(0, |(place, _)| place)
}

/// The newest transitions of an election, the oldest first: those of the table, and later ones that are not in it yet.
pub(crate) fn newest(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    mut later: BTreeMap<Vec<u8>, Vec<u8>>,
    election: &ElectionName,
    limit: usize,
) -> Result<Result<Vec<Transition>, NotARecord>, StorageError> {
    let (from, to) = shape::transition_bounds(election.as_str().as_bytes());
    let limit = limit.min(MAX_HISTORY);
    for entry in table.range(from.as_slice()..to.as_slice())?.rev().take(limit) {
        let (key, value) = entry?;
        later.entry(key.value().to_vec()).or_insert_with(|| value.value().to_vec());
    }
    let skipped = later.len().saturating_sub(limit);
    Ok(later.values().skip(skipped).map(|value| parse(value)).collect())
}

fn parse(value: &[u8]) -> Result<Transition, NotARecord> {
    let (_, json) = shape::parts(value)?;
    serde_json::from_str(json).map_err(|error| NotARecord::Damaged {
        why: format!("a transition is not one: {error}"),
        hint: "put back a snapshot with `baton restore`; nothing was changed".to_string(),
    })
}
