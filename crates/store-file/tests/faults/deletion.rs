//! Somebody deletes the election's folder while others write: at every step of a commit, and at any moment.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_election::{Document, Epoch, Incarnation, Span};
use baton_store::conformance::documents::led_above;
use baton_store::disk::{Disk, Step, Watcher};
use baton_store::{Access, AgeStamp, Persistence, Record, Store, StoreError};
use baton_store_file::{FileStore, Machine};

use crate::support::{child, key, newest, role, settle, versions, writer};

/// The lease of every grant here.
const TTL: Span = Span::secs(30);

/// What was given to whom, as a resource sees it that all of them use.
#[derive(Default)]
struct Grants(BTreeMap<Epoch, Incarnation>);

impl Grants {
    /// A token passes if it is the first of its epoch, or the same leader's again.
    #[track_caller]
    fn accept(&mut self, epoch: Epoch, by: Incarnation, what: &str) {
        let first = *self.0.entry(epoch).or_insert(by);
        assert_eq!(first, by, "{what}: epoch {epoch} was given to two");
    }

    fn highest(&self) -> Epoch {
        self.0.last_key_value().map_or(Epoch(0), |(epoch, _)| *epoch)
    }
}

/// A grant, and how long whoever was granted it knew to wait for an earlier lease.
#[derive(Clone, Copy, Debug)]
struct Granted {
    epoch: Epoch,
    incarnation: Incarnation,
    waited_for: Span,
}

/// One attempt to take the election from whoever leads it.
async fn take(store: &FileStore, agent: &str) -> Result<Granted, StoreError> {
    let reading = store.read(&key()).await?;
    let before = match reading.record() {
        Some(Record::Election(document)) => Some(&**document),
        _ => None,
    };
    let trace = reading.trace;
    let floor = trace.map_or(Epoch(0), |trace| trace.epoch);
    let document: Document = led_above("e", before, agent, floor, Some(TTL));
    let (epoch, incarnation) = (document.epoch, document.leader.as_ref().unwrap().incarnation);
    let next = Record::Election(Box::new(document));
    let persistence = if reading.record().is_none() { Persistence::Durable } else { Persistence::Synced };
    store.swap(&key(), reading.expect(), &next, AgeStamp::Reset, persistence).await?;
    Ok(Granted { epoch, incarnation, waited_for: trace.map_or(Span::ZERO, |trace| trace.lease) })
}

