//! Lets a test play a newer Baton: for the tests of versions, and in no program that is shipped.
//!
//! There is one format so far. What an older Baton does with a newer record can only be tried if somebody writes one. A process
//! with `BATON_REHEARSE_FORMAT=N` writes every record in format N, reads up to it, and tells it over HTTP. Within one process,
//! the records of single elections can be written in the next format.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use baton_election::ElectionName;
use baton_election::document::FORMAT;

use crate::key::Key;
use crate::record::Record;

/// What this process does with the records of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// It reads them as a Baton that knows the next format.
    Newer,
    /// It reads them as the Baton that it is.
    Older,
}

static ELECTIONS: Mutex<BTreeMap<ElectionName, Reader>> = Mutex::new(BTreeMap::new());

/// From here on this process writes the records of an election in the next format.
pub fn write_newer(election: &ElectionName, reader: Reader) {
    ELECTIONS.lock().unwrap_or_else(PoisonError::into_inner).insert(election.clone(), reader);
}

fn reader_of(election: &ElectionName) -> Option<Reader> {
    ELECTIONS.lock().unwrap_or_else(PoisonError::into_inner).get(election).copied()
}

/// The newest format that this process knows.
pub fn format() -> u32 {
    static REHEARSED: OnceLock<u32> = OnceLock::new();
    *REHEARSED.get_or_init(|| {
        let told = std::env::var("BATON_REHEARSE_FORMAT").ok();
        told.and_then(|told| told.parse().ok()).unwrap_or(FORMAT)
    })
}

/// The format in which a record is written.
pub(crate) fn written(record: &Record) -> u32 {
    match record {
        Record::Election(document) if reader_of(&document.election).is_some() => FORMAT + 1,
        _ => format(),
    }
}

/// The newest format that is read under a key.
pub(crate) fn read(key: &Key) -> u32 {
    match key {
        Key::Election(election) if reader_of(election) == Some(Reader::Newer) => FORMAT + 1,
        _ => format(),
    }
}
