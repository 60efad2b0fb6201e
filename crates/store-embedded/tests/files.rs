//! The file: who may open it, and what is done with one that is damaged.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use baton_election::Span;
use baton_store::{Access, AgeStamp, Expect, Persistence, Prefix, Record, Store, StoreError, boot};
use baton_store_embedded::EmbeddedStore;
use redb::TableDefinition;

use crate::support::{DATABASE_AT, TestStore, document, failed, key, led, put, read, record, taken_over};

fn open(path: &Path, access: Access) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(path, access)
}

#[tokio::test]
async fn a_second_opener_is_refused_at_once() {
    let place = TestStore::new();
    let path = place.file("baton.redb");
    let store = place.store();
    for access in [Access::Write, Access::Read] {
        let error = failed(open(&path, access));
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
        let said = format!("{error}; {}", error.hint());
        for part in [path.to_str().unwrap(), "http://HOST:PORT", "stop it"] {
            assert!(said.contains(part), "{said}");
        }
    }
    let clone = store.clone();
    drop(store);
    assert!(open(&path, Access::Write).is_err(), "a clone has it open");
    drop(clone);
    assert!(open(&path, Access::Write).is_ok());
}

#[tokio::test]
async fn it_is_its_owner_s_only() {
    let place = TestStore::new();
    let store = place.store();
    assert_eq!(store.location(), format!("embedded:{}", place.file("baton.redb").display()));
    let copy = place.file("copy");
    store.snapshot(&copy).unwrap();
    for file in [store.path(), &copy] {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let names: Vec<_> = std::fs::read_dir(place.folder.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "nothing is left over: {names:?}");
}

#[tokio::test]
async fn readers_create_nothing_and_change_nothing() {
    let place = TestStore::new();
    let path = place.file("baton.redb");
    let reader = open(&path, Access::Read).unwrap();
    assert!(read(&reader, "e").await.found.is_none());
    assert!(reader.list(&Prefix::Elections).await.unwrap().is_empty());
    assert!(reader.snapshot(&place.file("copy")).is_err());
    let refused = reader
        .swap(&key("e"), Expect::Absent, &record(&led("e", 1)), AgeStamp::Reset, Persistence::Durable)
        .await;
    assert!(matches!(failed(refused), StoreError::Refused { .. }));
    assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 0);

    let store = place.store();
    let version = put(&store, &led("e", 1), Expect::Absent).await;
    // A copy while it is open is what a killed process leaves behind.
    let unclosed = place.file("unclosed.redb");
    std::fs::copy(&path, &unclosed).unwrap();
    drop(store);
    for path in [path, unclosed] {
        let before = std::fs::read(&path).unwrap();
        let (one, two) = (open(&path, Access::Read).unwrap(), open(&path, Access::Read).unwrap());
        for reader in [&one, &two] {
            assert_eq!(read(reader, "e").await.found, Some((record(&led("e", 1)), version.clone())));
        }
        assert!(open(&path, Access::Write).is_err(), "not while somebody looks");
        drop((one, two));
        assert!(std::fs::read(&path).unwrap() == before, "not a byte was changed");
        assert!(open(&path, Access::Write).is_ok());
    }
}

