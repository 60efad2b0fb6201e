//! The owner wipes the folder while clients run.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_store::disk::{Disk, Step, Watcher};
use baton_store::{Access, AgeStamp, Expect, Persistence, Prefix, Store, StoreError};
use baton_store_file::{FileStore, Machine};

use crate::support::{
    HANG, candidate_key, found, key, led, number_of, numbers, put, read, versions, write_many, writer,
};

#[tokio::test]
async fn what_was_seen_before_a_wipe_is_not_taken_for_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let old = writer(&path);
    for number in 1..=3 {
        put(&old, &key(), &led(number)).await;
    }
    let (_, seen) = found(&old, &key()).await;
    fs::remove_dir_all(&path).unwrap();
    assert!(read(&old, &key()).await.found.is_none());
    assert_eq!(old.list(&Prefix::Elections).await.unwrap(), []);
    let swapped =
        old.swap(&key(), Expect::Version(seen.clone()), &led(9), AgeStamp::Reset, Persistence::Durable).await;
    assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    assert!(!path.exists(), "a swap against what is gone makes nothing");

    // Another begins anew, and comes by the very numbers that the old client remembers.
    let new = writer(&path);
    for number in 11..=15 {
        put(&new, &key(), &led(number)).await;
        assert_eq!(found(&old, &key()).await, found(&new, &key()).await, "version {}", number - 10);
        let swapped = old
            .swap(&key(), Expect::Version(seen.clone()), &led(9), AgeStamp::Reset, Persistence::Durable)
            .await;
        assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    }
    assert_eq!(found(&writer(&path), &key()).await.0, led(15));
}

#[tokio::test]
async fn a_client_that_did_not_look_meanwhile_is_not_fooled_by_equal_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let old = writer(&path);
    for number in 1..=3 {
        put(&old, &key(), &led(number)).await;
    }
    let (_, seen) = found(&old, &key()).await;
    fs::remove_dir_all(&path).unwrap();
    let new = writer(&path);
    for number in 11..=13 {
        put(&new, &key(), &led(number)).await;
    }
    let swapped =
        old.swap(&key(), Expect::Version(seen), &led(9), AgeStamp::Reset, Persistence::Durable).await;
    assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    assert_eq!(found(&new, &key()).await.0, led(13), "nothing was put on top");
    assert_eq!(found(&old, &key()).await.0, led(13));
}

#[tokio::test]
async fn whoever_writes_next_makes_the_folder_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = writer(&path);
    put(&store, &key(), &led(1)).await;
    fs::remove_dir_all(&path).unwrap();
    put(&store, &key(), &led(2)).await;
    assert_eq!(found(&writer(&path), &key()).await.0, led(2));
    assert_eq!(store.list(&Prefix::Elections).await.unwrap(), [key()]);
}

/// Wipes the folder, and begins a new chain there, when somebody is about to prune the old one.
struct Wiper {
    folder: PathBuf,
    begun: AtomicBool,
    done: AtomicBool,
}

impl Watcher for Wiper {
    fn before(&self, step: &Step) -> io::Result<()> {
        let pruned = versions(&self.folder, &candidate_key()).join("1");
        if *step == Step::Remove(pruned) && !self.begun.swap(true, Ordering::SeqCst) {
            fs::remove_dir_all(versions(&self.folder, &candidate_key())).unwrap();
            let folder = self.folder.clone();
            let anew = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(write_many(&writer(&folder), 5)).0
            });
            assert_eq!(anew.join().unwrap(), 5);
            self.done.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    fn after(&self, _: &Step) {}
}

/// A pruner that was stopped across a wipe removes nothing of the folder that was made anew.
#[tokio::test]
async fn a_late_pruner_leaves_a_folder_that_was_made_anew_alone() {
    let place = tempfile::tempdir().unwrap();
    let _ = write_many(&writer(place.path()), 1_000).await;
    let wiper = Arc::new(Wiper {
        folder: place.path().to_path_buf(),
        begun: AtomicBool::new(false),
        done: AtomicBool::new(false),
    });
    let machine = Machine { disk: Disk::watched(wiper.clone()), ..Machine::current() };
    let pruner = FileStore::open_on(machine, place.path(), Access::Write).unwrap();
    let _ = write_many(&pruner, 1).await;
    // The pruning goes on after the answer.
    let began = std::time::Instant::now();
    while !wiper.done.load(Ordering::SeqCst) {
        assert!(began.elapsed() < HANG, "nothing was pruned");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    drop(pruner);
    assert_eq!(numbers(place.path(), &candidate_key()), [1, 2, 3, 4, 5]);
    assert_eq!(number_of(&found(&writer(place.path()), &candidate_key()).await.0), 5);
}
