//! The power goes after any step of a play, and takes along any of what was not synced.

use std::path::Path;
use std::sync::Arc;

use baton_election::{Document, Epoch};
use baton_store::boot::{self, Boot};
use baton_store::conformance::documents::{
    checkpointed, document, election, floor, led_above, put, put_as, released, renewed,
};
use baton_store::conformance::power::{Recorder, Unsynced, cut};
use baton_store::disk::{Disk, Step};
use baton_store::{Access, AgeStamp, Expect, Key, Persistence, Store, StoreError};
use baton_store_file::{FileStore, Machine};

use crate::support::{candidate, candidate_key, key, number_of, settle};

/// A client on a run of this machine, which began at a time of its own.
fn client(folder: &Path, run: &str, began: u64, disk: Disk) -> FileStore {
    let here = Boot { boot: run.to_string(), ..Boot::current() };
    FileStore::open_on(Machine { here, began: Some(began), disk }, folder, Access::Write).unwrap()
}

/// What was answered before some step, and must not be undone.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    steps: usize,
    /// The highest epoch that was given.
    epoch: Epoch,
    /// The epoch of the newest checkpoint.
    checkpoint: Epoch,
}

/// Somebody leads, and what it was answered is noted beside the steps that it took.
struct Play<'a> {
    store: &'a FileStore,
    recorder: &'a Recorder,
    answers: Vec<Answered>,
}

impl Play<'_> {
    async fn write(
        &mut self,
        persistence: Persistence,
        next: impl FnOnce(Option<&Document>, Epoch) -> Document,
    ) -> Result<(), StoreError> {
        let reading = self.store.read(&key()).await?;
        let next = next(election(&reading), floor(&reading));
        let persistence = if reading.record().is_none() { Persistence::Durable } else { persistence };
        put_as(self.store, &key(), reading.expect(), &next, persistence).await?;
        let steps = self.recorder.len();
        let last = self.answers.last().copied().unwrap_or_default();
        let checkpoint = next.checkpoint.as_ref().map_or(Epoch(0), |checkpoint| checkpoint.epoch);
        self.answers.push(Answered {
            steps,
            epoch: last.epoch.max(next.epoch),
            checkpoint: last.checkpoint.max(checkpoint),
        });
        settle(self.store);
        Ok(())
    }

    async fn take(&mut self, agent: &str) -> Result<(), StoreError> {
        self.write(Persistence::Synced, |before, floor| led_above("e", before, agent, floor, None)).await
    }

    async fn change(
        &mut self,
        persistence: Persistence,
        change: impl FnOnce(&Document) -> Document,
    ) -> Result<(), StoreError> {
        self.write(persistence, |before, _| change(before.unwrap())).await
    }
}