#[tokio::test]
async fn the_age_counts_from_the_opening_at_most() {
    let place = TestStore::new();
    let store = place.store();
    let _ = put(&store, &led("e", 1), Expect::Absent).await;
    boot::sleep(Span::millis(80)).await.unwrap();
    assert!(read(&store, "e").await.age.unwrap() >= Span::millis(80));
    drop(store);
    let before = boot::now();
    let store = place.store();
    let reading = read(&store, "e").await;
    assert!(
        reading.age.unwrap() <= reading.received_at.since(before),
        "every opening gives a lease its full length"
    );
    assert!(store.opened_at() >= before);
    boot::sleep(Span::millis(30)).await.unwrap();
    let reading = read(&store, "e").await;
    assert!(reading.age.unwrap() >= Span::millis(30));
    // What keeps the clock keeps it, and what restarts it restarts it.
    let next = record(&document(&reading));
    let kept = store
        .swap(&key("e"), reading.expect(), &next, AgeStamp::Preserve, Persistence::Durable)
        .await
        .unwrap();
    assert!(read(&store, "e").await.age.unwrap() >= Span::millis(30));
    let restarted = boot::now();
    let _ = store
        .swap(&key("e"), Expect::Version(kept.version), &next, AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    let reading = read(&store, "e").await;
    assert!(reading.age.unwrap() <= reading.received_at.since(restarted));
}

#[tokio::test]
async fn what_is_no_store_is_refused_and_left_alone() {
    const FOREIGN: TableDefinition<'static, &str, u64> = TableDefinition::new("somebody's");
    let place = TestStore::new();
    let foreign = place.file("foreign.redb");
    {
        let database = redb::Database::create(&foreign).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(FOREIGN).unwrap().insert("a", 1).unwrap();
        transaction.commit().unwrap();
    }
    let (empty, text) = (place.file("empty"), place.file("text"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&text, "coordinator: agent-a\n".repeat(1_000)).unwrap();
    let folder = place.file("folder");
    std::fs::create_dir(&folder).unwrap();
    let cases = [
        (&empty, "corrupt", "empty"),
        (&text, "corrupt", "magic number"),
        (&foreign, "refused", "not one of Baton's"),
        (&folder, "refused", "not a file"),
    ];
    for (path, code, why) in cases {
        for access in [Access::Read, Access::Write] {
            let before = std::fs::read(path).ok();
            let error = failed(open(path, access));
            assert_eq!(error.code(), code, "{error}");
            assert!(
                error.to_string().contains(why) && error.to_string().contains(path.to_str().unwrap()),
                "{error}"
            );
            if path != &foreign {
                assert!(std::fs::read(path).ok() == before, "{error}");
            }
        }
    }
    let error = failed(open(&place.file("no/such/folder/f"), Access::Write));
    assert!(error.hint().contains("mkdir"), "{error}");
    let database = redb::Database::open(&foreign).unwrap();
    let transaction = redb::ReadableDatabase::begin_read(&database).unwrap();
    assert_eq!(transaction.list_tables().unwrap().count(), 1, "nothing was added to somebody else's");
}

/// A store with enough in it to fill many pages, closed.
async fn filled(place: &TestStore) -> Vec<u8> {
    let store = place.store();
    for number in 0..100_u8 {
        let first = led(&format!("e{number}"), number);
        let version = put(&store, &first, Expect::Absent).await;
        let _ = put(&store, &taken_over(&first, number + 100), Expect::Version(version)).await;
    }
    drop(store);
    std::fs::read(place.file("baton.redb")).unwrap()
}

/// Opens a damaged copy. Either it is refused and what is in it is left alone, or the damage was to nothing, and all is there.
fn is_refused(path: &Path, bytes: &[u8]) -> bool {
    std::fs::write(path, bytes).unwrap();
    match open(path, Access::Write) {
        Ok(store) => {
            let mut found = 0;
            let loaded = store.load(&Prefix::Elections, |key, record, _| {
                let Record::Election(document) = record else { panic!("{key} is no election") };
                assert_eq!(document.epoch.0, 2, "{key}");
                found += 1;
            });
            loaded.unwrap();
            assert_eq!(found, 100, "what was opened is whole");
            false
        }
        Err(error) => {
            assert!(["corrupt", "newer-format", "refused"].contains(&error.code()), "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            // The first page of the database says, among others, that somebody opened it.
            let after = std::fs::read(path).unwrap();
            let (front, rest) = (..DATABASE_AT.min(bytes.len()), DATABASE_AT + 4_096..);
            assert!(after[front] == bytes[front], "what is damaged was overwritten: {error}");
            assert!(after.get(rest.clone()) == bytes.get(rest), "what is damaged was overwritten: {error}");
            true
        }
    }
}

#[tokio::test]
async fn a_flipped_byte_is_noticed_or_harmless() {
    let place = TestStore::new();
    let whole = filled(&place).await;
    let path = place.file("damaged.redb");
    let mut refused = 0;
    for at in (0..whole.len()).step_by(whole.len() / 400) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        refused += usize::from(is_refused(&path, &bytes));
    }
    assert!(refused > 20, "the damage did damage: {refused}");
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_noticed() {
    let place = TestStore::new();
    let whole = filled(&place).await;
    let path = place.file("damaged.redb");
    for part in 1..40 {
        let cut = is_refused(&path, &whole[..whole.len() * part / 40]);
        assert!(cut, "{part}/40 of it were taken for the whole");
    }
    for few in [1, 9, 64, 320, 4_096, DATABASE_AT - 1, DATABASE_AT, DATABASE_AT + 1] {
        assert!(is_refused(&path, &whole[..few]));
    }
}
