//! What earlier releases left in stores: the fixtures of each format, which every later Baton reads.
//!
//! The program of the time wrote them, not a test. They are in the tests of the stores that are files:
//! `crates/store-file/tests/format-N`, `crates/store-git/tests/format-N.bundle`, `crates/store-embedded/tests/format-N.hex`.
//! A release that writes a new format adds its own, and changes none.

use std::collections::BTreeSet;

use baton_election::audit::Book;
use baton_election::{AgentName, ElectionName, Epoch, ItemName, ResourceName};
use baton_toolbox::Kind;

use crate::key::Key;
use crate::record::Record;
use crate::store::{HistoryKept, Store};

/// The formats that there are.
pub const FORMATS: std::ops::RangeInclusive<u32> = 1..=baton_election::document::FORMAT;

/// The kinds of records.
const KINDS: [&str; 13] = [
    "audit",
    "breaker",
    "candidate",
    "election",
    "fence",
    "fence-log",
    "history",
    "proposal",
    "quota",
    "store",
    "task",
    "tokens",
    "value",
];

/// Reads a record of every kind but those that this store, or the program that wrote the fixture, keeps elsewhere.
pub async fn read_every_kind(store: &dyn Store, elsewhere: &[&str]) {
    let mut found = BTreeSet::new();
    for key in keys() {
        let reading = match store.read(&key).await {
            Ok(reading) => reading,
            Err(error) => panic!("`{key}` of an earlier release cannot be read: {error}"),
        };
        if let Some(record) = reading.record() {
            check(record);
            found.insert(kind(record));
        }
    }
    let election = name(ElectionName::new("e"));
    if store.properties().history == HistoryKept::Native {
        let kept = store.native_history(&election, 10).await;
        assert!(kept.is_ok_and(|kept| kept.len() > 1), "the history is read");
        found.insert("history");
    }
    let missing: Vec<&str> = KINDS.into_iter().filter(|kind| !found.contains(kind)).collect();
    assert_eq!(missing, elsewhere, "the fixture has a record of every kind");
}

/// The keys of the records. The breaker's name is made of its agent's and its capability's.
fn keys() -> Vec<Key> {
    let election = || name(ElectionName::new("e"));
    let resource = || name(ResourceName::new("db/orders"));
    let item = |kind, text: &str| Key::Item(election(), kind, name(ItemName::new(text)));
    vec![
        Key::Store,
        Key::Tokens,
        Key::Election(election()),
        Key::Candidate(election(), name(AgentName::new("agent-b"))),
        Key::History(election()),
        Key::Fence(resource()),
        Key::FenceLog(resource(), 0),
        Key::Audit(Book::Election(election()), 0),
        item(Kind::Task, "t1"),
        item(Kind::Proposal, "p1"),
        item(Kind::Quota, "api"),
        item(Kind::Value, "plan"),
        item(Kind::Breaker, "b-33ff8b284d51d1d28a4d6c0e"),
    ]
}

/// The name of a record's kind. A new kind gets a key above, and a record in the fixtures of the format that has it.
fn kind(record: &Record) -> &'static str {
    match record {
        Record::Store(_) => "store",
        Record::Tokens(_) => "tokens",
        Record::Election(_) => "election",
        Record::Candidate(_) => "candidate",
        Record::History(_) => "history",
        Record::Fence(_) => "fence",
        Record::FenceLog(_) => "fence-log",
        Record::Audit(_) => "audit",
        Record::Item(item) => match item.kind() {
            Kind::Task => "task",
            Kind::Proposal => "proposal",
            Kind::Quota => "quota",
            Kind::Value => "value",
            Kind::Breaker => "breaker",
        },
    }
}

/// That it says what it said.
fn check(record: &Record) {
    match record {
        Record::Election(document) => {
            assert_eq!(document.epoch, Epoch(3), "two leaders and a pause");
            assert_eq!(document.task.as_deref(), Some("refactor authentication"));
            assert_eq!(document.checkpoint.as_ref().map(|left| &*left.summary), Some("half done"));
            assert_eq!(document.acts, 4, "a policy, a note, a pause, and its end");
        }
        Record::Store(info) => assert_eq!(info.operator_keys.len(), 1),
        Record::Tokens(tokens) => assert_eq!(tokens.tokens.len(), 1),
        Record::Candidate(candidate) => assert_eq!(candidate.priority, 2),
        Record::Fence(fence) => assert_eq!(fence.highest, Epoch(1)),
        Record::History(log) => assert!(!log.entries.is_empty()),
        Record::FenceLog(log) => assert!(!log.entries.is_empty()),
        Record::Audit(log) => assert!(!log.entries.is_empty()),
        Record::Item(item) => assert_eq!(item.place().0.as_str(), "e"),
    }
}

fn name<T, E: std::fmt::Display>(name: Result<T, E>) -> T {
    name.unwrap_or_else(|error| panic!("{error}"))
}
