//! Version files that were cut, changed, moved, or written elsewhere.

use std::fs;
use std::path::Path;

use baton_election::{Moment, Span};
use baton_store::{Access, AgeStamp, ItemKind, Key, Persistence, Record, Store, StoreError, boot};
use baton_store_file::FileStore;

use crate::support::{
    election, forge, found, key, led, newest, of_an_earlier_run, parse, put, read, tree, versions, writer,
};

/// A store with three versions, the folder that it is in, and a client that has seen them.
async fn three_versions() -> (tempfile::TempDir, FileStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = writer(folder.path());
    for number in 1..=3 {
        put(&store, &key(), &led(number)).await;
    }
    (folder, store)
}

/// Everybody is refused, whether it has seen the record before or not; nothing is changed; with the file put back all is well.
async fn refused_by_all(
    folder: &Path,
    experienced: &FileStore,
    damage: impl FnOnce(&Path),
    expected: impl Fn(&StoreError) -> bool,
) {
    let (record, version) = found(experienced, &key()).await;
    let path = newest(folder, &key());
    let intact = fs::read(&path).unwrap();
    damage(&path);
    let before = tree(folder);
    for store in [experienced, &writer(folder), &FileStore::open(folder, Access::Read).unwrap()] {
        let error = store.read(&key()).await.unwrap_err();
        assert!(expected(&error), "a read says: {error:?}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "it says where: {error}");
        assert!(!error.hint().is_empty());
        assert!(!error.is_passing(), "to try again does not help");
    }
    for store in [experienced, &writer(folder)] {
        let expect = baton_store::Expect::Version(version.clone());
        let error =
            store.swap(&key(), expect, &led(9), AgeStamp::Reset, Persistence::Durable).await.unwrap_err();
        assert!(expected(&error), "a swap says: {error:?}");
    }
    assert_eq!(tree(folder), before, "nothing was changed");
    fs::write(&path, intact).unwrap();
    assert_eq!(found(experienced, &key()).await, (record, version), "put back, it is the truth again");
}

fn corrupt(why: &'static str) -> impl Fn(&StoreError) -> bool {
    move |error| matches!(error, StoreError::Corrupt { why: said, .. } if said.contains(why))
}

#[tokio::test]
async fn a_truncated_version_is_refused() {
    let (folder, store) = three_versions().await;
    for keep in [0, 10, 200] {
        let cut = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(keep).unwrap();
        refused_by_all(folder.path(), &store, cut, corrupt("")).await;
    }
    let cut_a_bit = |path: &Path| {
        let length = fs::read_to_string(path).unwrap().trim_end().len();
        fs::File::options().write(true).open(path).unwrap().set_len(length as u64 - 1).unwrap();
    };
    refused_by_all(folder.path(), &store, cut_a_bit, corrupt("cut short or changed by hand")).await;
}

#[tokio::test]
async fn a_hand_edited_version_is_refused() {
    let (folder, store) = three_versions().await;
    let edit = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let edited = text.replace("agent-3", "agent-8");
        assert_ne!(edited, text);
        fs::write(path, edited).unwrap();
    };
    refused_by_all(folder.path(), &store, edit, corrupt("changed by hand")).await;
    let garbage = |path: &Path| fs::write(path, [0xFF, 0xFE, 0, 7]).unwrap();
    refused_by_all(folder.path(), &store, garbage, corrupt("not a version file")).await;
    let another_first_line = |path: &Path| fs::write(path, "{}\n{}\n").unwrap();
    refused_by_all(folder.path(), &store, another_first_line, corrupt("first line")).await;
}

#[tokio::test]
async fn a_version_of_a_newer_baton_is_refused_and_kept() {
    let (folder, store) = three_versions().await;
    let newer = |path: &Path| {
        forge(path, |_, body| {
            assert!(body.contains("\"format\": 1"), "{body}");
            *body = body.replace("\"format\": 1", "\"format\": 2, \"marvel\": true");
        });
    };
    let expected = |error: &StoreError| {
        matches!(error, StoreError::Newer { format: 2, .. }) && error.hint().contains("update")
    };
    refused_by_all(folder.path(), &store, newer, expected).await;
}