/// What a machine finds after the power came back is at least what was answered before it went.
async fn survives(root: &Path, folder: &Path, steps: &[Step], unsynced: Unsynced, answered: Answered) {
    let after = tempfile::tempdir().unwrap();
    cut(steps, unsynced, root, after.path()).unwrap();
    let folder = after.path().join(folder.strip_prefix(root).unwrap());
    let what = format!("after {} steps, the last {:?}, the rest {unsynced:?}", steps.len(), steps.last());
    let later = boot::wall().as_unix_millis() / 1_000 + 60;
    let store = client(&folder, "run-2", later, Disk::default());
    let reading = store.read(&key()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = election(&reading);
    let checkpoint = found.and_then(|found| found.checkpoint.as_ref()).map_or(Epoch(0), |left| left.epoch);
    assert!(
        checkpoint >= answered.checkpoint,
        "{what}: the checkpoint of epoch {} is lost",
        answered.checkpoint
    );
    assert!(
        floor(&reading).max(found.map_or(Epoch(0), |found| found.epoch)) >= answered.epoch,
        "{what}: an epoch is forgotten"
    );
    // To write costs syncs of its own: once for every step is enough.
    if unsynced != Unsynced::Lost {
        return;
    }
    // What died before it had a version may have claimed the epoch: then the next one is given.
    for _ in 0..3 {
        let reading = store.read(&key()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let next = led_above("e", election(&reading), "next", floor(&reading), None);
        assert!(
            next.epoch > answered.epoch,
            "{what}: epoch {} after {} was given",
            next.epoch,
            answered.epoch
        );
        match put(&store, &key(), reading.expect(), &next).await {
            Ok(_) => return assert_eq!(document(&store, &key()).await.0, next),
            Err(StoreError::Conflict) => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
    panic!("{what}: nobody can lead");
}

/// All lost, all kept, and some of each.
fn ways(step: usize) -> impl Iterator<Item = Unsynced> {
    let count = if std::env::var_os("BATON_CAMPAIGN").is_some() { 100 } else { 2 };
    let seeds = (0..count)
        .map(move |n| Unsynced::Some((step as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ n << 40));
    [Unsynced::Lost, Unsynced::Kept].into_iter().chain(seeds)
}

#[tokio::test]
async fn nothing_that_was_answered_is_undone_by_a_power_cut() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("deep/store");
    let recorder = Arc::new(Recorder::default());
    let store = client(&folder, "run-1", 0, Disk::watched(recorder.clone()));
    let mut play = Play { store: &store, recorder: &recorder, answers: Vec::new() };
    // More grants than one mark covers.
    for round in 0..20_u64 {
        play.take(if round.is_multiple_of(2) { "alice" } else { "bob" }).await.unwrap();
        if round.is_multiple_of(6) {
            play.change(Persistence::Volatile, renewed).await.unwrap();
            play.change(Persistence::Durable, checkpointed).await.unwrap();
            play.change(Persistence::Synced, |document| released(document, None)).await.unwrap();
        }
    }
    let answers = play.answers;
    assert!(answers.last().is_some_and(|last| last.epoch >= Epoch(20) && last.checkpoint > Epoch(1)));
    let steps = recorder.steps();
    let mut cuts = 0;
    for at in 0..=steps.len() {
        let answered = answers.iter().rev().find(|answer| answer.steps <= at).copied().unwrap_or_default();
        for unsynced in ways(at) {
            survives(place.path(), &folder, &steps[..at], unsynced, answered).await;
            cuts += 1;
        }
    }
    assert!(cuts > 500, "{cuts} cuts");
}

/// A process dies at any step of its first write; another goes on where it stopped; then the power goes.
#[tokio::test]
async fn what_a_dead_process_began_does_not_take_along_what_another_was_answered() {
    for dies_at in 0.. {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("store");
        let recorder = Arc::new(Recorder::default());
        let machine = || client(&folder, "run-1", 0, Disk::watched(recorder.clone()));
        recorder.die_at(Some(dies_at));
        let store = machine();
        let mut play = Play { store: &store, recorder: &recorder, answers: Vec::new() };
        let died = play.take("alice").await.is_err();
        drop(store);
        recorder.die_at(None);
        let store = machine();
        let mut play = Play { store: &store, recorder: &recorder, answers: Vec::new() };
        // The dead one may have claimed the first epoch.
        while let Err(error) = play.take("bob").await {
            assert!(matches!(error, StoreError::Conflict), "{error}");
        }
        play.change(Persistence::Durable, checkpointed).await.unwrap();
        let answered = *play.answers.last().unwrap();
        survives(place.path(), &folder, &recorder.steps()[..answered.steps], Unsynced::Lost, answered).await;
        if !died {
            assert!(dies_at > 10, "a first write has folders, files and syncs: {dies_at}");
            return;
        }
    }
}

/// A candidate's record need not survive, but is never torn.
#[tokio::test]
async fn a_record_that_need_not_survive_is_whole_or_absent() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("store");
    let recorder = Arc::new(Recorder::default());
    let store = client(&folder, "run-1", 0, Disk::watched(recorder.clone()));
    let key: Key = candidate_key();
    let mut expect = Expect::Absent;
    for number in 1..=5 {
        let persistence = if number == 1 { Persistence::Durable } else { Persistence::Synced };
        let swapped =
            store.swap(&key, expect, &candidate(number), AgeStamp::Reset, persistence).await.unwrap();
        expect = Expect::Version(swapped.version);
        settle(&store);
    }
    let steps = recorder.steps();
    for at in 0..=steps.len() {
        for unsynced in ways(at) {
            let after = tempfile::tempdir().unwrap();
            cut(&steps[..at], unsynced, &folder, after.path()).unwrap();
            let later = boot::wall().as_unix_millis() / 1_000 + 60;
            let found = client(after.path(), "run-2", later, Disk::default()).read(&key).await;
            let found = found.unwrap_or_else(|error| panic!("after {at} steps, {unsynced:?}: {error}"));
            assert!(found.record().is_none_or(|record| (1..=5).contains(&number_of(record))));
        }
    }
}

/// To sync a folder is most of what a change costs, and a renewal has no need of it.
#[tokio::test]
async fn only_a_durable_change_waits_for_the_folder_of_the_versions() {
    let place = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::default());
    let store = client(place.path(), "run-1", 0, Disk::watched(recorder.clone()));
    let first = led_above("e", None, "alice", Epoch(0), None);
    put(&store, &key(), Expect::Absent, &first).await.unwrap();
    settle(&store);
    let folder = place.path().join("e/versions");
    for (persistence, synced) in
        [(Persistence::Volatile, 0), (Persistence::Synced, 0), (Persistence::Durable, 1)]
    {
        let before = recorder.len();
        let (standing, version) = document(&store, &key()).await;
        let next = renewed(&standing);
        put_as(&store, &key(), Expect::Version(version), &next, persistence).await.unwrap();
        settle(&store);
        let steps = recorder.steps();
        let count = steps[before..].iter().filter(|step| **step == Step::SyncFolder(folder.clone())).count();
        assert_eq!(count, synced, "{persistence:?}: {:?}", &steps[before..]);
    }
}
