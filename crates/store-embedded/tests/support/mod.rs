//! A folder with a store in it, and documents to write.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::path::{Path, PathBuf};

use baton_election::command::Acquire;
use baton_election::id::{Incarnation, LeaseKey, StoreId};
use baton_election::{
    AgentName, Command, Document, ElectionName, Epoch, Evidence, Refusal, Span, WallTime, decide,
};
use baton_store::{Access, AgeStamp, Expect, Key, Persistence, Reading, Record, Store, StoreError, Version};
use baton_store_embedded::EmbeddedStore;

/// Where the database begins in the file, behind a page and the journal.
pub(crate) const DATABASE_AT: usize = 4_096 + (1 << 20);

/// The tables of a store that is closed, in a file of their own.
pub(crate) fn database(store: &Path, alone: &Path) -> redb::Database {
    std::fs::write(alone, &std::fs::read(store).unwrap()[DATABASE_AT..]).unwrap();
    redb::Database::open(alone).unwrap()
}

pub(crate) struct TestStore {
    pub(crate) folder: tempfile::TempDir,
}

impl TestStore {
    pub(crate) fn new() -> TestStore {
        TestStore { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> EmbeddedStore {
        EmbeddedStore::open(&self.file("baton.redb"), Access::Write).unwrap()
    }
}

pub(crate) fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

pub(crate) fn key(name: &str) -> Key {
    Key::Election(election(name))
}

/// What an agent of this number is answered that asks for an election of this age.
pub(crate) fn asked(
    document: Option<&Document>,
    name: &str,
    number: u8,
    age: Span,
    floor: Epoch,
) -> Result<Document, Refusal> {
    let acquire = Acquire::new(
        AgentName::new(&format!("agent-{number}")).unwrap(),
        Incarnation([number; 8]),
        LeaseKey([number; 16]).hash(),
    );
    let evidence = Evidence {
        election: &election(name),
        store: StoreId([7; 8]),
        age,
        wall: WallTime::from_unix_millis(1_700_000_000_000),
        floor,
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    };
    Ok(decide(document, &Command::Acquire(acquire), &evidence)?.next.unwrap())
}

/// An election that an agent of this number leads, in its first epoch.
pub(crate) fn led(name: &str, number: u8) -> Document {
    asked(None, name, number, Span::ZERO, Epoch(0)).unwrap()
}

/// The same election after an agent of this number took over.
pub(crate) fn taken_over(document: &Document, number: u8) -> Document {
    asked(Some(document), document.election.as_str(), number, Span::MAX, Epoch(0)).unwrap()
}

pub(crate) fn record(document: &Document) -> Record {
    Record::Election(Box::new(document.clone()))
}

pub(crate) async fn put(store: &EmbeddedStore, document: &Document, expect: Expect) -> Version {
    let key = Key::Election(document.election.clone());
    store.swap(&key, expect, &record(document), AgeStamp::Reset, Persistence::Durable).await.unwrap().version
}

pub(crate) async fn read(store: &EmbeddedStore, name: &str) -> Reading {
    store.read(&key(name)).await.unwrap()
}

pub(crate) fn document(reading: &Reading) -> Document {
    match reading.record() {
        Some(Record::Election(document)) => (**document).clone(),
        other => panic!("not an election: {other:?}"),
    }
}

pub(crate) fn number(version: &Version) -> u64 {
    version.as_str().parse().unwrap()
}

pub(crate) fn failed<T>(result: Result<T, StoreError>) -> StoreError {
    match result {
        Ok(_) => panic!("it did not fail"),
        Err(error) => error,
    }
}
