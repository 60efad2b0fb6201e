//! Snapshots, and putting them back.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod support;

use std::path::Path;

use baton_election::id::StoreId;
use baton_election::{Epoch, Fence, ResourceName, Span, State, StoreInfo, WallTime};
use baton_store::{Access, Clock, Expect, Key, Record, Store, StoreError, boot};
use baton_store_embedded::{EmbeddedStore, Restore, Restored, Write, restore};
use support::{Place, asked, document, election, failed, led, put, read, record, taken_over};

const GAP: u64 = 1 << 32;

fn from(snapshot: &Path, to: &Path) -> Result<Restored, StoreError> {
    restore(&Restore { from: snapshot, to, above: Epoch(0), leases: None })
}

fn info(id: u8) -> Record {
    Record::Store(StoreInfo::new(StoreId([id; 8]), WallTime::default()))
}

/// A store with an election that is held in epoch 2, one that is vacant, a fence, and a snapshot of all that.
async fn snapshotted(place: &Place) -> EmbeddedStore {
    let store = place.store();
    let _ = store.swap(&Key::Store, Expect::Absent, &info(7), Clock::Restart).await.unwrap();
    let version = put(&store, &led("held", 1), Expect::Absent).await;
    let _ = put(&store, &taken_over(&led("held", 1), 2), Expect::Version(version)).await;
    let mut vacant = led("vacant", 1);
    (vacant.state, vacant.leader) = (State::Vacant, None);
    let _ = put(&store, &vacant, Expect::Absent).await;
    let resource = ResourceName::new("r").unwrap();
    let fence = Fence {
        highest: Epoch(2),
        beat: 1,
        ..Fence::new(resource.clone(), StoreId([7; 8]), election("held"))
    };
    let fence = Record::Fence(Box::new(fence));
    let _ = store.swap(&Key::Fence(resource), Expect::Absent, &fence, Clock::Restart).await.unwrap();
    store.snapshot(&place.file("snapshot")).unwrap();
    store
}

#[tokio::test]
async fn no_epoch_goes_back() {
    let place = Place::new();
    let store = snapshotted(&place).await;
    // What the snapshot does not know of.
    let reading = read(&store, "held").await;
    let later = taken_over(&taken_over(&document(&reading), 3), 4);
    let _ = put(&store, &later, reading.expect()).await;
    let _ = put(&store, &led("new", 9), Expect::Absent).await;
    let version = read(&store, "held").await.found.unwrap().1;
    drop(store);
    let before = std::fs::read(place.file("snapshot")).unwrap();
    let former = std::fs::read(place.file("baton.redb")).unwrap();

    let restored = from(&place.file("snapshot"), &place.file("baton.redb")).unwrap();
    assert_eq!((restored.floor, restored.elections), (Epoch(4 + GAP), 2));
    let kept = restored.kept.unwrap();
    assert!(std::fs::read(&kept).unwrap() == former, "what was there is kept as it was");
    assert!(std::fs::read(place.file("snapshot")).unwrap() == before, "the snapshot is left alone");

    let store = place.store();
    let held = read(&store, "held").await;
    let found = document(&held);
    assert_eq!((found.epoch, found.state), (restored.floor, State::Vacant));
    assert!(found.contradiction().is_none());
    assert!(held.found.unwrap().1.as_str().parse::<u64>().unwrap() > 0);
    let again = asked(Some(&found), "held", 9, Span::ZERO, Epoch(0));
    assert!(again.is_err(), "whoever led may still be at work: {again:?}");
    let granted = asked(Some(&found), "held", 9, restored.leases, Epoch(0)).unwrap();
    assert_eq!(granted.epoch, Epoch(restored.floor.0 + 1));
    let vacant = document(&read(&store, "vacant").await);
    assert!(
        asked(Some(&vacant), "vacant", 9, Span::ZERO, Epoch(0)).is_err(),
        "it may be held by somebody unknown"
    );
    assert!(asked(Some(&vacant), "vacant", 9, restored.leases, Epoch(0)).unwrap().epoch > restored.floor);
    let trace = read(&store, "new").await.trace.unwrap();
    assert_eq!(trace.epoch, restored.floor, "one that the snapshot did not know begins above, too");
    assert!(trace.lease > Span::ZERO && trace.lease <= restored.leases);
    assert_eq!(store.read(&Key::Store).await.unwrap().record(), Some(&info(7)), "it is the same store");
    let fence = store.read(&Key::Fence(ResourceName::new("r").unwrap())).await.unwrap();
    assert!(matches!(fence.record(), Some(Record::Fence(fence)) if fence.highest == restored.floor));
    assert_eq!(store.native_history(&election("held"), 9).await.unwrap().len(), 2);
    let next = put(&store, &led("another", 1), Expect::Absent).await;
    assert!(next.as_str().parse::<u64>().unwrap() > version.as_str().parse::<u64>().unwrap() + GAP / 2);
    drop(store);

    // And once more.
    let again = from(&place.file("snapshot"), &place.file("baton.redb")).unwrap();
    assert_eq!(again.floor, Epoch(restored.floor.0 + GAP));
    assert_ne!(again.kept.unwrap(), kept);
}

