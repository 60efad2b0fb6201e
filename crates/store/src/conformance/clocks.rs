//! How old a record is.

use baton_election::Span;

use super::{Open, sample};
use crate::Persistence;
use crate::boot;
use crate::store::{AgeStamp, Expect};

pub(super) async fn restarts_only_when_told(open: Open<'_>) {
    let store = open().await;
    let election = sample::fresh("clock");
    let (key, record) = sample::record(&election, 1);
    let Ok(first) = store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await
    else {
        panic!("conformance: the first swap failed");
    };
    let written = boot::now();
    pass(Span::millis(60)).await;
    let kept = store
        .swap(&key, Expect::Version(first.version), &record, AgeStamp::Preserve, Persistence::Durable)
        .await;
    let Ok(kept) = kept else { panic!("conformance: a swap that keeps the clock failed") };
    let Ok(reading) = store.read(&key).await else { panic!("conformance: a read failed") };
    let Some(age) = reading.age else {
        assert!(!store.properties().stamped, "a stamped store tells the age");
        return;
    };
    assert!(store.properties().stamped, "an observed store tells no age");
    assert!(age >= Span::millis(50), "keeping the clock does not restart it");
    assert!(
        age >= reading.asked_at.since(written).scaled(9, 10).minus(Span::millis(5)),
        "the age is not far too low"
    );
    let restarted = boot::now();
    let Ok(_) =
        store.swap(&key, Expect::Version(kept.version), &record, AgeStamp::Reset, Persistence::Durable).await
    else {
        panic!("conformance: a swap that restarts the clock failed");
    };
    let Ok(reading) = store.read(&key).await else { panic!("conformance: a read failed") };
    assert!(
        reading.age.is_some_and(|age| age <= reading.received_at.since(restarted)),
        "it restarts when told"
    );
}

pub(super) async fn age_is_a_lower_bound(open: Open<'_>) {
    let (one, two) = (open().await, open().await);
    if !one.properties().stamped {
        return;
    }
    let election = sample::fresh("bound");
    let (key, record) = sample::record(&election, 1);
    let mut expect = Expect::Absent;
    for _ in 0..5 {
        let before = boot::now();
        let Ok(swapped) = one.swap(&key, expect, &record, AgeStamp::Reset, Persistence::Durable).await else {
            panic!("conformance: a swap failed");
        };
        expect = Expect::Version(swapped.version);
        for store in [&one, &two] {
            let Ok(reading) = store.read(&key).await else { panic!("conformance: a read failed") };
            let longest = reading.received_at.since(before);
            assert!(reading.age.is_some_and(|age| age <= longest), "an age is never above the true one");
        }
    }
}

/// Lets time pass on the clock that ages are told by.
async fn pass(span: Span) {
    assert!(boot::sleep(span).await.is_ok(), "conformance: the boot-time clock cannot be waited for");
}
