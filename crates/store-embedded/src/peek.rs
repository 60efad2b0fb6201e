//! A database that is only looked at: what would be written stays in memory.
//!
//! A database that was not closed must be repaired before it can be read, and readers never write. So they read it through this
//! backend, which keeps every changed page to itself. It holds a shared lock: many may look at once, but not beside a writer.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

const PAGE: u64 = 4096;

/// A file, and what was written over it.
#[derive(Debug)]
pub(crate) struct Overlay {
    file: FileBackend,
    written: Mutex<OverlayPages>,
}

#[derive(Debug)]
struct OverlayPages {
    len: u64,
    /// How much of the file still shows through.
    shows: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(crate) fn new(file: FileBackend) -> io::Result<Overlay> {
        let len = file.len()?;
        Ok(Overlay { file, written: Mutex::new(OverlayPages { len, shows: len, pages: BTreeMap::new() }) })
    }

    /// A page as it is, filled up with zeros.
    fn page(&self, written: &OverlayPages, number: u64) -> io::Result<Vec<u8>> {
        if let Some(page) = written.pages.get(&number) {
            return Ok(page.clone());
        }
        let mut page = vec![0; index(PAGE)];
        let start = number * PAGE;
        let there = written.shows.saturating_sub(start).min(PAGE);
        if there > 0 {
            self.file.read(start, &mut page[..index(there)])?;
        }
        Ok(page)
    }
}

/// A count of bytes within memory.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The pages that a range touches: the number of each, where in it the range begins, and how much of the range it takes.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (number, within) = (at / PAGE, at % PAGE);
        let take = (PAGE - within).min(end - at);
        at += take;
        Some((number, index(within), index(take)))
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.lock().unwrap_or_else(PoisonError::into_inner).len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if offset.saturating_add(out.len() as u64) > written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut done = 0;
        for (number, within, take) in pieces(offset, out.len()) {
            let page = self.page(&written, number)?;
            out[done..done + take].copy_from_slice(&page[within..within + take]);
            done += take;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if len < written.len && !len.is_multiple_of(PAGE) {
            let mut page = self.page(&written, len / PAGE)?;
            page[index(len % PAGE)..].fill(0);
            written.pages.insert(len / PAGE, page);
        }
        written.pages.retain(|number, _| number * PAGE < len);
        written.shows = written.shows.min(len);
        written.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        for (number, within, take) in pieces(offset, data.len()) {
            let mut page = self.page(&written, number)?;
            page[within..within + take].copy_from_slice(&data[done..done + take]);
            written.pages.insert(number, page);
            done += take;
        }
        written.len = written.len.max(offset + data.len() as u64);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let before: Vec<u8> = (0..10_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        std::fs::write(&path, &before).unwrap();
        let overlay = Overlay::new(FileBackend::new(std::fs::File::open(&path).unwrap()).unwrap()).unwrap();
        let mut model = before.clone();
        let read = |overlay: &Overlay, offset: usize, len: usize| {
            let mut out = vec![1; len];
            overlay.read(offset as u64, &mut out).map(|()| out).ok()
        };
        for (offset, len) in [(0, 5), (4090, 12), (8191, 1_000), (9_990, 10), (9_999, 9_000)] {
            overlay.write(offset as u64, &vec![0xAA; len]).unwrap();
            model.resize(model.len().max(offset + len), 0);
            model[offset..offset + len].fill(0xAA);
        }
        assert_eq!(read(&overlay, 0, model.len()), Some(model.clone()));
        for len in [18_000, 5_000, 20_000, 4_096, 9_000] {
            overlay.set_len(len).unwrap();
            model.resize(usize::try_from(len).unwrap(), 0);
            assert_eq!(overlay.len().unwrap(), len);
            assert_eq!(read(&overlay, 0, model.len()), Some(model.clone()), "{len}");
        }
        assert_eq!(read(&overlay, 8_999, 2), None, "beyond the end");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
