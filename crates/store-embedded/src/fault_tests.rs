//! A disk that fails: when it syncs, when it is full, when the power goes.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_election::id::StoreId;
use baton_election::{Document, ElectionName, Epoch, Span};
use baton_store::{Access, AgeStamp, Expect, Key, Persistence, Reading, Record, Store, StoreError, boot};
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

use crate::EmbeddedStore;
use crate::open::Connect;

/// What is to go wrong.
#[derive(Debug, Default)]
struct Faults {
    sync: AtomicBool,
    full: AtomicBool,
    slow_sync_ms: AtomicU64,
    syncs: AtomicU64,
    power: Mutex<Option<Power>>,
}

/// What is on the disk, and what is only in the machine's memory.
#[derive(Debug)]
struct Power {
    synced: Vec<u8>,
    pending: Vec<(u64, Vec<u8>)>,
    writes_left: u64,
    dice: u64,
    answered: Arc<AtomicU64>,
    /// What the disk has after the power went, and what had been answered then.
    cut: Option<(Vec<u8>, u64)>,
}

impl Power {
    /// Any of the writes since the last sync may have reached the disk.
    fn go(&mut self) {
        let mut image = self.synced.clone();
        for (offset, data) in &self.pending {
            self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if self.dice >> 63 == 0 {
                let at = usize::try_from(*offset).unwrap();
                image.resize(image.len().max(at + data.len()), 0);
                image[at..at + data.len()].copy_from_slice(data);
            }
        }
        self.cut = Some((image, self.answered.load(Ordering::SeqCst)));
    }
}

#[derive(Debug)]
struct Faulty {
    file: FileBackend,
    faults: Arc<Faults>,
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.faults.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(power) = &mut *self.faults.power.lock().unwrap() {
            power.synced.resize(usize::try_from(len).unwrap(), 0);
        }
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(self.faults.slow_sync_ms.load(Ordering::SeqCst)));
        if self.faults.sync.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        if let Some(power) = &mut *self.faults.power.lock().unwrap() {
            for (offset, data) in std::mem::take(&mut power.pending) {
                let at = usize::try_from(offset).unwrap();
                power.synced[at..at + data.len()].copy_from_slice(&data);
            }
        }
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.faults.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(power) = &mut *self.faults.power.lock().unwrap() {
            // A disk writes sectors: any of them may have been written, and others not.
            let sectors = data.chunks(512).zip((offset..).step_by(512));
            power.pending.extend(sectors.map(|(sector, at)| (at, sector.to_vec())));
            power.writes_left = power.writes_left.saturating_sub(1);
            if power.writes_left == 0 && power.cut.is_none() {
                power.go();
            }
        }
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

struct FaultyFolder {
    _folder: tempfile::TempDir,
    path: PathBuf,
    faults: Arc<Faults>,
}

impl FaultyFolder {
    fn new() -> FaultyFolder {
        let folder = tempfile::tempdir().unwrap();
        FaultyFolder { path: folder.path().join("baton.redb"), _folder: folder, faults: Arc::default() }
    }

    fn store(&self) -> EmbeddedStore {
        let faults = Arc::clone(&self.faults);
        let connect: Connect = Arc::new(move |path: &Path| {
            let file = std::fs::File::options().read(true).write(true).open(path)?;
            if let Some(power) = &mut *faults.power.lock().unwrap() {
                power.synced = std::fs::read(path)?;
            }
            Ok(Arc::new(Faulty { file: FileBackend::new(file)?, faults: Arc::clone(&faults) }))
        });
        EmbeddedStore::open_by(&self.path, Access::Write, connect).unwrap()
    }
}

fn document(name: &str, beat: u64) -> (Key, Record) {
    let election = ElectionName::new(name).unwrap();
    let mut document = Document::new(election.clone(), StoreId([7; 8]), Epoch(1), &[]);
    document.beat = beat;
    (Key::Election(election), Record::Election(Box::new(document)))
}

fn beat(reading: &Reading) -> u64 {
    match reading.record() {
        Some(Record::Election(document)) => document.beat,
        other => panic!("not an election: {other:?}"),
    }
}

async fn write(store: &EmbeddedStore, name: &str, beat: u64, expect: Expect) -> Result<u64, StoreError> {
    let (key, record) = document(name, beat);
    let swapped = store.swap(&key, expect, &record, AgeStamp::Reset, Persistence::Durable).await?;
    Ok(swapped.version.as_str().parse().unwrap())
}

fn version(number: u64) -> Expect {
    Expect::Version(crate::reader::version(number))
}

