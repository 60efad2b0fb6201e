//! What was answered and is not in the database yet: frames, one after the other, each synced before it is answered for.
//!
//! A sync of some pages that are there already costs less than a commit of a tree, and many changes of one record are one
//! change of the tree. When the journal is full, what stands in it goes into the database by one transaction, which also
//! says that the frames of this *generation* count no more; the next generation begins at the front again.
//!
//! A frame begins at a page of its own, so that no page is written twice in a generation: a power cut can only tear the
//! frame that nobody was answered for. A frame that is damaged although a later one is whole was answered for: that is
//! refused, not skipped.

use std::io;
use std::sync::Arc;

use redb::StorageBackend;
use sha2::{Digest, Sha256};

use crate::layout::{JOURNAL_AT, JOURNAL_BYTES, PAGE, Salt};

const MAGIC: [u8; 4] = *b"bjf1";
/// Magic, length, generation, index, checksum.
const HEADER: usize = 4 + 4 + 8 + 8 + 32;

/// The end of a journal, where the next frame goes.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Arc<dyn StorageBackend>,
    salt: Salt,
    generation: u64,
    index: u64,
    at: usize,
    buffer: Vec<u8>,
}

/// Something that was answered for cannot be read.
#[derive(Debug)]
pub(crate) struct Damaged {
    /// What the frames before the damage carry.
    pub(crate) before: Vec<Vec<u8>>,
}

impl Journal {
    /// An empty journal of that generation.
    pub(crate) fn new(file: Arc<dyn StorageBackend>, salt: Salt, generation: u64) -> Journal {
        Journal { file, salt, generation, index: 0, at: 0, buffer: Vec::new() }
    }

    /// What the frames of its generation carry, in order.
    pub(crate) fn read(&self) -> io::Result<Result<Vec<Vec<u8>>, Damaged>> {
        let mut area = vec![0; JOURNAL_BYTES];
        self.file.read(JOURNAL_AT, &mut area)?;
        let (mut at, mut frames) = (0, Vec::new());
        while let Some(payload) = self.frame(&area, at, self.generation, frames.len() as u64) {
            frames.push(payload.to_vec());
            at += padded(payload.len());
        }
        let next = frames.len() as u64;
        // A later frame means that the one here was answered for; a later generation, that the database went back.
        let damaged = (at..JOURNAL_BYTES).step_by(PAGE).any(|page| {
            number_at(&area, page).is_some_and(|(generation, index)| {
                (generation, index) > (self.generation, next)
                    && self.frame(&area, page, generation, index).is_some()
            })
        });
        Ok(if damaged { Err(Damaged { before: frames }) } else { Ok(frames) })
    }

    /// The file that it is in.
    pub(crate) fn file(&self) -> Arc<dyn StorageBackend> {
        Arc::clone(&self.file)
    }

    /// The whole frame of that number at that place.
    fn frame<'a>(&self, area: &'a [u8], at: usize, generation: u64, index: u64) -> Option<&'a [u8]> {
        let header = area.get(at..at.checked_add(HEADER)?)?;
        let length = usize::try_from(u32::from_be_bytes(header[4..8].try_into().ok()?)).ok()?;
        let payload = area.get(at + HEADER..(at + HEADER).checked_add(length)?)?;
        let expected = self.header(generation, index, payload)?;
        (header == expected).then_some(payload)
    }

    fn header(&self, generation: u64, index: u64, payload: &[u8]) -> Option<[u8; HEADER]> {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&u32::try_from(payload.len()).ok()?.to_be_bytes());
        header[8..16].copy_from_slice(&generation.to_be_bytes());
        header[16..24].copy_from_slice(&index.to_be_bytes());
        let mut sum = Sha256::new();
        sum.update(self.salt.0);
        sum.update(&header[..24]);
        sum.update(payload);
        header[24..].copy_from_slice(&sum.finalize());
        Some(header)
    }

    /// Whether a frame with so much in it still fits.
    pub(crate) fn has_room_for(&self, payload: usize) -> bool {
        self.at + padded(payload) <= JOURNAL_BYTES
    }

    /// Whether a frame with so much in it fits into an empty journal.
    pub(crate) fn could_hold(payload: usize) -> bool {
        padded(payload) <= JOURNAL_BYTES
    }

    /// Whether so much of it is used that it is worth while to begin anew when nobody waits.
    pub(crate) fn is_rather_full(&self) -> bool {
        self.at > JOURNAL_BYTES / 4 * 3
    }

    /// Whether anything stands in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Adds a frame and returns once it is on the disk. After a failure it may be there or not, and nothing more may be added.
    pub(crate) fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        let header = self.header(self.generation, self.index, payload);
        let Some(header) = header.filter(|_| self.has_room_for(payload.len())) else {
            return Err(io::Error::other("the journal has no room"));
        };
        self.buffer.clear();
        self.buffer.extend(header);
        self.buffer.extend(payload);
        self.buffer.resize(padded(payload.len()), 0);
        self.file.write(JOURNAL_AT + self.at as u64, &self.buffer)?;
        self.file.sync_data()?;
        self.at += self.buffer.len();
        self.index += 1;
        Ok(())
    }

    /// The generation of its frames.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Begins the next generation, which the database knows of already.
    pub(crate) fn turn(&mut self) {
        (self.generation, self.index, self.at) = (self.generation + 1, 0, 0);
    }
}

