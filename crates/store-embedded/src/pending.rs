//! What stands in the journal and not yet in the database, as it is read and as it is written.

use std::collections::BTreeMap;

use redb::{Error, ReadableTable, WriteTransaction};

use crate::history;
use crate::shape::{self, HISTORY, META, META_VERSIONS, RECORDS};

/// The last word on each record and each transition that changed since the database was last written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    transitions: BTreeMap<Vec<u8>, history::Entry>,
    /// No version above this was given.
    versions: u64,
}

/// A frame is none of ours.
#[derive(Debug)]
pub(crate) struct Unreadable;

impl Pending {
    /// Nothing, where versions up to this were given or reserved.
    pub(crate) fn none(versions: u64) -> Pending {
        Pending { versions, ..Pending::default() }
    }

    /// The value of a record.
    pub(crate) fn record(&self, key: &[u8]) -> Option<&[u8]> {
        self.records.get(key).map(Vec::as_slice)
    }

    /// The records between two keys, the second not among them.
    pub(crate) fn records(&self, from: &[u8], to: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let range =
            self.records.range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(to)));
        range.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The transitions between two keys, the second not among them.
    pub(crate) fn transitions(&self, from: &[u8], to: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let range = self
            .transitions
            .range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(to)));
        range.map(|(key, entry)| (key.clone(), entry.value().to_vec())).collect()
    }

    pub(crate) fn put_record(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.records.insert(key, value);
    }

    pub(crate) fn put_transition(&mut self, entry: history::Entry) {
        self.transitions.insert(entry.key().to_vec(), entry);
    }

    /// That versions up to this are given or reserved.
    pub(crate) fn reserve(&mut self, versions: u64) {
        self.versions = self.versions.max(versions);
    }

    pub(crate) fn versions(&self) -> u64 {
        self.versions
    }

    /// Takes over what came later.
    pub(crate) fn extend(&mut self, later: Pending) {
        self.records.extend(later.records);
        self.transitions.extend(later.transitions);
        self.reserve(later.versions);
    }

    /// Writes all of it that is newer than what stands in the tables.
    pub(crate) fn write(self, into: &WriteTransaction) -> Result<(), Error> {
        let mut records = into.open_table(RECORDS)?;
        for (key, value) in &self.records {
            let standing = records.get(key.as_slice())?.map(|found| shape::version(found.value()));
            if standing.is_none_or(|standing| standing <= shape::version(value)) {
                records.insert(key.as_slice(), value.as_slice())?;
            }
        }
        let mut transitions = into.open_table(HISTORY)?;
        for (_, entry) in self.transitions {
            entry.put(&mut transitions)?;
        }
        let mut meta = into.open_table(META)?;
        let versions = meta.get(META_VERSIONS)?.map_or(0, |found| found.value());
        meta.insert(META_VERSIONS, versions.max(self.versions))?;
        Ok(())
    }

    /// As it stands in a frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let rows = self.records.iter().map(|(key, value)| key.len() + value.len() + 8).sum::<usize>()
            + self.transitions.values().map(history::Entry::encoded_len).sum::<usize>();
        let mut bytes = Vec::with_capacity(16 + rows);
        bytes.extend(self.versions.to_be_bytes());
        bytes.extend(count(self.records.len()));
        for (key, value) in &self.records {
            put(&mut bytes, key);
            put(&mut bytes, value);
        }
        bytes.extend(count(self.transitions.len()));
        for entry in self.transitions.values() {
            put(&mut bytes, entry.election().as_bytes());
            put(&mut bytes, entry.key());
            put(&mut bytes, entry.value());
        }
        bytes
    }

    /// Reads a frame.
    pub(crate) fn decode(frame: &[u8]) -> Result<Pending, Unreadable> {
        let mut rest = frame;
        let mut pending = Pending::none(u64::from_be_bytes(*take(&mut rest)?));
        for _ in 0..number(&mut rest)? {
            let (key, value) = (bytes(&mut rest)?.to_vec(), bytes(&mut rest)?.to_vec());
            pending.put_record(key, value);
        }
        for _ in 0..number(&mut rest)? {
            let (election, key, value) = (bytes(&mut rest)?, bytes(&mut rest)?, bytes(&mut rest)?);
            let election = std::str::from_utf8(election).map_err(|_| Unreadable)?;
            let entry = history::Entry::written(election, key.to_vec(), value.to_vec());
            pending.put_transition(entry.ok_or(Unreadable)?);
        }
        if rest.is_empty() { Ok(pending) } else { Err(Unreadable) }
    }
}

fn count(len: usize) -> [u8; 4] {
    // A frame is shorter than the journal.
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend(count(part.len()));
    bytes.extend(part);
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], Unreadable> {
    let (taken, left) = rest.split_first_chunk().ok_or(Unreadable)?;
    *rest = left;
    Ok(taken)
}

fn number(rest: &mut &[u8]) -> Result<u32, Unreadable> {
    take(rest).map(|bytes| u32::from_be_bytes(*bytes))
}

fn bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Unreadable> {
    let len = usize::try_from(number(rest)?).map_err(|_| Unreadable)?;
    let (taken, left) = rest.split_at_checked(len).ok_or(Unreadable)?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Pending {
        let mut pending = Pending::none(70);
        pending.put_record(b"\x02a".to_vec(), b"value".to_vec());
        pending.put_record(b"\x02b".to_vec(), Vec::new());
        let entry = history::Entry::written("a", b"a\0key".to_vec(), b"transition".to_vec());
        pending.put_transition(entry.unwrap());
        pending
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let read = Pending::decode(&some().encode()).unwrap();
        assert_eq!(read.versions, 70);
        assert_eq!(read.records, some().records);
        assert_eq!(read.transitions(b"a\0", b"a\x01"), some().transitions(b"a\0", b"a\x01"));
        assert_eq!(read.transitions(b"a\0", b"a\x01").len(), 1);
    }

    #[test]
    fn a_frame_that_is_cut_off_or_goes_on_is_none() {
        let whole = some().encode();
        for len in 0..whole.len() {
            assert!(Pending::decode(&whole[..len]).is_err(), "{len}");
        }
        assert!(Pending::decode(&[whole, vec![0]].concat()).is_err());
    }
}
