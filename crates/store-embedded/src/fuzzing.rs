//! Entry points for `fuzz/`: what a damaged file may hold.

use std::sync::Arc;

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use crate::journal::{Damaged, Journal};
use crate::layout::{JOURNAL_AT, JOURNAL_BYTES, Salt, front};
use crate::pending::Pending;

/// Writes frames, damages some bytes, reads the journal. Every frame that comes back is the frame that was written at its place.
///
/// `data` is a count of frames, a length for each, then triples of place (two bytes) and value that overwrite bytes.
pub fn journal(data: &[u8]) {
    let Some((&count, data)) = data.split_first() else { return };
    let count = usize::from(count % 8).min(data.len());
    let (lengths, damage) = data.split_at(count);
    let salt = Salt([7; 16]);
    let file = Arc::new(InMemoryBackend::new());
    let front = front(salt);
    assert!(file.set_len(front.len() as u64).and_then(|()| file.write(0, &front)).is_ok(), "memory has room");
    let mut journal = Journal::new(file.clone(), salt, 3);
    let mut written = Vec::new();
    for (number, length) in lengths.iter().enumerate() {
        let payload = vec![*length; usize::from(*length) * (97 + number)];
        assert!(journal.append(&payload).is_ok(), "eight frames of 26 KiB fit");
        written.push(payload);
    }
    for change in damage.chunks_exact(3) {
        // The first 64 KiB hold the frames; a stride reaches every page of the rest as well.
        let at = usize::from(u16::from_be_bytes([change[0], change[1]])) * 13 % JOURNAL_BYTES;
        assert!(file.write(JOURNAL_AT + at as u64, &change[2..]).is_ok(), "within the journal");
    }
    let (Ok(Ok(frames)) | Ok(Err(Damaged { before: frames }))) = Journal::new(file, salt, 3).read() else {
        panic!("memory is always readable")
    };
    assert!(frames.len() <= written.len() && frames == written[..frames.len()], "a frame that nobody wrote");
}

/// Reads the content of a frame as changes of records.
pub fn frame(data: &[u8]) {
    if let Ok(changes) = Pending::decode(data) {
        let again = Pending::decode(&changes.encode());
        assert!(
            again.is_ok_and(|again| again.encode() == changes.encode()),
            "what was read is written alike"
        );
    }
}
