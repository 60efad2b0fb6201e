//! Being told of changes.

use futures_util::StreamExt;

use super::{Open, sample};
use crate::Persistence;
use crate::store::{AgeStamp, BoxStream, Change, Expect, Store};

pub(super) async fn hears_of_a_change(open: Open<'_>) {
    let (watcher, writer) = (open().await, open().await);
    let election = sample::fresh("watch");
    let (key, record) = sample::record(&election, 1);
    let Ok(first) = writer.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await
    else {
        panic!("conformance: a swap failed");
    };
    let Ok(mut changes) = watcher.watch(&key).await else { panic!("conformance: a watch failed") };
    let mut expect = Expect::Version(first.version);
    for number in 2..5 {
        let (_, record) = sample::record(&election, number);
        let Ok(swapped) = writer.swap(&key, expect, &record, AgeStamp::Reset, Persistence::Durable).await
        else {
            panic!("conformance: a swap failed");
        };
        until_seen(&*watcher, &mut changes, &key, &record).await;
        expect = Expect::Version(swapped.version);
    }
}

pub(super) async fn hears_of_a_beginning(open: Open<'_>) {
    let (watcher, writer) = (open().await, open().await);
    let election = sample::fresh("begin");
    let (key, record) = sample::record(&election, 1);
    let Ok(mut changes) = watcher.watch(&key).await else { panic!("conformance: a watch failed") };
    let Ok(_) = writer.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await
    else {
        panic!("conformance: a swap failed");
    };
    until_seen(&*watcher, &mut changes, &key, &record).await;
}

/// Reads again at every hint, and only then, until the record is there.
async fn until_seen(
    store: &dyn Store,
    changes: &mut BoxStream<Change>,
    key: &crate::key::Key,
    record: &crate::record::Record,
) {
    while changes.next().await.is_some() {
        if store.read(key).await.is_ok_and(|reading| reading.record() == Some(record)) {
            return;
        }
    }
    panic!("conformance: the watch of `{key}` ended");
}
