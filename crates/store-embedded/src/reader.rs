//! What is shared between those who ask and the thread that writes, and how it is read.

use std::ops::ControlFlow;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use baton_election::document::Transition;
use baton_election::{ElectionName, Epoch, Span};
use baton_store::{Key, Prefix, Reading, Record, StoreError, Trace, Version, boot};
use redb::{Database, Error, ReadTransaction, ReadableDatabase};

use crate::fault::Place;
use crate::history;
use crate::open::Meta;
use crate::shape::{self, HISTORY, RECORDS};
use crate::stamps::Stamps;
use crate::watch::Watchers;

/// The database, as it is at hand.
pub(crate) enum Disk {
    /// There is none, and it is only looked at.
    Absent,
    /// It is open.
    Open(Database),
    /// It failed, for this reason, and is closed.
    Broken(String),
}

pub(crate) struct Shared {
    pub(crate) place: Place,
    pub(crate) stamps: Stamps,
    pub(crate) watchers: Watchers,
    disk: RwLock<Disk>,
    /// After a restore: what epochs were perhaps given, and how long leases may last, that the snapshot did not know of.
    floor: Epoch,
    lease: Span,
}

impl Shared {
    pub(crate) fn new(place: Place, disk: Disk, meta: Option<Meta>) -> Shared {
        Shared {
            place,
            stamps: Stamps::since(boot::now()),
            watchers: Watchers::default(),
            disk: RwLock::new(disk),
            floor: meta.map_or(Epoch(0), |meta| meta.floor),
            lease: meta.map_or(Span::ZERO, |meta| meta.lease),
        }
    }

    pub(crate) fn disk(&self) -> RwLockReadGuard<'_, Disk> {
        self.disk.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another in its place, once nobody reads it; the former is closed.
    pub(crate) fn put(&self, disk: Disk) {
        *self.disk.write().unwrap_or_else(PoisonError::into_inner) = disk;
    }

    /// What is known of an election that is not there.
    pub(crate) fn trace(&self) -> Option<Trace> {
        let lease = self.lease.minus(boot::now().since(self.stamps.opened_at()));
        (self.floor > Epoch(0)).then_some(Trace { epoch: self.floor, lease })
    }

    /// Whether leases were feared that have surely ended.
    pub(crate) fn aftermath_is_over(&self) -> bool {
        self.lease > Span::ZERO && self.trace().is_some_and(|trace| trace.lease == Span::ZERO)
    }

    /// Looks at what is on the disk; none if there is no database.
    pub(crate) fn look<T>(
        &self,
        look: impl FnOnce(&ReadTransaction) -> Result<Result<T, StoreError>, Error>,
    ) -> Result<Option<T>, StoreError> {
        match &*self.disk() {
            Disk::Absent => Ok(None),
            Disk::Broken(why) => Err(self.place.unavailable(why)),
            Disk::Open(database) => {
                let looked = || look(&database.begin_read()?);
                looked().map_err(|error| self.place.reading(error))?.map(Some)
            }
        }
    }

    pub(crate) fn read(&self, key: &Key) -> Result<Reading, StoreError> {
        let asked_at = boot::now();
        let bytes = shape::key(key);
        let found = self.look(|transaction| {
            let table = transaction.open_table(RECORDS)?;
            let found = table.get(bytes.as_slice())?;
            let found = found.map(|value| shape::record(key, value.value())).transpose();
            Ok(found.map_err(|not| self.place.not_a_record(key, not)))
        })?;
        let found = found.flatten().map(|(record, number)| (record, version(number)));
        Ok(Reading {
            age: found.is_some().then(|| asked_at.since(self.stamps.of(&bytes))),
            trace: if found.is_none() && matches!(key, Key::Election(_)) { self.trace() } else { None },
            found,
            asked_at,
            received_at: boot::now(),
        })
    }

    /// At most so many keys of a kind, in order: the first, or those after this one.
    pub(crate) fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, StoreError> {
        let mut keys = Vec::new();
        self.each(prefix, after, |key, _| {
            if keys.len() < limit {
                keys.push(key);
            }
            Ok(if keys.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(keys)
    }

    /// All records of a kind, in order. Returns how many.
    pub(crate) fn load(
        &self,
        prefix: &Prefix,
        each: &mut dyn FnMut(Key, Record, Version),
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        self.each(prefix, None, |key, value| {
            let (record, number) =
                shape::record(&key, value).map_err(|not| self.place.not_a_record(&key, not))?;
            each(key, record, version(number));
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    fn each(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        mut each: impl FnMut(Key, &[u8]) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let (from, to) = shape::bounds(prefix);
        // No key has a zero at its end: this is the first that can come after it.
        let after = after.map(|after| [shape::key(after), vec![0]].concat()).unwrap_or_default();
        // What comes after all of them leaves nothing.
        let from = from.max(after).min(to.clone());
        let looked = self.look(|transaction| {
            for entry in transaction.open_table(RECORDS)?.range(from.as_slice()..to.as_slice())? {
                let (bytes, value) = entry?;
                let Some(key) = shape::parse(bytes.value()) else {
                    return Ok(Err(self.place.corrupt("it has a record under a key that is none")));
                };
                match each(key, value.value()) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => break,
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(Ok(()))
        });
        looked.map(Option::unwrap_or_default)
    }

    pub(crate) fn history(
        &self,
        election: &ElectionName,
        limit: usize,
    ) -> Result<Vec<Transition>, StoreError> {
        let found = self.look(|transaction| {
            let found = history::newest(&transaction.open_table(HISTORY)?, election, limit)?;
            Ok(found.map_err(|not| self.place.not_a_record(&Key::History(election.clone()), not)))
        })?;
        Ok(found.unwrap_or_default())
    }
}

/// A number of the store-wide count, as a version.
pub(crate) fn version(number: u64) -> Version {
    Version::new(&number.to_string())
}
