//! A record that somebody else deletes, where the store says that epochs survive it.

use baton_election::Epoch;
use baton_election::lease::MAX_TTL;

use super::{Open, sample};
use crate::Persistence;
use crate::error::StoreError;
use crate::key::Key;
use crate::record::Record;
use crate::store::{AgeStamp, BoxFuture, Deletion, Expect, Store};

/// A way to delete a record behind Baton's back, as a person with the store's own tools would.
pub type Delete<'a> = &'a (dyn Fn(Key) -> BoxFuture<'a, ()> + Send + Sync);

/// Checks that epochs rise on after a record was deleted, twice. Panics if not.
///
/// The new record is written with the epoch that the trace allows, and is found again under it.
pub async fn survived(open: Open<'_>, delete: Delete<'_>) {
    let store = open().await;
    assert_eq!(store.properties().deletion, Deletion::Survives, "the store does not promise it");
    let election = sample::fresh("gone");
    let key = Key::Election(election.clone());
    let mut highest = absent(&*store, &key).await;
    for number in 1..=3_u8 {
        let document = sample::led_above(&election, number, highest);
        assert!(document.epoch > highest, "the sample is granted above what the store remembers");
        highest = document.epoch;
        let record = Record::Election(Box::new(document));
        let Ok(swapped) =
            store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await
        else {
            panic!("conformance: a record cannot be written where one was deleted");
        };
        // A few changes that leave the epoch alone: the mark is not the number of changes.
        let renewed = sample::renewed(&record);
        let Ok(_) = store
            .swap(&key, Expect::Version(swapped.version), &renewed, AgeStamp::Reset, Persistence::Durable)
            .await
        else {
            panic!("conformance: a swap failed");
        };
        delete(key.clone()).await;
        let known = absent(&*store, &key).await;
        assert!(known >= highest, "after a deletion the store remembers {known}, but {highest} was given");
        let another = absent(&*open().await, &key).await;
        assert!(another >= highest, "another client is told {another}, but {highest} was given");
        highest = known.max(another);
    }
}

/// Checks that a grant which was decided before another leadership came and was deleted does not give its epoch again. Panics if it does.
///
/// Both clients looked when there was nothing, so both decided on the same epoch.
pub async fn begun_once(open: Open<'_>, delete: Delete<'_>) {
    let (quick, late) = (open().await, open().await);
    let election = sample::fresh("twice");
    let key = Key::Election(election.clone());
    let floor = absent(&*quick, &key).await.max(absent(&*late, &key).await);
    let [first, second] = [1, 2].map(|number| sample::led_above(&election, number, floor));
    assert_eq!(first.epoch, second.epoch, "both were decided on the same look");
    let given = first.epoch;
    let Ok(_) = quick
        .swap(&key, Expect::Absent, &Record::Election(Box::new(first)), AgeStamp::Reset, Persistence::Durable)
        .await
    else {
        panic!("conformance: an election cannot be begun");
    };
    delete(key.clone()).await;
    let again = late
        .swap(
            &key,
            Expect::Absent,
            &Record::Election(Box::new(second)),
            AgeStamp::Reset,
            Persistence::Durable,
        )
        .await;
    assert!(
        matches!(again, Err(StoreError::Conflict)),
        "epoch {given} was given to one, and then to another: {again:?}"
    );
    let known = vacant(&*late, &key).await;
    assert!(known >= given, "the store remembers {known}, but {given} was given");
}

/// The epoch above which the next is given, where nobody leads: what the store remembers, or what a vacant record says that an attempt has left.
async fn vacant(store: &dyn Store, key: &Key) -> Epoch {
    let Ok(reading) = store.read(key).await else { panic!("conformance: a read failed") };
    match reading.found {
        None => absent(store, key).await,
        Some((Record::Election(document), _)) => {
            assert!(document.leader.is_none(), "an attempt that was refused leads: {document:?}");
            document.epoch
        }
        Some((other, _)) => panic!("conformance: under the key of an election is {other:?}"),
    }
}

/// What the store remembers of a record that is not there.
async fn absent(store: &dyn Store, key: &Key) -> Epoch {
    let Ok(reading) = store.read(key).await else { panic!("conformance: a read failed") };
    assert!(reading.found.is_none(), "a deleted record is not there");
    let Some(trace) = reading.trace else { panic!("conformance: no trace of what may have been deleted") };
    assert!(trace.lease <= MAX_TTL, "no lease lasts longer than the longest");
    trace.epoch
}
