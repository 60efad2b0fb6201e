//! The owner wipes the folder while clients run.

use std::fs;

use baton_store::{Clock, Expect, Prefix, Store, StoreError};

use crate::support::{found, key, led, put, read, writer};

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
    let swapped = old.swap(&key(), Expect::Version(seen.clone()), &led(9), Clock::Restart).await;
    assert!(matches!(swapped, Err(StoreError::Conflict)), "{swapped:?}");
    assert!(!path.exists(), "a swap against what is gone makes nothing");

    // Another begins anew, and comes by the very numbers that the old client remembers.
    let new = writer(&path);
    for number in 11..=15 {
        put(&new, &key(), &led(number)).await;
        assert_eq!(found(&old, &key()).await, found(&new, &key()).await, "version {}", number - 10);
        let swapped = old.swap(&key(), Expect::Version(seen.clone()), &led(9), Clock::Restart).await;
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
    let swapped = old.swap(&key(), Expect::Version(seen), &led(9), Clock::Restart).await;
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
