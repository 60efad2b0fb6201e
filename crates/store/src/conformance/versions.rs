//! Two versions of Baton on one store.

use super::{Open, sample};
use crate::Persistence;
use crate::error::StoreError;
use crate::key::Prefix;
use crate::record::Record;
use crate::rehearsal::{Reader, write_newer};
use crate::store::{AgeStamp, Durability, Expect};

/// An older Baton names the format that a newer one wrote, and changes nothing.
pub(super) async fn newer_is_refused(open: Open<'_>) {
    let (newer, older) = (open().await, open().await);
    if newer.properties().durability == Durability::Process {
        // It dies with its process, and so was written by the same Baton.
        return;
    }
    let election = sample::fresh("newer");
    let (key, first) = sample::record(&election, 1);
    let Ok(known) = newer.swap(&key, Expect::Absent, &first, AgeStamp::Reset, Persistence::Durable).await
    else {
        panic!("conformance: a swap failed")
    };
    assert!(older.read(&key).await.is_ok(), "the older one reads what it knows");
    write_newer(&election, Reader::Older);
    let (next, expect) = (sample::renewed(&first), Expect::Version(known.version.clone()));
    let swapped = newer.swap(&key, expect, &next, AgeStamp::Reset, Persistence::Durable).await;
    let Ok(swapped) = swapped else { panic!("conformance: {swapped:?}") };
    // One that has seen an earlier record, and one that has just begun.
    for older in [older, open().await] {
        match older.read(&key).await {
            Err(error @ StoreError::Newer { .. }) => {
                assert!(
                    error.to_string().contains("format 2") && error.hint().contains("format 2"),
                    "{error}"
                );
                assert!(!error.is_passing(), "to try again does not help");
            }
            other => panic!("a record of a newer Baton is refused: {other:?}"),
        }
        for expect in [Expect::Absent, Expect::Version(known.version.clone())] {
            let late = Record::Election(Box::new(sample::led(&election, 9)));
            let result = older.swap(&key, expect, &late, AgeStamp::Reset, Persistence::Durable).await;
            assert!(
                matches!(result, Err(StoreError::Newer { .. } | StoreError::Conflict)),
                "nothing is written over it: {result:?}"
            );
        }
        let listed = older.list(&Prefix::Elections).await;
        assert!(listed.is_ok_and(|keys| keys.contains(&key)), "its name is no secret");
    }
    write_newer(&election, Reader::Newer);
    match open().await.read(&key).await.map(|reading| reading.found) {
        Ok(Some(found)) => assert_eq!(found, (next, swapped.version), "the newer one finds what it wrote"),
        other => panic!("the newer one reads it: {other:?}"),
    }
}
