//! What is shared between those who ask and the thread that writes, and how it is read.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use baton_election::document::Transition;
use baton_election::{ElectionName, Epoch, Span};
use baton_store::{Key, Prefix, Reading, Record, StoreError, Trace, Version, boot};
use redb::{Database, Error, ReadTransaction, ReadableDatabase};

use crate::fault::StorePath;
use crate::history;
use crate::open::Meta;
use crate::pending::Pending;
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
    pub(crate) place: StorePath,
    pub(crate) stamps: Stamps,
    pub(crate) watchers: Watchers,
    disk: RwLock<Disk>,
    /// What is on the disk, but not in the database yet. Whoever looks for something looks here **first**: what is not here any
    /// more is in the database by then.
    pending: RwLock<Pending>,
    /// After a restore: what epochs were perhaps given, and how long leases may last, that the snapshot did not know of.
    floor: Epoch,
    lease: Span,
}

impl Shared {
    pub(crate) fn new(place: StorePath, disk: Disk, meta: Option<Meta>) -> Shared {
        Shared {
            place,
            stamps: Stamps::since(boot::now()),
            watchers: Watchers::default(),
            disk: RwLock::new(disk),
            pending: RwLock::default(),
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

    pub(crate) fn pending(&self) -> RwLockReadGuard<'_, Pending> {
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pending_mut(&self) -> RwLockWriteGuard<'_, Pending> {
        self.pending.write().unwrap_or_else(PoisonError::into_inner)
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

    /// Looks at what is on the disk: first at what is pending, and then at the database. None if there is no database.
    pub(crate) fn look<P, T>(
        &self,
        first: impl FnOnce(&Pending) -> P,
        look: impl FnOnce(P, &ReadTransaction) -> Result<Result<T, StoreError>, Error>,
    ) -> Result<Option<T>, StoreError> {
        match &*self.disk() {
            Disk::Absent => Ok(None),
            Disk::Broken(why) => Err(self.place.unavailable(why)),
            Disk::Open(database) => {
                let pending = first(&self.pending());
                let looked = || look(pending, &database.begin_read()?);
                looked().map_err(|error| self.place.reading(error))?.map(Some)
            }
        }
    }

    pub(crate) fn read(&self, key: &Key) -> Result<Reading, StoreError> {
        let asked_at = boot::now();
        let bytes = shape::key(key);
        let pending = |pending: &Pending| pending.record(&bytes).map(<[u8]>::to_vec);
        let found = self.look(pending, |pending, transaction| {
            let found = match pending {
                Some(value) => Some(shape::record(key, &value)),
                None => {
                    let table = transaction.open_table(RECORDS)?;
                    table.get(bytes.as_slice())?.map(|value| shape::record(key, value.value()))
                }
            };
            Ok(found.transpose().map_err(|not| self.place.not_a_record(key, not)))
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
        let mut each = |key: Key, value: &[u8]| match prefix.covers(&key) {
            true => each(key, value),
            false => Ok(ControlFlow::Continue(())),
        };
        // No key has a zero at its end: this is the first that can come after it.
        let after = after.map(|after| [shape::key(after), vec![0]].concat()).unwrap_or_default();
        // What comes after all of them leaves nothing.
        let from = from.max(after).min(to.clone());
        let pending = |pending: &Pending| pending.records(&from, &to);
        let looked = self.look(pending, |pending, transaction| {
            let mut pending = pending.into_iter().peekable();
            for entry in transaction.open_table(RECORDS)?.range(from.as_slice()..to.as_slice())? {
                let (bytes, value) = entry?;
                while let Some((key, value)) = pending.next_if(|(key, _)| key.as_slice() < bytes.value()) {
                    if let Some(ended) = self.hand_over(&key, &value, &mut each) {
                        return Ok(ended);
                    }
                }
                // What was pending may be in the database by now, and may have changed again there.
                let newer = pending.next_if(|(key, _)| key.as_slice() == bytes.value());
                let newer = newer.filter(|(_, newer)| shape::version(newer) > shape::version(value.value()));
                let value = newer.as_ref().map_or(value.value(), |(_, newer)| newer);
                if let Some(ended) = self.hand_over(bytes.value(), value, &mut each) {
                    return Ok(ended);
                }
            }
            for (key, value) in pending {
                if let Some(ended) = self.hand_over(&key, &value, &mut each) {
                    return Ok(ended);
                }
            }
            Ok(Ok(()))
        });
        looked.map(Option::unwrap_or_default)
    }

    /// Hands one row over. Returns how the whole ends, if it ends with it.
    fn hand_over(
        &self,
        bytes: &[u8],
        value: &[u8],
        each: &mut impl FnMut(Key, &[u8]) -> Result<ControlFlow<()>, StoreError>,
    ) -> Option<Result<(), StoreError>> {
        let Some(key) = shape::parse(bytes) else {
            return Some(Err(self.place.corrupt("it has a record under a key that is none")));
        };
        match each(key, value) {
            Ok(ControlFlow::Continue(())) => None,
            Ok(ControlFlow::Break(())) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    }

    pub(crate) fn history(
        &self,
        election: &ElectionName,
        limit: usize,
    ) -> Result<Vec<Transition>, StoreError> {
        let (from, to) = shape::transition_bounds(election.as_str().as_bytes());
        let pending = |pending: &Pending| -> BTreeMap<_, _> { pending.transitions(&from, &to) };
        let found = self.look(pending, |pending, transaction| {
            let found = history::newest(&transaction.open_table(HISTORY)?, pending, election, limit)?;
            Ok(found.map_err(|not| self.place.not_a_record(&Key::History(election.clone()), not)))
        })?;
        Ok(found.unwrap_or_default())
    }
}

/// A number of the store-wide count, as a version.
pub(crate) fn version(number: u64) -> Version {
    Version::new(&number.to_string())
}
