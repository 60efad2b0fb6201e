//! What this client has seen: how long leases have stood still, and the highest epochs.
//!
//! A client that has seen a higher epoch refuses a lower one; one that saw a record held waits out the lease even if the record
//! vanishes. A command that is not a process saves its memory and goes on counting at its next call.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_election::time::{Moment, Span};
use baton_election::{Document, ElectionName, Epoch, Observer, StoreId};
use baton_store::boot::{self, Boot};
use baton_store::{Key, Reading, Record, StoreError, Trace};
use serde::{Deserialize, Serialize};

use crate::elections::Sighting;
use crate::served;

/// What a client has seen of one store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The run of this machine that the moments below are of.
    boot: String,
    observers: BTreeMap<String, Observer>,
    seen: BTreeMap<String, LastSeen>,
    /// What stores told of records that others deleted, or of epochs beside the document's.
    #[serde(default)]
    traces: BTreeMap<String, TimedTrace>,
}

/// What a store told beside a record, timed from when it was first told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedTrace {
    /// No epoch above this was given.
    pub epoch: Epoch,
    /// Until when the lease of a record that was deleted may last.
    pub lease_until: Moment,
}

impl TimedTrace {
    /// A trace after what the store told earlier; none if it tells nothing. `ends` is the end of the lease that it tells of, by this telling.
    pub fn after(
        earlier: Option<TimedTrace>,
        trace: Option<Trace>,
        ends: impl FnOnce(Span) -> Moment,
    ) -> Option<TimedTrace> {
        let trace = trace.filter(|trace| trace.epoch > Epoch(0) || trace.lease > Span::ZERO)?;
        let ends = ends(trace.lease);
        // A higher epoch means that a record came and went meanwhile.
        let goes_on = earlier.filter(|earlier| earlier.epoch == trace.epoch && trace.lease > Span::ZERO);
        let lease_until = goes_on.map_or(ends, |earlier| earlier.lease_until.min(ends));
        Some(TimedTrace { epoch: trace.epoch, lease_until })
    }
}

/// The last that was seen of one election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LastSeen {
    store: StoreId,
    epoch: Epoch,
    /// Until when a lease seen then may last, whatever becomes of the record.
    lease_until: Moment,
    /// When this was heard of: a reading that was asked for earlier may show an older state.
    #[serde(default)]
    heard_at: Moment,
}

impl Memory {
    /// A memory of nothing.
    pub fn new() -> Memory {
        Memory { boot: Boot::current().boot, ..Memory::default() }
    }

    /// Takes up a saved memory. What it knows of moments is worth nothing after a reboot; what it knows of epochs is.
    #[must_use]
    pub fn taken_up(mut self) -> Memory {
        let boot = Boot::current().boot;
        if self.boot != boot {
            self.observers.clear();
            self.traces.clear();
            for seen in self.seen.values_mut() {
                seen.lease_until = Moment::from_nanos(0);
                seen.heard_at = Moment::from_nanos(0);
            }
            self.boot = boot;
        }
        // A clock of another time namespace may be ahead; what is not yet cannot have been heard of.
        let now = boot::now();
        self.seen.values_mut().for_each(|seen| seen.heard_at = seen.heard_at.min(now));
        self
    }

    /// Whether a later client would act otherwise with this memory than with that one.
    pub fn differs_materially(&self, other: &Memory) -> bool {
        let later = |name: &str, seen: &LastSeen| {
            other.seen.get(name).is_none_or(|known| {
                known.store != seen.store
                    || known.epoch != seen.epoch
                    || seen.lease_until.since(known.lease_until) > Span::secs(1)
            })
        };
        self.boot != other.boot
            || self.observers != other.observers
            || self.traces != other.traces
            || self.seen.iter().any(|(name, seen)| later(name, seen))
    }

    /// Takes in a reading and returns the age of what it shows.
    pub fn observe(&mut self, key: &Key, reading: &Reading) -> Span {
        self.follow_trace(key, reading);
        match (reading.age, reading.record().and_then(Record::pulse)) {
            (Some(age), _) => age,
            (None, None) => Span::ZERO,
            (None, Some(pulse)) => {
                let observer = self.observers.entry(key.to_string()).or_default();
                observer.observe(pulse, reading.asked_at, reading.received_at)
            }
        }
    }

