//! etcd's own tool, etcds of our own to be killed and stopped, and documents to write.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

pub(crate) mod server;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use baton_election::command::Acquire;
use baton_election::id::{Credential, Incarnation, LeaseKey, StoreId};
use baton_election::{
    AgentName, Command as Ask, Document, ElectionName, Epoch, Evidence, Span, StoreInfo, WallTime, decide,
};
use baton_store::conformance::{Required, required};
use baton_store::{AgeStamp, Expect, Key, Persistence, Reading, Record, Store, StoreError, Swapped};
use baton_store_etcd::{EtcdElections, EtcdStore};

/// Where a server or a tool is; leaves the test if there is none.
macro_rules! need {
    ($variable:literal) => {
        match $crate::support::needed($variable) {
            Some(at) => at,
            None => return,
        }
    };
}
pub(crate) use need;

pub(crate) fn needed(variable: &str) -> Option<String> {
    match required(variable) {
        Required::At(at) => Some(at),
        Required::Missing => None,
    }
}

/// A prefix that no other test and no other run uses.
pub(crate) fn fresh() -> String {
    format!("test-{:016x}", getrandom::u64().unwrap())
}

pub(crate) async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    baton_store_etcd::open(&url.parse().unwrap()).await
}

/// A store whose requests end soon, and yet not before a busy disk has synced.
pub(crate) async fn hasty(url: &str) -> EtcdStore {
    EtcdStore::open(&url.parse().unwrap()).await.unwrap().limited_to(Duration::from_secs(6))
}

pub(crate) async fn elections(hosts: &str, prefix: &str) -> EtcdElections {
    let url = format!("etcd://{hosts}/{prefix}?election=etcd");
    EtcdElections::open(&url.parse().unwrap()).await.unwrap()
}

/// Runs etcd's own tool, and gives its answer. The arguments come after the hosts.
pub(crate) fn etcdctl(hosts: &str, arguments: &[&str]) -> String {
    let tool = std::env::var("BATON_TEST_ETCDCTL").unwrap();
    let patient = ["--dial-timeout=30s", "--command-timeout=60s", "--endpoints", hosts];
    let output = Command::new(tool).args(patient).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "etcdctl {arguments:?} failed: {stderr}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_string()
}

/// What etcd's own tool says of one key.
pub(crate) fn inspect(hosts: &str, key: &str) -> Option<serde_json::Value> {
    let text = etcdctl(hosts, &["get", key, "-w", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    answer["kvs"].get(0).cloned()
}

pub(crate) fn name(text: &str) -> ElectionName {
    ElectionName::new(text).unwrap()
}

pub(crate) fn agent(text: &str) -> AgentName {
    AgentName::new(text).unwrap()
}

pub(crate) fn key(text: &str) -> Key {
    Key::Election(name(text))
}

/// A credential that nobody else has.
pub(crate) fn credential() -> Credential {
    let (mut incarnation, mut key) = ([0; 8], [0; 16]);
    getrandom::fill(&mut incarnation).unwrap();
    getrandom::fill(&mut key).unwrap();
    Credential { incarnation: Incarnation(incarnation), key: LeaseKey(key) }
}

/// An election that this agent leads, granted above an epoch.
pub(crate) fn led(text: &str, by: &str, floor: Epoch) -> Document {
    let acquire = Acquire::new(agent(by), Incarnation([1; 8]), LeaseKey([2; 16]).hash());
    let evidence = Evidence {
        election: &name(text),
        store: StoreId([7; 8]),
        age: Span::ZERO,
        wall: WallTime::from_unix_millis(1_700_000_000_000),
        floor,
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    };
    decide(None, &Ask::Acquire(acquire), &evidence).unwrap().next.unwrap()
}

pub(crate) fn record(document: &Document) -> Record {
    Record::Election(Box::new(document.clone()))
}

/// The document that a reading found.
pub(crate) fn document(reading: &Reading) -> Document {
    match reading.record() {
        Some(Record::Election(document)) => (**document).clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn put(
    store: &dyn Store,
    key: &Key,
    expect: Expect,
    next: &Document,
) -> Result<Swapped, StoreError> {
    store.swap(key, expect, &record(next), AgeStamp::Reset, Persistence::Durable).await
}

/// Waits for a condition, for a minute at most.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < end, "{what}: it does not come about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a future gives, which must not hang.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: it hangs"),
    }
}

/// What a store knows of itself.
pub(crate) fn store_info() -> StoreInfo {
    StoreInfo::new(StoreId([7; 8]), WallTime::default())
}