#[tokio::test]
async fn what_is_known_better_counts() {
    let place = Place::new();
    drop(snapshotted(&place).await);
    let (snapshot, to) = (place.file("snapshot"), place.file("elsewhere.redb"));
    let leases = Some(Span::secs(3_600));
    let asked = Restore { from: &snapshot, to: &to, above: Epoch(1_000), leases };
    let restored = restore(&asked).unwrap();
    assert_eq!((restored.floor, restored.kept), (Epoch(1_000 + GAP), None));
    assert_eq!(restored.leases, Span::secs(3_600));
    let store = EmbeddedStore::open(&to, Access::Write).unwrap();
    let found = document(&read(&store, "held").await);
    assert_eq!(found.outgoing.unwrap().ttl, Span::secs(3_600));
}

/// Above it no token is left: every grant would be refused, for ever.
#[tokio::test]
async fn a_token_that_cannot_have_been_given_is_refused_and_nothing_is_changed() {
    let place = Place::new();
    drop(snapshotted(&place).await);
    let (snapshot, to) = (place.file("snapshot"), place.file("elsewhere.redb"));
    for above in [u64::MAX, u64::MAX - 1, u64::MAX / 2 + 1] {
        let error = failed(restore(&Restore { from: &snapshot, to: &to, above: Epoch(above), leases: None }));
        assert!(error.to_string().contains(&format!("token {above} cannot have been given")), "{error}");
        assert!(error.hint().contains("--above"), "{}", error.hint());
        assert!(!to.exists());
    }
    let most = Restore { from: &snapshot, to: &to, above: Epoch(u64::MAX / 2), leases: None };
    assert_eq!(restore(&most).unwrap().floor, Epoch(u64::MAX / 2 + GAP));
}

#[tokio::test]
async fn a_damaged_store_is_no_obstacle_but_a_live_or_another_one_is() {
    let place = Place::new();
    let store = snapshotted(&place).await;
    let (snapshot, path) = (place.file("snapshot"), place.file("baton.redb"));
    let error = failed(from(&snapshot, &path));
    assert!(error.hint().contains("stop it"), "{error}");
    drop(store);

    let mut damaged = std::fs::read(&path).unwrap();
    let len = damaged.len();
    damaged.truncate(len / 3);
    std::fs::write(&path, &damaged).unwrap();
    let restored = from(&snapshot, &path).unwrap();
    assert_eq!(restored.floor, Epoch(2 + GAP));
    assert!(std::fs::read(restored.kept.unwrap()).unwrap() == damaged);

    let other = place.file("other.redb");
    let store = EmbeddedStore::open(&other, Access::Write).unwrap();
    let change = Write { key: Key::Store, expect: Expect::Absent, next: info(8), clock: Clock::Restart };
    let _ = store.commit(vec![change]).await.unwrap();
    drop(store);
    let error = failed(from(&snapshot, &other));
    assert!(error.to_string().contains("another store"), "{error}");
    std::fs::write(place.file("broken"), &damaged).unwrap();
    assert!(matches!(failed(from(&place.file("broken"), &path)), StoreError::Corrupt { .. }));
}

