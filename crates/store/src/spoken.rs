//! The format that this Baton speaks: there is one. `rehearsal.rs` stands in its place in tests of versions.

use baton_election::document::FORMAT;

use crate::key::Key;
use crate::record::Record;

/// The newest format of records and of HTTP that this Baton knows.
pub fn format() -> u32 {
    FORMAT
}

/// The format in which a record is written.
pub(crate) fn written(_: &Record) -> u32 {
    FORMAT
}

/// The newest format that is read under a key.
pub(crate) fn read(_: &Key) -> u32 {
    FORMAT
}
