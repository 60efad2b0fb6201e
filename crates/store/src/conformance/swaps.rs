//! Compare-and-swap.

use std::sync::Arc;

use baton_election::audit::{Book, Entry};
use baton_election::document::{Cause, Checkpoint, Transition};
use baton_election::fence::{Accepted, Fence};
use baton_election::id::{Incarnation, KeyHash, StoreId};
use baton_election::log::Log;
use baton_election::operator::{Act, OperatorKey};
use baton_election::time::WallTime;
use baton_election::{
    AgentName, Candidate, Command, Document, ElectionName, Epoch, Evidence, ResourceName, Span,
    checkpoint_hash, decide,
};

use super::{Open, sample};
use crate::Persistence;
use crate::error::StoreError;
use crate::key::Key;
use crate::record::Record;
use crate::store::{AgeStamp, Expect, Reading, Store, Swapped};

async fn read(store: &dyn Store, key: &Key) -> Reading {
    match store.read(key).await {
        Ok(reading) => reading,
        Err(error) => panic!("conformance: a read of `{key}` failed: {error}"),
    }
}

async fn write(store: &dyn Store, key: &Key, expect: Expect, next: &Record) -> Swapped {
    match store.swap(key, expect, next, AgeStamp::Reset, Persistence::Durable).await {
        Ok(swapped) => swapped,
        Err(error) => panic!("conformance: a swap of `{key}` failed: {error}"),
    }
}

fn is_conflict(result: &Result<Swapped, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict))
}

pub(super) async fn absent_then_written(open: Open<'_>) {
    let (one, two) = (open().await, open().await);
    let election = sample::fresh("absent");
    let (key, record) = sample::record(&election, 1);
    let before = read(&*one, &key).await;
    assert!(before.found.is_none() && before.age.is_none());
    assert!(before.asked_at <= before.received_at);
    let swapped = write(&*one, &key, Expect::Absent, &record).await;
    for store in [&one, &two] {
        let after = read(&**store, &key).await;
        assert_eq!(
            after.found,
            Some((record.clone(), swapped.version.clone())),
            "what was written is read, by anybody"
        );
    }
}

pub(super) async fn stale_swap_changes_nothing(open: Open<'_>) {
    let store = open().await;
    let election = sample::fresh("stale");
    let (key, first) = sample::record(&election, 1);
    let (_, second) = sample::record(&election, 2);
    let (_, third) = sample::record(&election, 3);
    let missing = Expect::of(Some(&crate::store::Version::new("1:none")));
    assert!(
        store.swap(&key, missing, &first, AgeStamp::Reset, Persistence::Durable).await.is_err(),
        "there is no such version"
    );
    assert!(read(&*store, &key).await.found.is_none());
    let v1 = write(&*store, &key, Expect::Absent, &first).await.version;
    assert!(is_conflict(
        &store.swap(&key, Expect::Absent, &second, AgeStamp::Reset, Persistence::Durable).await
    ));
    let v2 = write(&*store, &key, Expect::Version(v1.clone()), &second).await.version;
    assert!(is_conflict(
        &store.swap(&key, Expect::Version(v1), &third, AgeStamp::Reset, Persistence::Durable).await
    ));
    assert!(is_conflict(
        &store.swap(&key, Expect::Absent, &third, AgeStamp::Reset, Persistence::Durable).await
    ));
    assert_eq!(read(&*store, &key).await.found, Some((second, v2)));
}

pub(super) async fn versions_never_come_back(open: Open<'_>) {
    let store = open().await;
    let election = sample::fresh("aba");
    let (key, a) = sample::record(&election, 1);
    let (_, b) = sample::record(&election, 2);
    let first = write(&*store, &key, Expect::Absent, &a).await.version;
    let mut seen = vec![first.clone()];
    for record in [&b, &a, &b, &a] {
        let Some(last) = seen.last().cloned() else { unreachable!("there is a first") };
        let version = write(&*store, &key, Expect::Version(last), record).await.version;
        assert!(!seen.contains(&version), "the same content again is another version");
        seen.push(version);
    }
    assert!(is_conflict(
        &store.swap(&key, Expect::Version(first), &b, AgeStamp::Reset, Persistence::Durable).await
    ));
}

pub(super) async fn one_of_many(open: Open<'_>) {
    let election = sample::fresh("race");
    let (key, _) = sample::record(&election, 0);
    let mut expect = Expect::Absent;
    for round in 0..3 {
        let mut racers = tokio::task::JoinSet::new();
        for number in 1..=8_u8 {
            let (store, key, expect) = (open().await, key.clone(), expect.clone());
            let (_, record) = sample::record(&election, number + 16 * round);
            racers.spawn(async move {
                loop {
                    match store
                        .swap(&key, expect.clone(), &record, AgeStamp::Reset, Persistence::Durable)
                        .await
                    {
                        Ok(swapped) => return Some((record, swapped.version)),
                        Err(StoreError::Conflict) => return None,
                        Err(StoreError::Unavailable { .. }) => {}
                        Err(error) => panic!("conformance: a racing swap failed: {error}"),
                    }
                }
            });
        }
        let winners: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "one and only one swap against one version is applied");
        assert_eq!(read(&*open().await, &key).await.found.as_ref(), winners.first());
        expect = Expect::of(winners.first().map(|(_, version)| version));
    }
}