/// How much room a frame takes.
fn padded(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(PAGE)
}

/// Generation and index of what may be a frame.
fn number_at(area: &[u8], at: usize) -> Option<(u64, u64)> {
    let bytes = area.get(at..at + HEADER)?;
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    bytes.starts_with(&MAGIC).then(|| (number(8), number(16)))
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::layout::front;

    fn journal(generation: u64) -> Journal {
        let (file, salt) = (InMemoryBackend::new(), Salt([7; 16]));
        let front = front(salt);
        file.set_len(front.len() as u64).unwrap();
        file.write(0, &front).unwrap();
        Journal::new(Arc::new(file), salt, generation)
    }

    fn again(journal: &Journal, generation: u64) -> Journal {
        Journal::new(Arc::clone(&journal.file), journal.salt, generation)
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut journal = journal(3);
        let payloads: Vec<Vec<u8>> = [0, 1, 4_040, 4_041, 70_000].iter().map(|&len| vec![9; len]).collect();
        for payload in &payloads {
            journal.append(payload).unwrap();
        }
        assert_eq!(again(&journal, 3).read().unwrap().unwrap(), payloads);
        assert!(again(&journal, 4).read().unwrap().unwrap().is_empty(), "an older generation's");
        assert!(again(&journal, 2).read().unwrap().is_err(), "the database went back");
        let other = Journal::new(Arc::clone(&journal.file), Salt([8; 16]), 3);
        assert!(other.read().unwrap().unwrap().is_empty(), "another file's");
    }

    #[test]
    fn the_next_generation_begins_at_the_front_and_hides_the_last() {
        let mut journal = journal(1);
        for _ in 0..5 {
            journal.append(b"old").unwrap();
        }
        journal.turn();
        assert!(journal.read().unwrap().unwrap().is_empty());
        journal.append(b"new").unwrap();
        assert_eq!(again(&journal, 2).read().unwrap().unwrap(), [b"new".to_vec()]);
    }

    #[test]
    fn a_torn_frame_at_the_end_never_was_and_one_in_the_middle_is_damage() {
        let mut journal = journal(1);
        for _ in 0..3 {
            journal.append(&[5; 5_000]).unwrap();
        }
        let flip = |at: usize| {
            let mut byte = [0];
            journal.file.read(JOURNAL_AT + at as u64, &mut byte).unwrap();
            journal.file.write(JOURNAL_AT + at as u64, &[byte[0] ^ 1]).unwrap();
        };
        // The third frame lies at 16384: its header, its text, its second page.
        for at in [16_384, 16_390, 16_500, 16_384 + 5_000] {
            flip(at);
            assert_eq!(again(&journal, 1).read().unwrap().unwrap().len(), 2, "{at}");
            flip(at);
        }
        for at in [0, 10, 4_500, 8_192, 8_200, 9_000] {
            flip(at);
            assert!(again(&journal, 1).read().unwrap().is_err(), "{at}");
            flip(at);
        }
        assert_eq!(again(&journal, 1).read().unwrap().unwrap().len(), 3);
    }

    #[test]
    fn what_has_no_room_is_not_written() {
        let mut journal = journal(1);
        assert!(!Journal::could_hold(JOURNAL_BYTES) && Journal::could_hold(JOURNAL_BYTES - HEADER));
        journal.append(&vec![1; JOURNAL_BYTES - PAGE]).unwrap();
        assert!(!journal.has_room_for(PAGE) && journal.is_rather_full());
        assert!(journal.append(&[1; PAGE]).is_err());
        assert_eq!(journal.read().unwrap().unwrap().len(), 1);
    }
}
