//! The mark of an election: what is remembered of it when somebody deletes its document.
//!
//! It is written in the same commit as the document whenever the epoch or the length of the lease changes, on the
//! condition that it is still the mark that was read. Its epoch only rises. The first reader that finds the document
//! gone notes the server's time in it, as well as it can: from then on a lease that may have been running runs out.

use std::collections::HashMap;

use baton_election::{Document, Epoch, Span};
use baton_store::{StoreError, Trace};
use gcloud_sdk::google::firestore::v1 as api;
use gcloud_sdk::prost_types::Timestamp;

use crate::shape::{self, integer, millis, request_time, text};
use crate::time;

const TOKEN: &str = "fencingToken";
const LEASE: &str = "leaseMs";
const GONE: &str = "goneSince";
const ELECTION: &str = "election";

const HINT: &str = "it remembers the highest token of an election: put back what was there; only if no leader can still \
                    be at work, delete it";

/// What a mark says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    /// No epoch above this was given.
    pub(crate) epoch: Epoch,
    /// The length of the lease that was given last; zero if it was given back.
    pub(crate) lease: Span,
    /// Since when the document is known to be gone.
    pub(crate) gone: Option<Timestamp>,
    /// The mark's own version.
    pub(crate) update_time: Timestamp,
}

impl Mark {
    /// Reads a mark.
    pub(crate) fn parse(place: &str, document: &api::Document) -> Result<Mark, StoreError> {
        let whole = || {
            let gone = match shape::value(document, GONE) {
                None => None,
                Some(api::value::ValueType::TimestampValue(time)) => Some(*time),
                Some(_) => return None,
            };
            Some(Mark {
                epoch: Epoch(shape::count(document, TOKEN)?),
                lease: Span::millis(shape::count(document, LEASE)?),
                gone,
                update_time: document.update_time?,
            })
        };
        whole().ok_or_else(|| StoreError::Corrupt {
            place: place.to_string(),
            why: "it is not a mark of Baton's".to_string(),
            hint: HINT.to_string(),
        })
    }

    /// What is known of an election whose document was not there at `read_time`.
    pub(crate) fn trace(mark: Option<&Mark>, read_time: &Timestamp) -> Trace {
        match mark {
            None => Trace { epoch: Epoch(0), lease: Span::ZERO },
            Some(mark) => {
                let gone = mark.gone.as_ref().map_or(Span::ZERO, |gone| time::elapsed(read_time, gone));
                Trace { epoch: mark.epoch, lease: mark.lease.minus(gone) }
            }
        }
    }

    /// Whether a document that is about to be written must change the mark.
    pub(crate) fn must_change(mark: Option<&Mark>, next: &Document) -> bool {
        mark.is_none_or(|mark| mark.epoch < next.epoch || mark.lease != lease(next) || mark.gone.is_some())
    }

    /// What the mark says once that document is written.
    pub(crate) fn after(mark: Option<&Mark>, next: &Document, update_time: Timestamp) -> Mark {
        let epoch = mark.map_or(next.epoch, |mark| mark.epoch.max(next.epoch));
        Mark { epoch, lease: lease(next), gone: None, update_time }
    }

    /// Whether a document may be made where there is none.
    pub(crate) fn lets_begin(mark: Option<&Mark>, next: &Document) -> bool {
        mark.is_none_or(|mark| match &next.leader {
            Some(leader) => leader.epoch > mark.epoch,
            None => next.epoch >= mark.epoch,
        })
    }
}

/// The write that changes a mark from what was read to what the next document asks for.
pub(crate) fn write(name: String, known: Option<&Mark>, next: &Document) -> api::Write {
    let mark = Mark::after(known, next, Timestamp::default());
    let fields = HashMap::from([
        (TOKEN.to_string(), integer(mark.epoch.0)),
        (LEASE.to_string(), integer(millis(mark.lease))),
        (ELECTION.to_string(), text(next.election.as_str())),
    ]);
    // What is in the mask but not in the fields is taken out.
    let mask = [TOKEN, LEASE, ELECTION, GONE].map(str::to_string).to_vec();
    let condition = match known {
        None => shape::absent(),
        Some(mark) => shape::unchanged(mark.update_time),
    };
    shape::update(name, fields, mask, Vec::new(), condition)
}

/// The write that notes that the document is gone.
pub(crate) fn note_gone(name: String, known: &Mark) -> api::Write {
    let condition = shape::unchanged(known.update_time);
    shape::update(name, HashMap::new(), Vec::new(), vec![request_time(GONE)], condition)
}

/// The longest that a lease in a document may last after its last beat.
fn lease(document: &Document) -> Span {
    Span::millis(millis(document.lease_remaining(Span::ZERO)))
}
