//! Many swaps, one commit.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::collections::BTreeSet;

use baton_store::{AgeStamp, Expect, Key, Persistence, Prefix, Record, Store, StoreError};
use baton_store_embedded::Write;
use redb::{ReadableDatabase, ReadableTableMetadata};

use crate::support;
use crate::support::{
    TestStore, document, election, failed, key, led, number, put, read, record, taken_over,
};

const TASKS: u8 = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaps_of_different_records_go_together() {
    let place = TestStore::new();
    let store = place.store();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let store = store.clone();
        tasks.spawn(async move {
            let mut document = led(&format!("e{task}"), task);
            let mut given = vec![number(&put(&store, &document, Expect::Absent).await)];
            for _ in 0..20 {
                let last = given.last().unwrap().to_string();
                document.beat += 1;
                let expect = Expect::Version(baton_store::Version::new(&last));
                given.push(number(&put(&store, &document, expect).await));
            }
            assert!(given.is_sorted(), "versions rise");
            given
        });
    }
    let given: Vec<u64> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), given.len(), "no version is given twice");
    drop(store);
    let store = place.store();
    let mut found = 0;
    let count = store
        .load(&Prefix::Elections, |key, record, version| {
            let Record::Election(document) = record else { panic!("{key} is no election") };
            assert_eq!(document.beat, 21);
            assert!(given.contains(&number(&version)));
            found += 1;
        })
        .unwrap();
    assert_eq!((count, found), (u64::from(TASKS), u64::from(TASKS)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_swaps_of_one_record_each_sees_the_one_before_it() {
    let place = TestStore::new();
    let store = place.store();
    let first = put(&store, &led("e", 0), Expect::Absent).await;
    let mut racers = tokio::task::JoinSet::new();
    for task in 1..=TASKS {
        let (store, expect) = (store.clone(), Expect::Version(first.clone()));
        racers.spawn(async move {
            match store
                .swap(&key("e"), expect, &record(&led("e", task)), AgeStamp::Reset, Persistence::Durable)
                .await
            {
                Ok(swapped) => Some((task, swapped.version)),
                Err(StoreError::Conflict) => None,
                Err(error) => panic!("{error}"),
            }
        });
    }
    let won: Vec<_> = racers.join_all().await.into_iter().flatten().collect();
    assert_eq!(won.len(), 1, "of swaps that expect the same one is applied");
    let found = read(&store, "e").await.found.unwrap();
    assert_eq!(found, (record(&led("e", won[0].0)), won[0].1.clone()));

    let mut counters = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let store = store.clone();
        counters.spawn(async move {
            loop {
                let reading = read(&store, "e").await;
                let mut next = document(&reading);
                next.beat += 1;
                match store
                    .swap(&key("e"), reading.expect(), &record(&next), AgeStamp::Reset, Persistence::Durable)
                    .await
                {
                    Ok(_) => return,
                    Err(StoreError::Conflict) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    let _: Vec<()> = counters.join_all().await;
    assert_eq!(document(&read(&store, "e").await).beat, 1 + u64::from(TASKS), "no increment is lost");
}

#[tokio::test]
async fn a_commit_of_several_is_all_or_nothing() {
    let place = TestStore::new();
    let store = place.store();
    let write = |name: &str, expect: Expect| Write {
        key: key(name),
        expect,
        next: record(&led(name, 1)),
        clock: AgeStamp::Reset,
    };
    let given = store.commit(vec![write("a", Expect::Absent), write("b", Expect::Absent)]).await.unwrap();
    assert_eq!(given.iter().map(|given| number(&given.version)).collect::<Vec<_>>(), [1, 2]);
    let right = Expect::Version(given[0].version.clone());
    let half = store.commit(vec![write("a", right), write("c", Expect::Absent), write("b", Expect::Absent)]);
    assert!(matches!(half.await, Err(StoreError::Conflict)));
    assert_eq!(read(&store, "a").await.found.unwrap().1, given[0].version, "nothing of it was applied");
    assert!(read(&store, "c").await.found.is_none());
    let twice = store.commit(vec![write("d", Expect::Absent), write("d", Expect::Absent)]).await;
    assert!(matches!(failed(twice), StoreError::Refused { .. }));
    assert!(store.commit(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_history_is_written_with_the_swap_and_keeps_the_newest() {
    let place = TestStore::new();
    let store = place.store();
    let mut document = led("e", 0);
    let mut version = put(&store, &document, Expect::Absent).await;
    for turn in 0..400_u16 {
        document = taken_over(&document, (turn % 200).to_le_bytes()[0] + 1);
        version = put(&store, &document, Expect::Version(version)).await;
        // A renewal brings no transition.
        document.beat += 1;
        version = put(&store, &document, Expect::Version(version)).await;
    }
    let _ = put(&store, &led("e/f", 0), Expect::Absent).await;
    let history = store.native_history(&election("e"), 1_000).await.unwrap();
    assert_eq!(history.len(), 256, "at most so many are kept");
    let epochs: Vec<u64> = history.iter().map(|transition| transition.epoch.0).collect();
    assert_eq!(epochs, (146..=401).collect::<Vec<u64>>(), "the newest, the oldest first");
    assert_eq!(history.last(), document.last_transition.as_deref());
    let few = store.native_history(&election("e"), 3).await.unwrap();
    assert_eq!(few, history[253..]);
    assert_eq!(store.native_history(&election("e/f"), 9).await.unwrap().len(), 1);
    assert!(store.native_history(&election("g"), 9).await.unwrap().is_empty());

    // What is known better later replaces what stands there.
    let mut known = (**document.last_transition.as_ref().unwrap()).clone();
    known.reason = "known better".to_string();
    document.last_transition = Some(known.clone().into());
    let _ = put(&store, &document, Expect::Version(version)).await;
    let history = store.native_history(&election("e"), 1_000).await.unwrap();
    assert_eq!((history.len(), history.last()), (256, Some(&known)));
    let keys = store.list(&Prefix::Elections).await.unwrap();
    assert_eq!(keys, [Key::Election(election("e")), Key::Election(election("e/f"))]);
    drop(store);
    let database = support::database(&place.file("baton.redb"), &place.file("tables.redb"));
    let table: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("history");
    let table = database.begin_read().unwrap().open_table(table).unwrap();
    assert!(table.len().unwrap() <= 256 + 64 + 1, "old ones are swept: {}", table.len().unwrap());
}