    /// A trace of a deleted record is timed from when it was first told; the record's return ends it.
    fn follow_trace(&mut self, key: &Key, reading: &Reading) {
        let Key::Election(election) = key else { return };
        let ends = |lease| reading.received_at + if reading.found.is_none() { lease } else { Span::ZERO };
        let earlier = self.traces.get(election.as_str()).copied();
        match TimedTrace::after(earlier, reading.trace, ends) {
            Some(trace) => drop(self.traces.insert(election.as_str().to_string(), trace)),
            None => drop(self.traces.remove(election.as_str())),
        }
    }

    /// Takes in a document that was read, and refuses one whose epoch went back.
    ///
    /// Several tasks share a memory: a reading that another one overtook is a conflict, to be read again.
    pub fn accept(
        &mut self,
        location: &impl Fn() -> String,
        document: &Document,
        age: Span,
        asked_at: Moment,
        trace: Option<Trace>,
    ) -> Result<(), StoreError> {
        let name = document.election.as_str();
        let mut lease_until = asked_at + document.lease_remaining(age);
        let mut highest = document.epoch;
        if let Some(seen) = self.seen.get(name).filter(|seen| seen.store == document.store) {
            let overtaken = asked_at < seen.heard_at;
            match seen.epoch.cmp(&document.epoch) {
                Ordering::Greater if overtaken => return Err(StoreError::Conflict),
                // The store itself says that what was seen may have been lost with the power, and goes on above it.
                Ordering::Greater if trace.is_some_and(|trace| trace.epoch >= seen.epoch) => {
                    highest = seen.epoch
                }
                Ordering::Greater => return Err(epoch_went_back(&location(), seen.epoch, document)),
                Ordering::Equal if overtaken => lease_until = lease_until.max(seen.lease_until),
                Ordering::Equal | Ordering::Less => {}
            }
        }
        self.insert(document, highest, lease_until);
        Ok(())
    }

    /// Takes in a document that this client wrote, unless it has seen a later one.
    pub fn wrote(&mut self, document: &Document) {
        let known = self.seen.get(document.election.as_str());
        if known.is_none_or(|seen| seen.store != document.store || seen.epoch <= document.epoch) {
            self.insert(document, document.epoch, boot::now() + document.lease_remaining(Span::ZERO));
        }
    }

    fn insert(&mut self, document: &Document, epoch: Epoch, lease_until: Moment) {
        let (store, heard_at) = (document.store, boot::now());
        self.seen
            .insert(document.election.as_str().to_string(), LastSeen { store, epoch, lease_until, heard_at });
    }

    /// What is known of an election beside its record: the highest epoch given, and, should the record not be there, how long a
    /// lease of it may still last.
    pub fn vanished(&self, election: &ElectionName, now: Moment) -> (Epoch, Span) {
        let seen = self.seen.get(election.as_str()).map(|seen| (seen.epoch, seen.lease_until.since(now)));
        let traced = self.traces.get(election.as_str()).map(|told| (told.epoch, told.lease_until.since(now)));
        let (seen, traced) = (seen.unwrap_or_default(), traced.unwrap_or_default());
        (seen.0.max(traced.0), seen.1.max(traced.1))
    }
}

/// A memory that several tasks share.
#[derive(Debug)]
pub struct SharedMemory(Mutex<Memory>);

impl SharedMemory {
    /// Takes up what was seen before.
    pub fn new(memory: Memory) -> SharedMemory {
        SharedMemory(Mutex::new(memory.taken_up()))
    }

    /// The memory itself.
    pub fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the record of an election and takes in what it shows. `location` names the store in an error.
    pub async fn view<F>(
        &self,
        key: &Key,
        location: &impl Fn() -> String,
        read: impl Fn() -> F,
    ) -> Result<Sighting, StoreError>
    where
        F: Future<Output = Result<Reading, StoreError>>,
    {
        loop {
            let seen = self.take_in(key, read().await?);
            match self.accept(location, seen.document.as_ref(), seen.age, seen.asked_at, seen.trace()) {
                // Another task saw a later state meanwhile: a reading that is asked for from here on shows it too.
                Err(StoreError::Conflict) => {}
                accepted => return accepted.map(|()| seen),
            }
        }
    }