#[tokio::test]
async fn a_version_in_the_wrong_place_is_refused() {
    let (folder, store) = three_versions().await;
    let renumbered = |path: &Path| forge(path, |header, _| header.version = 2);
    refused_by_all(folder.path(), &store, renumbered, corrupt("it says that it is version 2")).await;
    let of_another = |path: &Path| {
        forge(path, |_, body| *body = body.replace("\"election\": \"e\"", "\"election\": \"f\""));
    };
    refused_by_all(folder.path(), &store, of_another, corrupt("something else than `e`")).await;
}

#[tokio::test]
async fn a_record_of_another_machine_or_clock_is_refused() {
    let (folder, store) = three_versions().await;
    let refused = |why: &'static str| move |error: &StoreError| matches!(error, StoreError::Refused { why: said, .. } if said.contains(why));
    let elsewhere = |path: &Path| forge(path, |header, _| header.machine = "another".to_string());
    refused_by_all(folder.path(), &store, elsewhere, refused("another machine")).await;
    let container = |path: &Path| forge(path, |header, _| header.time_namespace = "time:[42]".to_string());
    refused_by_all(folder.path(), &store, container, refused("another time namespace")).await;
}

#[tokio::test]
async fn a_reboot_frees_the_lease_until_the_clock_restarts() {
    let (folder, store) = three_versions().await;
    assert!(read(&store, &key()).await.age.unwrap() < Span::secs(60));
    let path = newest(folder.path(), &key());
    of_an_earlier_run(&path, |header, _| {
        header.beat_boot.clone_from(&header.boot);
        // A container's clock of a run that is over does not matter.
        header.time_namespace = "time:[42]".to_string();
    });
    for store in [&store, &writer(folder.path())] {
        assert_eq!(read(store, &key()).await.age, Some(Span::MAX));
    }
    let expect = read(&store, &key()).await.expect();
    let kept = store.swap(&key(), expect, &led(4), AgeStamp::Preserve, Persistence::Durable).await.unwrap();
    assert_eq!(read(&store, &key()).await.age, Some(Span::MAX), "an operator's note does not revive it");
    let expect = baton_store::Expect::Version(kept.version);
    let _ = store.swap(&key(), expect, &led(5), AgeStamp::Reset, Persistence::Durable).await.unwrap();
    assert!(read(&store, &key()).await.age.unwrap() < Span::secs(60));
}

/// What an agent has drawn from a quota does not come back because somebody restarts the machine.
#[tokio::test]
async fn a_reboot_does_not_end_the_window_of_a_quota() {
    let folder = tempfile::tempdir().unwrap();
    let store = writer(folder.path());
    let key = Key::Item(election(), ItemKind::Quota, "api".parse().unwrap());
    let quota = format!(
        r#"{{"format": 1, "election": "{}", "name": "api", "amount": 1, "window_ms": 1000, "shares": {{}}, "fence": 1, "by": "a", "windows": 1}}"#,
        election()
    );
    put(&store, &key, &Record::from_json(&key, &quota).unwrap()).await;
    of_an_earlier_run(&newest(folder.path(), &key), |header, _| header.beat_boot.clone_from(&header.boot));
    for store in [&store, &writer(folder.path())] {
        let age = read(store, &key).await.age.unwrap();
        assert!(age <= boot::now().since(Moment::from_nanos(0)), "older than the machine's run: {age}");
    }
}