pub(super) async fn no_lost_increment(open: Open<'_>) {
    const WRITERS: u64 = 4;
    const EACH: u64 = 4;
    let election = sample::fresh("count");
    let (key, record) = sample::record(&election, 1);
    let first = write(&*open().await, &key, Expect::Absent, &record).await;
    drop(first);
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (store, key) = (open().await, key.clone());
        writers.spawn(async move {
            for _ in 0..EACH {
                increment(&*store, &key).await;
            }
        });
    }
    let _: Vec<()> = writers.join_all().await;
    let Some(Record::Election(last)) = read(&*open().await, &key).await.found.map(|(record, _)| record)
    else {
        panic!("conformance: the record is gone");
    };
    assert_eq!(last.beat, 1 + WRITERS * EACH);
}

async fn increment(store: &dyn Store, key: &Key) {
    loop {
        let reading = read(store, key).await;
        let Some(Record::Election(mut document)) = reading.record().cloned() else {
            panic!("conformance: the record is gone");
        };
        document.beat += 1;
        match store
            .swap(key, reading.expect(), &Record::Election(document), AgeStamp::Reset, Persistence::Durable)
            .await
        {
            Ok(_) => return,
            Err(StoreError::Conflict | StoreError::Unavailable { .. }) => {}
            Err(error) => panic!("conformance: an increment failed: {error}"),
        }
    }
}

pub(super) async fn full_document(open: Open<'_>) {
    let store = open().await;
    let election = sample::fresh("full");
    let mut document = sample::led(&election, 1);
    let state = format!("\"{}\"", "x".repeat(baton_election::command::MAX_CHECKPOINT_BYTES - 2));
    let summary = "line one\nline two, \"quoted\", ünïcode ☂, \\ and \u{1b}[31m".to_string();
    let Some(by) = document.leader.as_ref().map(|leader| leader.agent.clone()) else {
        unreachable!("it is led")
    };
    document.checkpoint = Some(Arc::new(Checkpoint {
        epoch: document.epoch,
        seq: 1,
        by,
        at: WallTime::default(),
        hash: checkpoint_hash(&summary, &state, None, None),
        summary,
        state,
        reference: None,
        covers: None,
        acknowledged_by: None,
    }));
    let key = Key::Election(election);
    let record = Record::Election(Box::new(document));
    let _ = write(&*store, &key, Expect::Absent, &record).await;
    assert_eq!(read(&*open().await, &key).await.record(), Some(&record));
}

pub(super) async fn every_kind(open: Open<'_>) {
    let election = sample::fresh("kinds");
    for (key, record) in kinds(&election) {
        let store = open().await;
        let _ = write(&*store, &key, Expect::Absent, &record).await;
        assert_eq!(read(&*open().await, &key).await.record(), Some(&record), "{key}");
    }
}

/// An operator's act, as it is kept.
fn act(election: &ElectionName, at: WallTime) -> Entry {
    let (key, store) = (OperatorKey::from_seed([7; 32]), StoreId([3; 8]));
    let blank = Document::new(election.clone(), store, Epoch(0), &[key.public()]);
    let order = key.sign(&blank, Act::Pause { reason: "night".to_string() });
    let evidence = Evidence {
        election,
        store,
        age: Span::ZERO,
        wall: at,
        floor: Epoch(0),
        vanished_lease: Span::ZERO,
        operator_keys: &[key.public()],
    };
    let decided = decide(None, &Command::Operate(order), &evidence).ok().and_then(|decided| decided.next);
    let last = decided.and_then(|document| document.last_act).and_then(|last| last.entry.clone());
    let Some(entry) = last else { unreachable!("an operator may pause a new election") };
    entry
}

fn kinds(election: &ElectionName) -> Vec<(Key, Record)> {
    let (Ok(agent), Ok(resource)) = (AgentName::new("agent-1"), ResourceName::new(election.as_str())) else {
        unreachable!("they are plain names");
    };
    let at = WallTime::from_unix_millis(1_700_000_000_000);
    let candidate = Candidate {
        election: election.clone(),
        agent: agent.clone(),
        incarnation: Incarnation([1; 8]),
        key_hash: KeyHash([2; 32]),
        priority: -3,
        capabilities: ["rust".to_string()].into(),
        score: 4,
        load: 5,
        ttl: Span::secs(30),
        beat: 6,
        withdrawn: false,
        enlisted: at,
        through: None,
    };
    let transition = Transition {
        epoch: Epoch(1),
        cause: Cause::First,
        from: None,
        to: agent.clone(),
        reason: "first to ask".to_string(),
        at,
        phases: baton_election::document::PhaseTimes::default(),
    };
    let accepted = Accepted { seq: 1, token: Epoch(1), agent: Some(agent.clone()), note: String::new(), at };
    let fence = Fence {
        highest: Epoch(1),
        beat: 1,
        tail: vec![accepted.clone()],
        ..Fence::new(resource.clone(), StoreId([3; 8]), election.clone())
    };
    vec![
        (Key::Candidate(election.clone(), agent), Record::Candidate(Box::new(candidate))),
        (Key::History(election.clone()), Record::History(Log { entries: vec![transition] })),
        (Key::Fence(resource.clone()), Record::Fence(Box::new(fence))),
        (Key::FenceLog(resource, 3), Record::FenceLog(Log { entries: vec![accepted] })),
        (Key::Audit(Book::Store, 2), Record::Audit(Log::default())),
        (Key::Audit(Book::Tokens, 2), Record::Audit(Log::default())),
        (
            Key::Audit(Book::Election(election.clone()), 2),
            Record::Audit(Log { entries: vec![act(election, at)] }),
        ),
    ]
}