/// Swaps fail with `Unknown`, then with `Unavailable` and the reason, until the disk is well and was looked at anew.
async fn fails_and_recovers(fault: impl Fn(&Faults, bool), reason: &str) {
    let place = FaultyFolder::new();
    let store = place.store();
    let first = write(&store, "e", 1, Expect::Absent).await.unwrap();
    fault(&place.faults, true);
    let (one, two) =
        tokio::join!(write(&store, "e", 2, version(first)), write(&store, "f", 1, Expect::Absent));
    for outcome in [one, two] {
        match outcome {
            Err(StoreError::Unknown { why, .. }) => assert!(why.contains(reason), "{why}"),
            // It came too late for the batch that failed.
            Err(StoreError::Unavailable { why, .. }) => assert!(why.contains(reason), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    let (key, _) = document("e", 1);
    for _ in 0..3 {
        let later = write(&store, "g", 1, Expect::Absent).await;
        assert!(
            matches!(&later, Err(StoreError::Unavailable { why, .. }) if why.contains(reason)),
            "{later:?}"
        );
        assert!(matches!(store.read(&key).await, Err(StoreError::Unavailable { .. })));
    }
    for access in [Access::Read, Access::Write] {
        let other = EmbeddedStore::open(&place.path, access);
        assert!(matches!(other, Err(StoreError::Refused { .. })), "nobody else comes in meanwhile");
    }
    boot::sleep(Span::millis(1_100)).await.unwrap();
    let before_the_look = boot::now();
    let still = write(&store, "g", 1, Expect::Absent).await;
    assert!(matches!(&still, Err(StoreError::Unavailable { why, .. }) if why.contains(reason)), "{still:?}");
    fault(&place.faults, false);
    let soon = write(&store, "g", 1, Expect::Absent).await;
    // On a machine that stood still meanwhile the next look was due.
    let is_soon = boot::now().since(before_the_look) < Span::secs(1);
    assert!(!is_soon || matches!(soon, Err(StoreError::Unavailable { .. })), "not without a look: {soon:?}");
    boot::sleep(Span::millis(1_100)).await.unwrap();
    let reading = store.read(&key).await.unwrap();
    assert!([1, 2].contains(&beat(&reading)), "what was answered is there");
    let next = write(&store, "e", 9, reading.expect()).await.unwrap();
    assert!(next > first + 1, "a version that was perhaps given is not given again");
    drop(store);
    assert_eq!(beat(&place.store().read(&key).await.unwrap()), 9);
}

#[tokio::test]
async fn a_sync_that_fails() {
    fails_and_recovers(|faults, on| faults.sync.store(on, Ordering::SeqCst), "error").await;
}

#[tokio::test]
async fn a_full_disk() {
    fails_and_recovers(|faults, on| faults.full.store(on, Ordering::SeqCst), "no storage space").await;
}

#[tokio::test]
async fn an_older_file_is_not_taken_for_the_one_that_failed() {
    let place = FaultyFolder::new();
    let store = place.store();
    let first = write(&store, "e", 1, Expect::Absent).await.unwrap();
    let older = std::fs::read(&place.path).unwrap();
    let second = write(&store, "e", 2, version(first)).await.unwrap();
    place.faults.sync.store(true, Ordering::SeqCst);
    assert!(matches!(write(&store, "e", 3, version(second)).await, Err(StoreError::Unknown { .. })));
    place.faults.sync.store(false, Ordering::SeqCst);
    std::fs::write(&place.path, older).unwrap();
    boot::sleep(Span::millis(1_100)).await.unwrap();
    let refused = write(&store, "f", 1, Expect::Absent).await;
    assert!(
        matches!(&refused, Err(StoreError::Unavailable { why, .. }) if why.contains("older")),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_swaps_share_a_sync_and_one_needs_one() {
    let place = FaultyFolder::new();
    let store = place.store();
    let mut last = write(&store, "e", 0, Expect::Absent).await.unwrap();
    let before = place.faults.syncs.load(Ordering::SeqCst);
    for turn in 1..=50 {
        last = write(&store, "e", turn, version(last)).await.unwrap();
    }
    assert_eq!(place.faults.syncs.load(Ordering::SeqCst) - before, 50, "one sync for one commit");
    assert!(matches!(write(&store, "e", 9, Expect::Absent).await, Err(StoreError::Conflict)));
    assert_eq!(place.faults.syncs.load(Ordering::SeqCst) - before, 50, "none for nothing");

    // Long enough for all of them to have asked meanwhile, on a busy machine too.
    place.faults.slow_sync_ms.store(250, Ordering::SeqCst);
    let before = place.faults.syncs.load(Ordering::SeqCst);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..64 {
        let store = store.clone();
        tasks.spawn(async move { write(&store, &format!("e{task}"), 1, Expect::Absent).await.unwrap() });
    }
    assert_eq!(tasks.join_all().await.len(), 64);
    let syncs = place.faults.syncs.load(Ordering::SeqCst) - before;
    assert!(syncs <= 8, "64 swaps at once took {syncs} syncs");
}

/// Whatever part of the writes since the last sync reached the disk, in whatever order: what was answered is there.
#[tokio::test]
async fn the_power_goes() {
    for seed in 1..=60_u64 {
        let place = FaultyFolder::new();
        let answered = Arc::new(AtomicU64::new(0));
        *place.faults.power.lock().unwrap() = Some(Power {
            synced: Vec::new(),
            pending: Vec::new(),
            // Some while the journal is written to, some while it goes into the database.
            writes_left: if seed % 2 == 0 { 5 + seed * 7 % 211 } else { 250 + seed * 11 % 301 },
            dice: seed,
            answered: Arc::clone(&answered),
            cut: None,
        });
        let store = place.store();
        let mut expect = Expect::Absent;
        let mut turn = 0;
        while place.faults.power.lock().unwrap().as_ref().unwrap().cut.is_none() {
            turn += 1;
            assert!(turn < 1_000, "seed {seed}: nothing is written");
            expect = version(write(&store, "e", turn, expect).await.unwrap());
            answered.store(turn, Ordering::SeqCst);
        }
        let cut = place.faults.power.lock().unwrap().take().unwrap().cut;
        drop(store);
        let (image, answered) = cut.unwrap();
        std::fs::write(&place.path, image).unwrap();
        let store = EmbeddedStore::open(&place.path, Access::Write).unwrap();
        let reading = store.read(&document("e", 0).0).await.unwrap();
        let found = if reading.found.is_some() { beat(&reading) } else { 0 };
        assert!(
            (answered..=answered + 1).contains(&found),
            "seed {seed}: {answered} answered, {found} found"
        );
    }
}
