//! A place of its own in the emulator, and documents to write.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

#[path = "../../../pubsub/tests/support/http.rs"]
pub(crate) mod http;
#[path = "../../../pubsub/tests/support/proxy.rs"]
pub(crate) mod proxy;
pub(crate) mod rest;

use baton_election::command::{Acquire, Release, Renew};
use baton_election::id::{Credential, Incarnation, LeaseKey, StoreId};
use baton_election::{AgentName, Command, Document, ElectionName, Epoch, Evidence, Span, WallTime, decide};
use baton_store::conformance::{Required, required};
use baton_store::{Clock, Expect, Key, Reading, Record, Store, StoreError, Version};
use baton_store_firestore::FirestoreStore;
use rest::Rest;

/// A project of its own in the emulator: nobody else's documents are in it.
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) project: String,
    pub(crate) rest: Rest,
}

impl Place {
    /// A fresh one; none if there is no emulator.
    pub(crate) fn new() -> Option<Place> {
        let Required::At(host) = required("BATON_TEST_FIRESTORE") else { return None };
        let project = format!("t{:016x}", getrandom::u64().unwrap());
        let rest = Rest { host: host.clone(), project: project.clone() };
        Some(Place { host, project, rest })
    }

    pub(crate) async fn store(&self) -> FirestoreStore {
        self.store_at(&self.host).await
    }

    /// The same store, reached by another way.
    pub(crate) async fn store_at(&self, host: &str) -> FirestoreStore {
        open(&format!("firestore://{}?emulator={host}", self.project)).await.unwrap()
    }
}

pub(crate) async fn open(url: &str) -> Result<FirestoreStore, StoreError> {
    FirestoreStore::open(&url.parse().unwrap()).await
}

pub(crate) fn key(name: &str) -> Key {
    Key::Election(ElectionName::new(name).unwrap())
}

fn number(agent: &str) -> u8 {
    agent.bytes().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))
}

fn with_evidence<T>(name: &str, age: Span, floor: Epoch, act: impl FnOnce(&Evidence<'_>) -> T) -> T {
    let election = ElectionName::new(name).unwrap();
    act(&Evidence {
        election: &election,
        store: StoreId([7; 8]),
        age,
        wall: WallTime::from_unix_millis(1_700_000_000_000),
        floor,
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    })
}

/// What is there after `agent` took the election, whose lease has long run out.
pub(crate) fn led(name: &str, before: Option<&Document>, agent: &str) -> Document {
    led_above(name, before, agent, Epoch(0), None)
}

/// The same where epochs up to `floor` were given before, with a lease of this length.
pub(crate) fn led_above(
    name: &str,
    before: Option<&Document>,
    agent: &str,
    floor: Epoch,
    ttl: Option<Span>,
) -> Document {
    let acquire = Acquire {
        ttl,
        task: Some("refactor authentication".to_string()),
        noticed: Some(Span::millis(20)),
        ..Acquire::new(
            AgentName::new(agent).unwrap(),
            Incarnation(getrandom::u64().unwrap().to_be_bytes()),
            LeaseKey([number(agent); 16]).hash(),
        )
    };
    with_evidence(name, Span::secs(3_600), floor, |evidence| {
        decide(before, &Command::Acquire(acquire), evidence).unwrap().next.unwrap()
    })
}

fn credential(document: &Document) -> Credential {
    let leader = document.leader.as_ref().unwrap();
    Credential { incarnation: leader.incarnation, key: LeaseKey([number(leader.agent.as_str()); 16]) }
}

/// What is there after the leader renewed.
pub(crate) fn renewed(document: &Document) -> Document {
    let renew = Renew {
        epoch: document.epoch,
        credential: credential(document),
        progress: true,
        spent_tokens: None,
        phase: None,
        promotion: None,
        region: None,
    };
    with_evidence(document.election.as_str(), Span::ZERO, Epoch(0), |evidence| {
        decide(Some(document), &Command::Renew(renew), evidence).unwrap().next.unwrap()
    })
}

/// What is there after the leader released.
pub(crate) fn released(document: &Document) -> Document {
    let (epoch, reason) = (document.epoch, Some("done".to_string()));
    let release = Release { epoch, credential: credential(document), reason, orphaned: false };
    with_evidence(document.election.as_str(), Span::ZERO, Epoch(0), |evidence| {
        decide(Some(document), &Command::Release(release), evidence).unwrap().next.unwrap()
    })
}

pub(crate) async fn read(store: &FirestoreStore, key: &Key) -> Reading {
    store.read(key).await.unwrap()
}

pub(crate) async fn document(store: &FirestoreStore, key: &Key) -> (Document, Version) {
    match read(store, key).await.found.unwrap() {
        (Record::Election(document), version) => (*document, version),
        (other, _) => panic!("{other:?}"),
    }
}

pub(crate) async fn put(
    store: &FirestoreStore,
    key: &Key,
    expect: Expect,
    next: &Document,
) -> Result<Version, StoreError> {
    let record = Record::Election(Box::new(next.clone()));
    store.swap(key, expect, &record, Clock::Restart).await.map(|swapped| swapped.version)
}

/// Lets `agent` take the election in the store, whoever leads.
pub(crate) async fn take(store: &FirestoreStore, key: &Key, agent: &str) -> (Document, Version) {
    let reading = read(store, key).await;
    let before = match reading.record() {
        Some(Record::Election(document)) => Some(&**document),
        _ => None,
    };
    let floor = reading.trace.map_or(Epoch(0), |trace| trace.epoch);
    let next = led_above(&key.to_string(), before, agent, floor, None);
    let version = put(store, key, reading.expect(), &next).await.unwrap();
    (next, version)
}
