//! What stands in a store after somebody has acted, and ways to write it, for the stores' own tests. What cannot be done panics.

use std::fmt::Display;

use baton_election::command::{Acknowledge, Acquire, Ending, Release, Renew, WriteCheckpoint};
use baton_election::handover::HandoverRule;
use baton_election::id::{Credential, Incarnation, LeaseKey, StoreId};
use baton_election::time::WallTime;
use baton_election::{AgentName, Command, Document, ElectionName, Epoch, Evidence, Policy, Span, decide};

use crate::Persistence;
use crate::error::StoreError;
use crate::key::Key;
use crate::record::Record;
use crate::store::{AgeStamp, Expect, Reading, Store, Version};

/// The key of an election.
pub fn key(name: &str) -> Key {
    Key::Election(sure(ElectionName::new(name)))
}

/// What is there after `agent` took the election, whoever led.
pub fn led(name: &str, before: Option<&Document>, agent: &str) -> Document {
    led_above(name, before, agent, Epoch(0), None)
}

/// The same where epochs up to `floor` were given before, with a lease of this length.
pub fn led_above(
    name: &str,
    before: Option<&Document>,
    agent: &str,
    floor: Epoch,
    ttl: Option<Span>,
) -> Document {
    // Never the same twice for one agent: an incarnation leads once.
    let mut life = before.map_or(floor, |document| document.epoch).0.to_le_bytes();
    life[7] = number(agent);
    let acquire = Acquire {
        ttl,
        task: Some("refactor authentication".to_string()),
        noticed: Some(Span::millis(20)),
        ..Acquire::new(sure(AgentName::new(agent)), Incarnation(life), LeaseKey([number(agent); 16]).hash())
    };
    after(&sure(ElectionName::new(name)), before, &Command::Acquire(acquire), Span::MAX, floor)
}

/// What is there after the leader renewed.
pub fn renewed(document: &Document) -> Document {
    let renew = Renew {
        epoch: document.epoch,
        credential: credential(document),
        progress: true,
        spent_tokens: None,
        phase: None,
        promotion: None,
        region: None,
    };
    after(&document.election, Some(document), &Command::Renew(renew), Span::ZERO, Epoch(0))
}

/// What is there after the leader released.
pub fn released(document: &Document, reason: Option<&str>) -> Document {
    let release = Release {
        epoch: document.epoch,
        credential: credential(document),
        reason: reason.map(str::to_string),
        ending: Ending::Stopped,
    };
    after(&document.election, Some(document), &Command::Release(release), Span::ZERO, Epoch(0))
}

/// The same under the rule that a successor acknowledges before it serves.
pub fn strict(document: &Document) -> Document {
    let policy = Policy { handover: HandoverRule::Acknowledge, ..(*document.policy).clone() };
    Document { policy: policy.into(), ..document.clone() }
}

/// What is there after the leader left something.
pub fn checkpointed(document: &Document) -> Document {
    let write = WriteCheckpoint {
        epoch: document.epoch,
        credential: credential(document),
        seq: document.checkpoint.as_ref().map_or(1, |left| left.seq + 1),
        summary: "half done".to_string(),
        state: "null".to_string(),
        reference: None,
        covers: None,
    };
    after(&document.election, Some(document), &Command::Checkpoint(write), Span::ZERO, Epoch(0))
}

/// What is there after the leader took on what was left.
pub fn acknowledged(document: &Document) -> Document {
    let Some(checkpoint) = &document.checkpoint else { panic!("nothing was left") };
    let (epoch, credential) = (document.epoch, credential(document));
    let acknowledge = Acknowledge { epoch, credential, hash: checkpoint.hash };
    after(&document.election, Some(document), &Command::Acknowledge(acknowledge), Span::ZERO, Epoch(0))
}

/// The document of an election that is there, and its version.
pub async fn document(store: &dyn Store, key: &Key) -> (Document, Version) {
    match sure(store.read(key).await).found {
        Some((Record::Election(document), version)) => (*document, version),
        other => panic!("not an election: {other:?}"),
    }
}

/// Swaps a document in that begins or ends a leadership.
pub async fn put(
    store: &dyn Store,
    key: &Key,
    expect: Expect,
    next: &Document,
) -> Result<Version, StoreError> {
    let persistence = if expect == Expect::Absent { Persistence::Durable } else { Persistence::Synced };
    put_as(store, key, expect, next, persistence).await
}

/// Swaps a document in, as durable as this.
pub async fn put_as(
    store: &dyn Store,
    key: &Key,
    expect: Expect,
    next: &Document,
    persistence: Persistence,
) -> Result<Version, StoreError> {
    let record = Record::Election(Box::new(next.clone()));
    store.swap(key, expect, &record, AgeStamp::Reset, persistence).await.map(|swapped| swapped.version)
}

/// Lets `agent` take the election in the store, whoever leads.
pub async fn take(store: &dyn Store, key: &Key, agent: &str) -> (Document, Version) {
    take_for(store, key, agent, None).await
}

/// The same with a lease of this length.
pub async fn take_for(store: &dyn Store, key: &Key, agent: &str, ttl: Option<Span>) -> (Document, Version) {
    let reading = sure(store.read(key).await);
    let next = led_above(&key.to_string(), election(&reading), agent, floor(&reading), ttl);
    let version = sure(put(store, key, reading.expect(), &next).await);
    (next, version)
}

/// The document that a reading found, if any.
pub fn election(reading: &Reading) -> Option<&Document> {
    match reading.record() {
        Some(Record::Election(document)) => Some(document),
        _ => None,
    }
}

/// The epoch that a reading says was given before.
pub fn floor(reading: &Reading) -> Epoch {
    reading.trace.map_or(Epoch(0), |trace| trace.epoch)
}

/// What a decision leaves, in a store of the tests', at a moment of theirs.
pub(super) fn after(
    election: &ElectionName,
    before: Option<&Document>,
    command: &Command,
    age: Span,
    floor: Epoch,
) -> Document {
    let evidence = Evidence {
        election,
        store: StoreId([7; 8]),
        age,
        wall: WallTime::from_unix_millis(1_700_000_000_000),
        floor,
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    };
    match sure(decide(before, command, &evidence)).next {
        Some(document) => document,
        None => panic!("nothing is written by {command:?}"),
    }
}

fn number(agent: &str) -> u8 {
    agent.bytes().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))
}

fn credential(document: &Document) -> Credential {
    let Some(leader) = &document.leader else { panic!("nobody leads `{}`", document.election) };
    Credential { incarnation: leader.incarnation, key: LeaseKey([number(leader.agent.as_str()); 16]) }
}

fn sure<T>(result: Result<T, impl Display>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
