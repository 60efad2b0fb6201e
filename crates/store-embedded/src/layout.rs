//! How the file is laid out: a page that says what it is, the journal, and then the database.

use std::io;
use std::ops::Bound;
use std::sync::Arc;

use redb::{BackendError, StorageBackend};

/// What a disk writes at once, at the least: nothing that was answered lies in a page that is written again.
pub(crate) const PAGE: usize = 4_096;
/// How much the journal holds.
pub(crate) const JOURNAL_BYTES: usize = 1 << 20;
/// Where the journal begins.
pub(crate) const JOURNAL_AT: u64 = PAGE as u64;
/// Where the database begins.
pub(crate) const DATABASE_AT: u64 = (PAGE + JOURNAL_BYTES) as u64;

/// The file begins with it. The last byte is the form of all that follows.
const MAGIC: [u8; 16] = *b"baton store\r\n\x1a\0\x01";
/// How a bare database of redb begins.
const REDB_MAGIC: &[u8] = b"redb";

/// What is in no other file: frames of a journal that were not written for this file are none. Nobody who only sends
/// commands knows it, so that nobody can have a frame of their own making lie in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(pub(crate) [u8; 16]);

/// What the first page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// A store.
    Store(Salt),
    /// A store of a form that this Baton does not know.
    Newer(u8),
    /// A database without a page before it.
    Bare,
    /// Something else.
    Foreign,
}

/// The first page and an empty journal: what comes before the database of a new file.
pub(crate) fn front(salt: Salt) -> Vec<u8> {
    let mut bytes = vec![0; PAGE + JOURNAL_BYTES];
    bytes[..16].copy_from_slice(&MAGIC);
    bytes[16..32].copy_from_slice(&salt.0);
    // Twice, so that a change of one is noticed: a wrong salt would make the journal look empty.
    bytes[32..48].copy_from_slice(&salt.0);
    bytes
}

/// Reads the first page.
pub(crate) fn examine(file: &dyn StorageBackend) -> io::Result<Front> {
    let mut page = [0; 48];
    if file.len()? <= DATABASE_AT {
        let mut magic = [0; 4];
        let is_redb = file.len()? >= 4 && file.read(0, &mut magic).is_ok() && magic == REDB_MAGIC;
        return Ok(if is_redb { Front::Bare } else { Front::Foreign });
    }
    file.read(0, &mut page)?;
    let (form, salt, again) = (page[15], &page[16..32], &page[32..48]);
    if page.starts_with(REDB_MAGIC) {
        return Ok(Front::Bare);
    }
    if page[..15] != MAGIC[..15] || salt != again {
        return Ok(Front::Foreign);
    }
    if form != MAGIC[15] {
        return Ok(Front::Newer(form));
    }
    Ok(salt.try_into().map_or(Front::Foreign, |salt| Front::Store(Salt(salt))))
}

/// The part of the file that is the database's.
#[derive(Debug)]
pub(crate) struct DatabaseArea(pub(crate) Arc<dyn StorageBackend>);

impl StorageBackend for DatabaseArea {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len()?.saturating_sub(DATABASE_AT))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset + DATABASE_AT, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len + DATABASE_AT)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset + DATABASE_AT, data)
    }

    /// Keeps the locks: they end with the file's last handle. A database that failed is closed and opened anew, and nobody else may
    /// come in between, since this process goes on answering from its memory.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }

    // Where locks lie does not matter, only that all openers agree.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