/// Tries again as a client does: what is not applied, or not known, is read anew.
async fn take_surely(store: &FileStore, agent: &str) -> Granted {
    for _ in 0..100 {
        match take(store, agent).await {
            Ok(granted) => return granted,
            Err(StoreError::Conflict | StoreError::Unknown { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("{agent} gets nowhere");
}

/// What is deleted.
#[derive(Clone, Copy, Debug)]
enum Deleted {
    /// The election's folder.
    Folder,
    /// The newest version, as by a deletion of the folder that has not come further.
    Newest,
}

/// Deletes at one step of a writer, and has another take the election there and then.
struct Meddler {
    folder: PathBuf,
    at: usize,
    deleted: Deleted,
    steps: AtomicUsize,
    done: Mutex<Option<(Step, Granted)>>,
}

impl Watcher for Meddler {
    fn before(&self, step: &Step) -> io::Result<()> {
        if self.steps.fetch_add(1, Ordering::SeqCst) != self.at {
            return Ok(());
        }
        match self.deleted {
            Deleted::Folder => drop(fs::remove_dir_all(self.folder.join("e"))),
            Deleted::Newest if versions(&self.folder, &key()).is_dir() => {
                let any = fs::read_dir(versions(&self.folder, &key())).unwrap().next().is_some();
                drop(any.then(|| fs::remove_file(newest(&self.folder, &key()))));
            }
            Deleted::Newest => {}
        }
        let folder = self.folder.clone();
        let other = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { take_surely(&writer(&folder), "other").await })
        });
        *self.done.lock().unwrap() = Some((step.clone(), other.join().unwrap()));
        Ok(())
    }

    fn after(&self, _: &Step) {}
}

/// Lets one writer take the election for the `nth` time, and deletes it before one of its steps. False once there is no such step.
async fn deleted_before_step(nth: usize, at: usize, deleted: Deleted) -> bool {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("store");
    let mut grants = Grants::default();
    for _ in 1..nth {
        let granted = take_surely(&writer(&folder), "earlier").await;
        grants.accept(granted.epoch, granted.incarnation, "earlier");
    }
    let meddler = std::sync::Arc::new(Meddler {
        folder: folder.clone(),
        at,
        deleted,
        steps: AtomicUsize::new(0),
        done: Mutex::default(),
    });
    let machine = Machine { disk: Disk::watched(meddler.clone()), ..Machine::current() };
    let watched = FileStore::open_on(machine, &folder, Access::Write).unwrap();
    let taken = take(&watched, "watched").await;
    drop(watched);
    let Some((step, other)) = meddler.done.lock().unwrap().take() else { return false };
    let what = format!("grant {nth}, {deleted:?} deleted before step {at}, {step:?}");
    grants.accept(other.epoch, other.incarnation, &what);
    match taken {
        Ok(granted) => {
            grants.accept(granted.epoch, granted.incarnation, &what);
            let knew = other.waited_for >= TTL || other.epoch < granted.epoch;
            let rolled_back = matches!(deleted, Deleted::Newest);
            assert!(knew || rolled_back, "{what}: both lead, and the later one knew of no lease to wait for");
        }
        Err(StoreError::Conflict | StoreError::Unknown { .. }) => {}
        Err(error) => panic!("{what}: {error:?}"),
    }
    let next = take_surely(&writer(&folder), "next").await;
    assert!(next.epoch > grants.highest(), "{what}: {} after {}", next.epoch, grants.highest());
    true
}

#[tokio::test]
async fn an_election_deleted_at_any_step_of_a_grant_gives_no_epoch_twice() {
    for deleted in [Deleted::Folder, Deleted::Newest] {
        for nth in 1..=3 {
            let mut steps = 0;
            while deleted_before_step(nth, steps, deleted).await {
                steps += 1;
            }
            assert!(steps >= 5, "a grant has a file, its bytes, a sync, a link and more: {steps}");
        }
    }
}

/// A writer that decided before another's whole leadership began and was deleted.
#[tokio::test]
async fn a_grant_decided_before_another_was_deleted_is_not_the_same_epoch() {
    let place = tempfile::tempdir().unwrap();
    let (late, quick) = (writer(place.path()), writer(place.path()));
    let reading = late.read(&key()).await.unwrap();
    let first = take_surely(&quick, "quick").await;
    settle(&quick);
    fs::remove_dir_all(place.path().join("e")).unwrap();
    let document = led_above("e", None, "late", Epoch(0), Some(TTL));
    assert_eq!(document.epoch, first.epoch, "decided on the same reading");
    let next = Record::Election(Box::new(document));
    let swapped = late.swap(&key(), reading.expect(), &next, AgeStamp::Reset, Persistence::Durable).await;
    assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    let second = take_surely(&late, "late").await;
    assert!(second.epoch > first.epoch);
    assert!(second.waited_for >= TTL, "it is told of the lease that may still run");
}

/// A writer that died between its claim and its version blocks nobody.
#[tokio::test]
async fn a_claim_without_a_version_is_passed_over() {
    let place = tempfile::tempdir().unwrap();
    let store = writer(place.path());
    let first = take_surely(&store, "first").await;
    let claim = place.path().join("@marks/e").join(first.epoch.next().to_string());
    fs::write(&claim, "").unwrap();
    for store in [&store, &writer(place.path())] {
        let next = take_surely(store, "next").await;
        assert!(next.epoch > first.epoch.next(), "{} was claimed by another", first.epoch.next());
    }
    let left = fs::read_dir(place.path().join("@marks/e")).unwrap().count();
    assert_eq!(left, 2, "the mark and the last claim");
}

const RACE: &str = "faults::deletion::processes_that_race_with_deletions_are_given_every_epoch_once";
const RACERS: usize = 3;

/// Takes the election again and again, and notes every grant.
async fn race(folder: &Path, name: &str) {
    let store = writer(&folder.join("store"));
    let mut notes = fs::File::create(folder.join(format!("notes-{name}"))).unwrap();
    loop {
        match take(&store, name).await {
            Ok(granted) => {
                let by = granted.incarnation;
                notes.write_all(format!("{} {by}\n", granted.epoch).as_bytes()).unwrap();
            }
            Err(StoreError::Conflict | StoreError::Unknown { .. } | StoreError::Unavailable { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

struct Racers(Vec<Child>);

impl Drop for Racers {
    fn drop(&mut self) {
        for racer in &mut self.0 {
            let _ = racer.kill();
            let _ = racer.wait();
        }
    }
}

/// A seeded source of numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[tokio::test]
async fn processes_that_race_with_deletions_are_given_every_epoch_once() {
    if let Some(role) = role() {
        let (name, folder) = role.split_once(' ').unwrap();
        return race(Path::new(folder), name).await;
    }
    let seed = std::env::var("BATON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| getrandom::u64().unwrap());
    let mut dice = Dice(seed);
    let place = tempfile::tempdir().unwrap();
    let start = |name: &String| {
        let mut racer = child(RACE, &format!("{name} {}", place.path().display()));
        let quiet = std::process::Stdio::null;
        racer.stdout(quiet()).stderr(std::process::Stdio::inherit()).spawn().unwrap()
    };
    let names: Vec<String> = (1..=RACERS).map(|number| format!("racer-{number}")).collect();
    let mut racers = Racers(names.iter().map(start).collect());
    let seconds = if std::env::var_os("BATON_CAMPAIGN").is_some() { 60 } else { 4 };
    let begun = Instant::now();
    let (mut deletions, mut most) = (0_u64, 0);
    let noted = || {
        let notes = names.iter().map(|name| fs::read_to_string(place.path().join(format!("notes-{name}"))));
        notes.map(|notes| notes.map_or(0, |notes| notes.lines().count())).sum::<usize>()
    };
    // For a while, and until enough has happened; the last bound is for a hang.
    while begun.elapsed() < Duration::from_secs(seconds)
        || ((deletions <= 10 || most <= 2 || noted() <= 100) && begun.elapsed() < Duration::from_secs(180))
    {
        // The pace of the deletions, not a wait for something.
        tokio::time::sleep(Duration::from_micros(dice.below(40_000))).await;
        let folder = place.path().join("store/e");
        most = most.max(fs::read_dir(folder.join("versions")).map_or(0, Iterator::count));
        // It may fail half-way, since others write there.
        deletions += u64::from(fs::remove_dir_all(&folder).is_ok());
        for racer in &mut racers.0 {
            assert_eq!(racer.try_wait().unwrap(), None, "BATON_SEED={seed}: a racer ended");
        }
    }
    drop(racers);
    let mut grants = Grants::default();
    for name in &names {
        let mut last = Epoch(0);
        for line in fs::read_to_string(place.path().join(format!("notes-{name}"))).unwrap().lines() {
            let Some((epoch, by)) = line.split_once(' ') else { continue };
            let (Ok(epoch), Ok(by)) = (epoch.parse().map(Epoch), by.parse()) else { continue };
            assert!(epoch > last, "BATON_SEED={seed}: {name} was given {epoch} after {last}");
            grants.accept(epoch, by, &format!("BATON_SEED={seed}"));
            last = epoch;
        }
    }
    assert!(deletions > 10 && most > 2, "BATON_SEED={seed}: {deletions} deletions of up to {most} versions");
    assert!(grants.0.len() > 100, "BATON_SEED={seed}: {} grants", grants.0.len());
}
