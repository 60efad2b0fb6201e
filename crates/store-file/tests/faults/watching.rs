//! Being told of changes whatever becomes of the folder.

use std::fs;
use std::path::Path;

use baton_store::conformance::documents::{floor, led_above, renewed};
use baton_store::{BoxStream, Change, Record, Store};
use baton_store_file::FileStore;
use futures_util::StreamExt;
use rustix::fs::inotify;

use crate::support::{
    HANG, child_without_rights, key, led, public_folder, put, read, role, settle, succeeds, writer,
};

/// Reads at every hint, and only then, until the record is there.
async fn hears_of(store: &FileStore, changes: &mut BoxStream<Change>, record: &Record) {
    let heard = async {
        while changes.next().await.is_some() {
            if read(store, &key()).await.record() == Some(record) {
                return;
            }
        }
        panic!("the watch ended");
    };
    assert!(tokio::time::timeout(HANG, heard).await.is_ok(), "nobody told of {record:?}");
}

#[tokio::test]
async fn a_watch_hears_of_a_folder_that_is_made_step_by_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/store");
    let store = writer(&path);
    let mut changes = store.watch(&key()).await.unwrap();
    for step in ["a", "a/unrelated", "a/b", "a/b/store", "a/b/store/f"] {
        fs::create_dir(folder.path().join(step)).unwrap();
        // A poll in between lets the watch move on.
        std::future::poll_fn(|context| {
            let _ = changes.poll_next_unpin(context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    put(&writer(&path), &key(), &led(1)).await;
    hears_of(&store, &mut changes, &led(1)).await;
    put(&writer(&path), &key(), &led(2)).await;
    hears_of(&store, &mut changes, &led(2)).await;
}

#[tokio::test]
async fn a_watch_survives_that_its_folder_is_deleted_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = writer(&path);
    put(&store, &key(), &led(0)).await;
    let mut changes = store.watch(&key()).await.unwrap();
    for round in 1..=20_u8 {
        settle(&store);
        fs::remove_dir_all(&path).unwrap();
        if round.is_multiple_of(2) {
            // Every other time the watch notices the loss before the folder is back.
            assert!(tokio::time::timeout(HANG, changes.next()).await.unwrap().is_some());
        }
        put(&writer(&path), &key(), &led(2 * round)).await;
        hears_of(&store, &mut changes, &led(2 * round)).await;
        put(&writer(&path), &key(), &led(2 * round + 1)).await;
        hears_of(&store, &mut changes, &led(2 * round + 1)).await;
    }
}

#[tokio::test]
async fn a_watch_survives_that_its_folder_is_moved_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = writer(&path);
    put(&store, &key(), &led(1)).await;
    let mut changes = store.watch(&key()).await.unwrap();
    fs::rename(path.join("e/versions"), folder.path().join("old")).unwrap();
    // Epochs go on above those of the folder that is gone.
    let gone = floor(&read(&store, &key()).await);
    let anew = led_above("e", None, "agent-2", gone, None);
    for next in [anew.clone(), renewed(&anew)] {
        let next = Record::Election(Box::new(next));
        put(&writer(&path), &key(), &next).await;
        hears_of(&store, &mut changes, &next).await;
    }
}

/// Many watches begin at the moment at which the folder is made: none may miss it.
#[tokio::test]
async fn a_watch_that_begins_while_the_folder_is_made_misses_nothing() {
    for _ in 0..50 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c/store");
        let maker = writer(&path);
        let making = tokio::spawn(async move { put(&maker, &key(), &led(1)).await });
        // From here on it is being made, in a thread of its own.
        tokio::task::yield_now().await;
        let store = writer(&path);
        let mut changes = store.watch(&key()).await.unwrap();
        if read(&store, &key()).await.found.is_none() {
            hears_of(&store, &mut changes, &led(1)).await;
        }
        making.await.unwrap();
        put(&writer(&path), &key(), &led(2)).await;
        hears_of(&store, &mut changes, &led(2)).await;
    }
}

/// In a process of another user: the kernel counts notifiers per user, and other tests need theirs.
#[tokio::test]
async fn without_notifiers_a_watch_looks_again_and_again() {
    const NAME: &str = "faults::watching::without_notifiers_a_watch_looks_again_and_again";
    let Some(path) = role() else {
        let folder = public_folder();
        let place = folder.path().join("store");
        return succeeds(child_without_rights(folder.path(), NAME, place.to_str().unwrap()));
    };
    let store = writer(Path::new(&path));
    let mut hoard = Vec::new();
    let exhausted = loop {
        match inotify::init(inotify::CreateFlags::CLOEXEC) {
            Ok(notifier) => hoard.push(notifier),
            Err(error) => break error,
        }
    };
    assert_eq!(exhausted, rustix::io::Errno::MFILE, "after {}", hoard.len());
    let mut changes = store.watch(&key()).await.unwrap();
    put(&store, &key(), &led(1)).await;
    hears_of(&store, &mut changes, &led(1)).await;
    drop(hoard);
    put(&store, &key(), &led(2)).await;
    hears_of(&store, &mut changes, &led(2)).await;
}