    /// What a reading shows, with the age that is known of it.
    pub fn take_in(&self, key: &Key, reading: Reading) -> Sighting {
        let observed = self.lock().observe(key, &reading);
        let document = match reading.record() {
            Some(Record::Election(document)) => Some((**document).clone()),
            Some(_) | None => None,
        };
        let age = served::known_age(document.as_ref(), observed);
        Sighting { document, age, asked_at: reading.asked_at, reading: Some(Box::new(reading)) }
    }

    /// Takes in a document that was read, if there is one; see [`Memory::accept`].
    pub fn accept(
        &self,
        location: &impl Fn() -> String,
        document: Option<&Document>,
        age: Span,
        asked_at: Moment,
        trace: Option<Trace>,
    ) -> Result<(), StoreError> {
        match document {
            Some(document) => self.lock().accept(location, document, age, asked_at, trace),
            None => Ok(()),
        }
    }

    /// Takes in the document that a command was answered with.
    pub fn heard_of(
        &self,
        location: &impl Fn() -> String,
        document: &Document,
        asked_at: Moment,
    ) -> Result<(), StoreError> {
        match self.accept(location, Some(document), Span::ZERO, asked_at, None) {
            Ok(()) => self.lock().wrote(document),
            // Another task has heard of what came after it.
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The highest epoch of an election that was heard of.
    pub fn highest(&self, election: &ElectionName) -> Epoch {
        self.lock().vanished(election, boot::now()).0
    }
}

/// The error of a document whose epoch is below one that was seen.
pub fn epoch_went_back(place: &str, seen: Epoch, document: &Document) -> StoreError {
    StoreError::Corrupt {
        place: format!("the election `{}` in {place}", document.election),
        why: format!("its epoch went back from {seen} to {}", document.epoch),
        hint: "an old copy of the store was put back. Tokens may be given twice: restore the newest copy, or let an \
               operator make a new store and delete the fences of its resources"
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location() -> String {
        "s".to_string()
    }

    fn document(epoch: u64, store: u8) -> Document {
        let election = ElectionName::new("e").unwrap();
        Document::new(election, StoreId([store; 8]), Epoch(epoch), &[])
    }

    #[test]
    fn an_epoch_that_went_back_is_refused_unless_the_store_is_another() {
        let mut memory = Memory::new();
        memory.accept(&location, &document(7, 1), Span::ZERO, boot::now(), None).unwrap();
        let error = memory.accept(&location, &document(6, 1), Span::ZERO, boot::now(), None).unwrap_err();
        assert!(error.to_string().contains("went back from 7 to 6"), "{error}");
        memory.accept(&location, &document(1, 2), Span::ZERO, boot::now(), None).unwrap();
    }

    #[test]
    fn a_reading_that_another_overtook_is_read_again() {
        let mut memory = Memory::new();
        let asked_at = boot::now();
        memory.accept(&location, &document(7, 1), Span::ZERO, boot::now(), None).unwrap();
        let overtaken = memory.accept(&location, &document(6, 1), Span::ZERO, asked_at, None).unwrap_err();
        assert!(matches!(overtaken, StoreError::Conflict), "{overtaken}");
        memory.wrote(&document(6, 1));
        assert_eq!(memory.vanished(&ElectionName::new("e").unwrap(), boot::now()).0, Epoch(7));
    }

    #[test]
    fn a_reboot_ends_leases_but_not_epochs() {
        let mut memory = Memory::new();
        memory.accept(&location, &document(7, 1), Span::ZERO, boot::now() + Span::secs(60), None).unwrap();
        let election = ElectionName::new("e").unwrap();
        assert!(memory.vanished(&election, boot::now()).1 > Span::ZERO);
        memory.boot = "another".to_string();
        let memory = memory.taken_up();
        assert_eq!(memory.vanished(&election, boot::now()), (Epoch(7), Span::ZERO));
    }
}
