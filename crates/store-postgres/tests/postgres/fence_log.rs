//! One truth: what the function admits, `baton fence` sees, and the other way round.

use baton_election::fence::{self, Accepted, Entry, Fence, HoldRequest, MAX_TAIL, Sight};
use baton_election::{Credential, Document, Epoch, Incarnation, LeaseKey, ResourceName, Span, WallTime};
use baton_store::conformance::documents::{election, key, take};
use baton_store::{AgeStamp, Expect, Key, Persistence, Record, Store};

use crate::postgres::fence::show;
use crate::support::TestSchema;

fn resource() -> ResourceName {
    ResourceName::new("orders").unwrap()
}

async fn read(store: &dyn Store) -> (Fence, Expect) {
    let reading = store.read(&Key::Fence(resource())).await.unwrap();
    let expect = reading.expect();
    match reading.found {
        Some((Record::Fence(fence), _)) => (*fence, expect),
        other => panic!("{other:?}"),
    }
}

/// What `baton fence` does: decides, then swaps.
async fn admit(store: &dyn Store, document: &Document, hold: Option<HoldRequest>) -> Fence {
    let reading = store.read(&Key::Fence(resource())).await.unwrap();
    let found = match reading.record() {
        Some(Record::Fence(fence)) => Some(&**fence),
        _ => None,
    };
    let name = resource();
    let entry = Entry { resource: &name, token: document.epoch, agent: None, note: "by hand", hold };
    let sight = Sight {
        document,
        document_age: Span::ZERO,
        fence_age: reading.age.unwrap_or(Span::ZERO),
        wall: WallTime::default(),
    };
    let next = fence::admit(found, &entry, &sight).unwrap();
    let record = Record::Fence(Box::new(next.clone()));
    store
        .swap(&Key::Fence(resource()), reading.expect(), &record, AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    next
}

#[tokio::test]
async fn the_function_and_the_command_keep_one_fence() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store(""), place.client().await);
    let (first, _) = take(&*store, &key("job"), "a").await;
    show(&client, "orders", "job", 1).await.unwrap();
    let (seen, _) = read(&*store).await;
    assert_eq!((seen.highest, seen.election.as_str(), seen.tail.len()), (Epoch(1), "job", 1));
    assert_eq!(seen.tail[0].agent.as_ref().map(|agent| agent.as_str()), Some("a"));
    assert_eq!(seen.store, first.store);
    let (second, _) = take(&*store, &key("job"), "b").await;
    let admitted = admit(&*store, &second, None).await;
    assert_eq!(admitted.tail.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2]);
    let (code, said) = show(&client, "orders", "job", 1).await.unwrap_err();
    assert!(code == "ZB001" && said.contains("has seen token 2"), "{said}");
    show(&client, "orders", "job", 2).await.unwrap();
    assert_eq!(read(&*store).await.0, admitted, "a token that is known changes nothing");
}

#[tokio::test]
async fn a_command_that_holds_a_resource_keeps_transactions_away() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store(""), place.client().await);
    let (document, _) = take(&*store, &key("job"), "a").await;
    let run = Credential { incarnation: Incarnation([1; 8]), key: LeaseKey([1; 16]) };
    let _ = admit(&*store, &document, Some(HoldRequest::short(run, Span::secs(20)))).await;
    let (code, said) = show(&client, "orders", "job", 1).await.unwrap_err();
    assert!(code == "ZB003" && said.contains("a command holds"), "{said}");
    let _ = place.by_hand("UPDATE baton SET beat = beat - interval '21 s' WHERE key = 'fences/orders'").await;
    show(&client, "orders", "job", 1).await.unwrap();
    let (later, _) = take(&*store, &key("job"), "b").await;
    show(&client, "orders", "job", 2).await.unwrap();
    let (fence, _) = read(&*store).await;
    assert_eq!(
        (fence.hold, fence.highest),
        (None, later.epoch),
        "a hold that has lapsed goes with the next token"
    );
}

#[tokio::test]
async fn an_open_transaction_keeps_a_command_away() {
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store("&timeout=1s"), place.client().await);
    let _ = take(&*store, &key("job"), "a").await;
    show(&client, "orders", "job", 1).await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    show(&client, "orders", "job", 1).await.unwrap();
    let (fence, expect) = read(&*store).await;
    let record = Record::Fence(Box::new(fence));
    let error = store
        .swap(&Key::Fence(resource()), expect.clone(), &record, AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "unavailable", "surely not applied: {error}");
    client.batch_execute("COMMIT").await.unwrap();
    assert!(
        store
            .swap(&Key::Fence(resource()), expect, &record, AgeStamp::Reset, Persistence::Durable)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn every_token_that_raised_the_mark_is_listed_once() {
    const TOKENS: u64 = 300;
    let Some(place) = TestSchema::new().await else { return };
    let (store, client) = (place.store(""), place.client().await);
    let (mut last, _) = take(&*store, &key("job"), "a").await;
    for token in 1..=TOKENS {
        if token % 50 == 0 {
            let _ = admit_with_log(&*store, &last).await;
        } else {
            show(&client, "orders", "job", i64::try_from(token).unwrap()).await.unwrap();
        }
        if token < TOKENS {
            last = take(&*store, &key("job"), if token % 2 == 0 { "a" } else { "b" }).await.0;
        }
    }
    let (fence, _) = read(&*store).await;
    assert!(fence.tail.len() <= MAX_TAIL, "{}", fence.tail.len());
    let first = fence.tail[0].seq;
    let mut entries: Vec<Accepted> = Vec::new();
    for part in 0..=first / fence::LOG_PART {
        let reading = store.read(&Key::FenceLog(resource(), part)).await.unwrap();
        if let Some((Record::FenceLog(log), _)) = reading.found {
            entries.extend(log.entries.into_iter().filter(|entry| entry.seq < first));
        }
    }
    entries.extend(fence.tail);
    let listed: Vec<(u64, u64)> = entries.iter().map(|entry| (entry.seq, entry.token.0)).collect();
    assert_eq!(listed, (1..=TOKENS).map(|token| (token, token)).collect::<Vec<_>>());
    assert!(election(&store.read(&key("job")).await.unwrap()).is_some());
}

/// The same as [`admit`], with what falls out of the fence put into its log first, as the library does.
async fn admit_with_log(store: &dyn Store, document: &Document) -> Fence {
    let (fence, _) = read(store).await;
    for part in fence.overflow().chunk_by(|a, b| a.seq / fence::LOG_PART == b.seq / fence::LOG_PART) {
        let key = Key::FenceLog(resource(), part[0].seq / fence::LOG_PART);
        let reading = store.read(&key).await.unwrap();
        let log = match reading.record() {
            Some(Record::FenceLog(log)) => log.clone(),
            _ => baton_election::log::Log::default(),
        };
        if let Some(longer) = log.with(part, usize::MAX) {
            let swapped = store
                .swap(
                    &key,
                    reading.expect(),
                    &Record::FenceLog(longer),
                    AgeStamp::Preserve,
                    Persistence::Durable,
                )
                .await;
            assert!(swapped.is_ok(), "{swapped:?}");
        }
    }
    admit(store, document, None).await
}
