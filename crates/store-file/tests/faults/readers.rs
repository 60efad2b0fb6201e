//! Readers write nothing; writers keep the view for people in order.

use std::fs;
use std::path::Path;

use baton_store::{Access, AgeStamp, Expect, Key, Persistence, Prefix, Store, StoreError};
use baton_store_file::FileStore;

use crate::support::{candidate, candidate_key, found, key, led, put, read, tree, writer};

/// Everything that a reader can ask.
async fn look_around(store: &FileStore) {
    for key in [key(), candidate_key(), Key::Store] {
        let _ = read(store, &key).await;
        let _ = store.watch(&key).await.unwrap();
    }
    for prefix in [Prefix::Elections, Prefix::Fences] {
        let _ = store.list(&prefix).await.unwrap();
    }
    assert_eq!(store.leftovers(), Vec::<std::path::PathBuf>::new());
    let error =
        store.swap(&key(), Expect::Absent, &led(1), AgeStamp::Reset, Persistence::Durable).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
}

fn reader(folder: &Path) -> FileStore {
    FileStore::open(folder, Access::Read).unwrap()
}

#[tokio::test]
async fn a_reader_makes_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/store");
    look_around(&reader(&path)).await;
    assert!(read(&reader(&path), &key()).await.found.is_none());
    let writer = writer(&path);
    let _ = read(&writer, &key()).await;
    assert_eq!(tree(folder.path()).len(), 0, "not even one that means to write later");
}

#[tokio::test]
async fn a_reader_writes_nothing_even_where_something_is_amiss() {
    let folder = tempfile::tempdir().unwrap();
    let store = writer(folder.path());
    put(&store, &key(), &led(1)).await;
    put(&store, &candidate_key(), &candidate(1)).await;
    let view = folder.path().join("e/coordinator.json");
    let before = tree(folder.path());
    look_around(&reader(folder.path())).await;
    assert_eq!(tree(folder.path()), before);
    fs::write(&view, "edited by hand").unwrap();
    let before = tree(folder.path());
    look_around(&reader(folder.path())).await;
    assert_eq!(found(&reader(folder.path()), &key()).await.0, led(1), "the versions are the truth");
    assert_eq!(tree(folder.path()), before);
    fs::remove_file(&view).unwrap();
    let before = tree(folder.path());
    look_around(&reader(folder.path())).await;
    assert_eq!(tree(folder.path()), before);
}

#[tokio::test]
async fn a_writer_repairs_the_view() {
    let folder = tempfile::tempdir().unwrap();
    let store = writer(folder.path());
    put(&store, &key(), &led(1)).await;
    let view = folder.path().join("e/coordinator.json");
    let right = led(1).to_json() + "\n";
    assert_eq!(fs::read_to_string(&view).unwrap(), right);
    fs::write(&view, "edited by hand").unwrap();
    let _ = read(&store, &key()).await;
    assert_eq!(fs::read_to_string(&view).unwrap(), right, "by a look");
    fs::remove_file(&view).unwrap();
    let _ = read(&writer(folder.path()), &key()).await;
    assert_eq!(fs::read_to_string(&view).unwrap(), right, "by anybody's look");
    fs::remove_file(&view).unwrap();
    put(&store, &key(), &led(2)).await;
    assert_eq!(fs::read_to_string(&view).unwrap(), led(2).to_json() + "\n", "by a write");
    fs::remove_file(&view).unwrap();
    fs::create_dir(&view).unwrap();
    put(&store, &key(), &led(3)).await;
    assert_eq!(found(&store, &key()).await.0, led(3), "a view that cannot be written is only a view");
}

#[tokio::test]
async fn the_view_begins_with_what_a_person_looks_for() {
    let folder = tempfile::tempdir().unwrap();
    put(&writer(folder.path()), &key(), &led(1)).await;
    let text = fs::read_to_string(folder.path().join("e/coordinator.json")).unwrap();
    let first: Vec<&str> = text.lines().take(6).map(str::trim_start).collect();
    assert_eq!(
        first,
        [
            "{",
            "\"coordinator\": \"agent-1\",",
            "\"epoch\": 1,",
            "\"acquired\": \"2023-11-14T22:13:20.000Z\",",
            "\"expires\": \"2023-11-14T22:13:50.000Z\",",
            "\"task\": \"refactor authentication\",",
        ]
    );
    assert!(text.ends_with("}\n"));
}
