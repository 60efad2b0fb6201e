//! A record that somebody else deletes, where the store says that epochs survive it.

use baton_election::Epoch;
use baton_election::lease::MAX_TTL;

use super::{Open, sample};
use crate::key::Key;
use crate::record::Record;
use crate::store::{BoxFuture, Clock, Deletion, Expect, Store};

/// A way to delete a record behind Baton's back, as a person with the store's own tools would.
pub type Delete<'a> = &'a (dyn Fn(Key) -> BoxFuture<'a, ()> + Send + Sync);

/// Checks that epochs rise on after a record was deleted, twice. Panics if not.
///
/// The new record is written with the epoch that the trace allows, and is found again under it.
pub async fn survived(open: Open<'_>, delete: Delete<'_>) {
    let store = open().await;
    assert_eq!(store.strengths().deletion, Deletion::Survives, "the store does not promise it");
    let election = sample::fresh("gone");
    let key = Key::Election(election.clone());
    let mut highest = absent(&*store, &key).await;
    for number in 1..=3_u8 {
        let document = sample::led_above(&election, number, highest);
        assert!(document.epoch > highest, "the sample is granted above what the store remembers");
        highest = document.epoch;
        let record = Record::Election(Box::new(document));
        let Ok(swapped) = store.swap(&key, Expect::Absent, &record, Clock::Restart).await else {
            panic!("conformance: a record cannot be written where one was deleted");
        };
        // A few changes that leave the epoch alone: the mark is not the number of changes.
        let renewed = sample::renewed(&record);
        let Ok(_) = store.swap(&key, Expect::Version(swapped.version), &renewed, Clock::Restart).await else {
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

/// What the store remembers of a record that is not there.
async fn absent(store: &dyn Store, key: &Key) -> Epoch {
    let Ok(reading) = store.read(key).await else { panic!("conformance: a read failed") };
    assert!(reading.found.is_none(), "a deleted record is not there");
    let Some(trace) = reading.trace else { panic!("conformance: no trace of what may have been deleted") };
    assert!(trace.lease <= MAX_TTL, "no lease lasts longer than the longest");
    trace.epoch
}
