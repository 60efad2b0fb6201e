//! Documents to write, and ways to write them.

use baton_election::command::{Acquire, Release, Renew};
use baton_election::id::{Credential, Incarnation, LeaseKey, StoreId};
use baton_election::{AgentName, Command, Document, ElectionName, Epoch, Evidence, Span, WallTime, decide};
use baton_store::{Clock, Expect, Key, Record, Store, StoreError, Version};

pub fn key(name: &str) -> Key {
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
pub fn led(name: &str, before: Option<&Document>, agent: &str) -> Document {
    led_for(name, before, agent, Span::secs(30))
}

/// The same with a lease of this length.
pub fn led_for(name: &str, before: Option<&Document>, agent: &str, ttl: Span) -> Document {
    led_above(name, before, agent, ttl, Epoch(0))
}

/// The same where epochs up to `floor` were given before.
pub fn led_above(name: &str, before: Option<&Document>, agent: &str, ttl: Span, floor: Epoch) -> Document {
    let past = before.map_or(floor.0, |document| document.epoch.0);
    let mut life = past.to_le_bytes();
    life[7] = number(agent);
    // Never the same twice for one agent: an incarnation leads once.
    let incarnation = Incarnation(life);
    let acquire = Acquire {
        ttl: Some(ttl),
        task: Some("refactor authentication".to_string()),
        ..Acquire::new(AgentName::new(agent).unwrap(), incarnation, LeaseKey([number(agent); 16]).hash())
    };
    with_evidence(name, Span::secs(36_000), floor, |evidence| {
        decide(before, &Command::Acquire(acquire), evidence).unwrap().next.unwrap()
    })
}

fn credential(document: &Document) -> Credential {
    let leader = document.leader.as_ref().unwrap();
    Credential { incarnation: leader.incarnation, key: LeaseKey([number(leader.agent.as_str()); 16]) }
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
    with_evidence(document.election.as_str(), Span::ZERO, Epoch(0), |evidence| {
        decide(Some(document), &Command::Renew(renew), evidence).unwrap().next.unwrap()
    })
}

/// What is there after the leader released.
pub fn released(document: &Document) -> Document {
    let release =
        Release { epoch: document.epoch, credential: credential(document), reason: None, orphaned: false };
    with_evidence(document.election.as_str(), Span::ZERO, Epoch(0), |evidence| {
        decide(Some(document), &Command::Release(release), evidence).unwrap().next.unwrap()
    })
}

/// The document of an election, if it is there.
pub async fn document(store: &dyn Store, key: &Key) -> Option<(Document, Version)> {
    match store.read(key).await.unwrap().found? {
        (Record::Election(document), version) => Some((*document, version)),
        (other, _) => panic!("{other:?}"),
    }
}

pub async fn put(
    store: &dyn Store,
    key: &Key,
    expect: Expect,
    next: &Document,
) -> Result<Version, StoreError> {
    let record = Record::Election(Box::new(next.clone()));
    store.swap(key, expect, &record, Clock::Restart).await.map(|swapped| swapped.version)
}

/// Lets `agent` take the election in the store, whoever leads.
pub async fn take(store: &dyn Store, key: &Key, agent: &str) -> (Document, Version) {
    take_for(store, key, agent, Span::secs(30)).await
}

/// The same with a lease of this length.
pub async fn take_for(store: &dyn Store, key: &Key, agent: &str, ttl: Span) -> (Document, Version) {
    let found = document(store, key).await;
    let next = led_for(&key.to_string(), found.as_ref().map(|(before, _)| before), agent, ttl);
    let expect = Expect::of(found.as_ref().map(|(_, version)| version));
    let version = put(store, key, expect, &next).await.unwrap();
    (next, version)
}