/// What stands before the damage to a journal is better than nothing: epochs that were given since the snapshot are known.
#[tokio::test]
async fn of_a_damaged_journal_the_part_before_the_damage_counts() {
    let place = Place::new();
    let store = snapshotted(&place).await;
    let high = (2..=6).fold(led("held-since", 1), |document, agent| taken_over(&document, agent));
    assert_eq!(high.epoch, Epoch(6));
    let _ = put(&store, &high, Expect::Absent).await;
    for number in 1..=2 {
        let _ = put(&store, &led(&format!("more-{number}"), 1), Expect::Absent).await;
    }
    // What a killed process leaves: the last frame but one is damaged.
    let mut killed = std::fs::read(place.file("baton.redb")).unwrap();
    drop(store);
    let frames = (4_096..support::DATABASE_AT).step_by(4_096).filter(|at| killed[*at..].starts_with(b"bjf1"));
    let frames: Vec<usize> = frames.collect();
    killed[frames[frames.len() - 2] + 60] ^= 1;
    let path = place.file("killed.redb");
    std::fs::write(&path, killed).unwrap();
    assert!(matches!(EmbeddedStore::open(&path, Access::Write), Err(StoreError::Corrupt { .. })));
    assert_eq!(from(&place.file("snapshot"), &path).unwrap().floor, Epoch(6 + GAP));
}

#[tokio::test]
async fn a_snapshot_is_for_restoring_only_and_overwrites_nothing() {
    let place = Place::new();
    let store = snapshotted(&place).await;
    let snapshot = place.file("snapshot");
    let error = failed(store.snapshot(&snapshot));
    assert!(error.to_string().contains("already"), "{error}");
    let error = failed(EmbeddedStore::open(&snapshot, Access::Write));
    assert!(error.hint().contains("baton restore"), "{error}");
    let look = EmbeddedStore::open(&snapshot, Access::Read).unwrap();
    assert_eq!(document(&read(&look, "held").await).epoch, Epoch(2), "it can be looked at");
    assert_eq!(record(&document(&read(&look, "held").await)), record(&document(&read(&store, "held").await)));
}

#[tokio::test]
async fn new_elections_wait_once_for_leases_that_nobody_knows_of() {
    const META: redb::TableDefinition<'static, &str, u64> = redb::TableDefinition::new("baton");
    let place = Place::new();
    drop(snapshotted(&place).await);
    {
        let (path, alone) = (place.file("baton.redb"), place.file("tables.redb"));
        let database = support::database(&path, &alone);
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("floor", 9).unwrap();
        transaction.open_table(META).unwrap().insert("lease_ms", 5_000).unwrap();
        transaction.commit().unwrap();
        drop(database);
        let front = std::fs::read(&path).unwrap()[..support::DATABASE_AT].to_vec();
        std::fs::write(&path, [front, std::fs::read(&alone).unwrap()].concat()).unwrap();
    }
    let store = place.store();
    let trace = read(&store, "new").await.trace.unwrap();
    assert!(trace.lease > Span::ZERO && trace.epoch == Epoch(9));
    assert!(read(&store, "held").await.trace.is_none(), "what is there tells for itself");
    boot::sleep(Span::millis(5_010)).await.unwrap();
    assert_eq!(store.trace().unwrap().lease, Span::ZERO);
    let _ = put(&store, &led("other", 1), Expect::Absent).await;
    drop(store);
    let trace = read(&place.store(), "new").await.trace.unwrap();
    assert_eq!((trace.epoch, trace.lease), (Epoch(9), Span::ZERO), "not again after every restart");
}