/// After a reboot epochs may have been given that the power cut took along: whatever is written, until one begins in this run.
#[tokio::test]
async fn a_reboot_skips_what_may_have_been_given() {
    let (folder, store) = three_versions().await;
    assert_eq!(read(&store, &key()).await.trace, None, "nothing is lost while the machine runs");
    let forget = |header: &mut crate::support::Header, _: &mut String| {
        header.beat_boot.clone_from(&header.boot);
        header.epoch_boot.clone_from(&header.boot);
    };
    of_an_earlier_run(&newest(folder.path(), &key()), forget);
    let store = writer(folder.path());
    let skipped = read(&store, &key()).await.trace.unwrap().epoch;
    assert!(skipped.0 > 1, "{skipped}");
    // A release or a renewal does not raise the epoch.
    put(&store, &key(), &led(4)).await;
    assert_eq!(read(&store, &key()).await.trace.unwrap().epoch, skipped);
    let Record::Election(mut document) = led(5) else { panic!("the sample is an election") };
    document.epoch = skipped.next();
    if let Some(leader) = &mut document.leader {
        (leader.epoch, leader.granted) = (document.epoch, document.epoch);
    }
    put(&store, &key(), &Record::Election(document)).await;
    assert_eq!(read(&store, &key()).await.trace, None, "an epoch of this run is above all");
}

/// A version as a Baton wrote it that knew nothing of marks.
#[tokio::test]
async fn versions_of_an_older_baton_are_read() {
    let (folder, store) = three_versions().await;
    forge(&newest(folder.path(), &key()), |header, _| header.epoch_boot.clear());
    let text = fs::read_to_string(newest(folder.path(), &key())).unwrap();
    assert!(!text.contains("epoch_boot"), "{text}");
    fs::remove_dir_all(folder.path().join("@marks")).unwrap();
    let store_of_another = writer(folder.path());
    for store in [&store, &store_of_another] {
        let reading = read(store, &key()).await;
        assert_eq!(reading.record(), Some(&led(3)));
        assert_eq!(reading.trace, None, "there is no mark, for every epoch was synced");
    }
    put(&store_of_another, &key(), &led(4)).await;
}

#[tokio::test]
async fn names_that_no_baton_writes_are_left_alone() {
    let (folder, store) = three_versions().await;
    let place = versions(folder.path(), &key());
    for name in ["007", "+9", "9 ", "notes.txt", "18446744073709551615", "99999999999999999999999"] {
        fs::write(place.join(name), "mine").unwrap();
    }
    let fresh = writer(folder.path());
    assert_eq!(found(&fresh, &key()).await.0, led(3));
    put(&fresh, &key(), &led(4)).await;
    assert_eq!(found(&store, &key()).await.0, led(4));
    let (header, _) = parse(&fs::read_to_string(place.join("4")).unwrap()).unwrap();
    assert_eq!(header.version, 4);
    assert_eq!(fs::read_to_string(place.join("007")).unwrap(), "mine");
}

#[tokio::test]
async fn a_path_that_is_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("below"), file.join("far/below")] {
        let error = FileStore::open(&path, Access::Write).err().unwrap();
        assert!(matches!(&error, StoreError::Refused { why, .. } if why.contains("not a folder")), "{error}");
    }
    let store = writer(&folder.path().join("store"));
    fs::write(folder.path().join("store"), "mine").unwrap();
    let swapped =
        store.swap(&key(), baton_store::Expect::Absent, &led(1), AgeStamp::Reset, Persistence::Durable).await;
    let error = swapped.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(folder.path().join("store")).unwrap(), "mine");
}

#[tokio::test]
async fn a_writer_that_failed_before_its_first_version_leaves_no_election() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(versions(folder.path(), &key())).unwrap();
    fs::write(folder.path().join("e/.tmp-1-2-3"), "half").unwrap();
    let store = writer(folder.path());
    assert_eq!(store.list(&baton_store::Prefix::Elections).await.unwrap(), []);
    put(&store, &key(), &led(1)).await;
    assert_eq!(store.list(&baton_store::Prefix::Elections).await.unwrap(), [key()]);
    assert_eq!(election().as_str(), "e");
}
