//! Two machines with one machine-id on one folder, and one machine before and after a reboot.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use baton_election::Span;
use baton_store::boot::{self, Boot};
use baton_store::{Access, AgeStamp, Expect, Persistence, Store, StoreError};
use baton_store_file::{FileStore, Machine};

use crate::support::{found, key, led, newest, put, read, tree};

/// A client on a run of this machine that began at this time.
fn client(folder: &Path, run: &str, began: u64) -> FileStore {
    let here = Boot { boot: run.to_string(), ..Boot::current() };
    let machine = Machine { here, began: Some(began), ..Machine::current() };
    FileStore::open_on(machine, folder, Access::Write).unwrap()
}

fn now() -> u64 {
    boot::wall().as_unix_millis() / 1_000
}

fn other_machine(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused { why, hint, .. }
        if why.contains("after this run began") && hint.contains("machine-id") && hint.contains("touch -d @0"))
}

/// Both run for an hour. The second one takes no lease of the first for one from before a reboot.
#[tokio::test]
async fn a_lease_of_another_machine_with_the_same_id_is_not_taken() {
    let place = tempfile::tempdir().unwrap();
    let first = client(place.path(), "host-1", now() - 3_600);
    put(&first, &key(), &led(1)).await;
    let second = client(place.path(), "host-2", now() - 3_600);
    let (record, version) = found(&first, &key()).await;
    for _ in 0..3 {
        let before = tree(place.path());
        let error = second.read(&key()).await.unwrap_err();
        assert!(other_machine(&error), "a read says: {error:?}");
        assert!(error.to_string().contains(newest(place.path(), &key()).to_str().unwrap()), "{error}");
        for expect in [Expect::Absent, Expect::Version(version.clone())] {
            let error = second
                .swap(&key(), expect, &led(2), AgeStamp::Reset, Persistence::Durable)
                .await
                .unwrap_err();
            assert!(other_machine(&error), "a swap says: {error:?}");
        }
        assert_eq!(tree(place.path()), before, "nothing was changed");
        assert!(read(&first, &key()).await.age.unwrap() < Span::secs(60), "the first goes on");
    }
    assert_eq!(found(&first, &key()).await.0, record);
}

/// The run begins after what the last one wrote.
#[tokio::test]
async fn a_reboot_is_still_a_reboot() {
    let place = tempfile::tempdir().unwrap();
    put(&client(place.path(), "run-1", now() - 3_600), &key(), &led(1)).await;
    // The clock was corrected by a little in between.
    let after = client(place.path(), "run-2", now() - 2);
    assert_eq!(read(&after, &key()).await.age, Some(Span::MAX));
    let expect = read(&after, &key()).await.expect();
    after.swap(&key(), expect, &led(2), AgeStamp::Preserve, Persistence::Durable).await.unwrap();
    drop(after);
    // A note of an operator keeps the old beat in a version of this run.
    let again = client(place.path(), "run-2", now() - 3_600);
    assert_eq!(read(&again, &key()).await.age, Some(Span::MAX), "its own version, however young");
}

/// The clock of the last run was far ahead: the hint of the refusal is the way out.
#[tokio::test]
async fn a_machine_whose_clock_was_wrong_is_not_locked_out_for_ever() {
    let place = tempfile::tempdir().unwrap();
    put(&client(place.path(), "run-1", now()), &key(), &led(1)).await;
    let path = newest(place.path(), &key());
    let touch = |to: u64| {
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(to)).unwrap();
    };
    touch(now() + 100_000_000);
    let after = client(place.path(), "run-2", now());
    let error = after.read(&key()).await.unwrap_err();
    assert!(other_machine(&error), "{error:?}");
    let hint = error.hint();
    let way_out = hint.split_once("say so: ").unwrap().1;
    let done = std::process::Command::new("sh").args(["-c", way_out]).output().unwrap();
    assert!(done.status.success(), "{way_out}: {}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(read(&after, &key()).await.age, Some(Span::MAX));
    // A clock that stood at 1970 when the machine began is put right by a step, which moves the beginning of the run along.
    touch(now());
    let early = client(place.path(), "run-3", 100);
    assert!(other_machine(&early.read(&key()).await.unwrap_err()));
    let stepped = client(place.path(), "run-3", now());
    assert_eq!(read(&stepped, &key()).await.age, Some(Span::MAX));
}
