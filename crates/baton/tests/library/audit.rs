//! What operators did is kept whole, whoever is interrupted, and whoever changes it afterwards is found out.

use std::path::{Path, PathBuf};

use baton::election::audit::{Book, Entry, Ordered, Verdict};
use baton::election::operator::{Act, OperatorKey};
use baton::election::{Document, Policy, Refusal};
use baton::file::FileStore;
use baton::store::{Access, AgeStamp, Key, MemoryStore, Persistence, Record, Store};
use baton::{Coordinator, Error};

use crate::support::faulty::{Chaos, Fault, Faulty, is_election};
use crate::support::{
    act, bid, client, depose, document, election, impatient, in_time, lead, operator, rule,
};

fn book() -> Book {
    Book::Election(election())
}

/// A fault of the swaps of some keys.
type Planned = (fn(&Key) -> bool, Fault);

fn is_audit(key: &Key) -> bool {
    matches!(key, Key::Audit(..))
}

async fn verified(coordinator: &Coordinator, book: &Book) -> Verdict {
    coordinator.audit().verify(book).await.unwrap()
}

/// Acts until it is done or refused for good, as a person does who sees an error.
async fn insist(coordinator: &Coordinator, by: &OperatorKey, text: &str) {
    in_time(async { while coordinator.note(&election(), by, text).await.is_err() {} }).await;
}

async fn notes(coordinator: &Coordinator) -> Vec<(u64, String)> {
    let all = coordinator.audit().read(&book(), usize::MAX).await.unwrap();
    let note = |entry: &Entry| match &entry.ordered {
        Ordered::Act(signed) => match &signed.order.act {
            Act::Note { text } => Some((entry.number, text.clone())),
            _ => None,
        },
        _ => None,
    };
    all.iter().filter_map(note).collect()
}

#[tokio::test]
async fn every_act_stands_in_the_chain_once_and_in_order() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    lead(&coordinator, bid("a", 30_000)).await;
    act(&coordinator, depose("loops")).await;
    for number in 0..70 {
        coordinator.note(&election(), &operator(), &format!("note {number}")).await.unwrap();
    }
    let all = coordinator.audit().read(&book(), usize::MAX).await.unwrap();
    let numbers: Vec<u64> = all.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, (1..=72).collect::<Vec<u64>>());
    assert_eq!(all[1].ended.as_ref().map(ToString::to_string), Some("a".to_string()));
    assert_eq!(all[1].epoch, Some(document(&coordinator).await.epoch));
    let newest = coordinator.audit().read(&book(), 5).await.unwrap();
    assert_eq!(newest, all[67..]);
    let verdict = verified(&coordinator, &book()).await;
    assert_eq!((verdict.acts, verdict.faults, verdict.head), (72, vec![], Some(all[71].hash)));
    // The store's own orders, too.
    let second = OperatorKey::from_seed([43; 32]);
    coordinator.operators().add(&operator(), second.public()).await.unwrap();
    coordinator.orders().pause_all(&operator(), "fire").await.unwrap();
    coordinator.orders().resume_all(&second).await.unwrap();
    let verdict = verified(&coordinator, &Book::Store).await;
    assert_eq!((verdict.acts, verdict.faults), (4, vec![]));
    let who: Vec<_> = coordinator
        .audit()
        .read(&Book::Store, 9)
        .await
        .unwrap()
        .iter()
        .map(|entry| entry.ordered.by())
        .collect();
    assert_eq!(who, [operator(), operator(), operator(), second].map(|key| key.public()));
}

#[tokio::test]
async fn no_act_is_lost_and_none_stands_twice_whatever_fails() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let (person, calm) = (client(&faulty).patient(impatient()), client(&store));
    rule(&calm, Policy::default()).await;
    let faults: [&[Planned]; 5] = [
        &[(is_audit, Fault::After)],
        &[(is_election, Fault::After)],
        &[(is_audit, Fault::Before), (is_audit, Fault::After), (is_election, Fault::Before)],
        &[(is_audit, Fault::After), (is_election, Fault::After)],
        &[],
    ];
    for round in 0..40 {
        for (which, fault) in faults[round % faults.len()] {
            faulty.plan(*which, &[*fault]);
        }
        insist(&person, &operator(), &format!("note {round}")).await;
    }
    let expected: Vec<(u64, String)> = (0..40).map(|round| (round + 2, format!("note {round}"))).collect();
    assert_eq!(notes(&calm).await, expected);
    assert_eq!(verified(&calm, &book()).await.faults, vec![]);
    // And at random.
    faulty.chaos(Chaos { before: 150, after: 150, reads: 100, ..Chaos::default() });
    for round in 40..80 {
        insist(&person, &operator(), &format!("note {round}")).await;
    }
    faulty.chaos(Chaos::default());
    let mut told: Vec<String> = notes(&calm).await.into_iter().map(|(_, text)| text).collect();
    // One whose answer was lost for good was written, and said again by the person.
    told.dedup();
    assert_eq!(told, (0..80).map(|round| format!("note {round}")).collect::<Vec<_>>());
    let verdict = verified(&calm, &book()).await;
    assert_eq!((verdict.acts as u64, verdict.faults), (document(&calm).await.acts, vec![]));
}

#[tokio::test]
async fn many_operators_at_once_leave_one_chain() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    let writers = (0..4).map(|number| {
        let coordinator = client(&store);
        tokio::spawn(async move {
            for round in 0..10 {
                insist(&coordinator, &operator(), &format!("{number}/{round}")).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        in_time(writer).await.unwrap();
    }
    let verdict = verified(&coordinator, &book()).await;
    assert_eq!((verdict.acts, verdict.faults), (41, vec![]));
    let mut told: Vec<String> = notes(&coordinator).await.into_iter().map(|(_, text)| text).collect();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 40);
}

/// The newest version of a record in a folder.
fn newest(folder: &Path) -> PathBuf {
    let number =
        |entry: &std::fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
    let entries = std::fs::read_dir(folder.join("versions")).unwrap().map(Result::unwrap);
    entries.max_by_key(|entry| number(entry)).unwrap().path()
}

#[tokio::test]
async fn a_byte_that_is_changed_by_hand_in_a_folder_is_found_and_said_where() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let coordinator = client(&FileStore::open(&path, Access::Write).unwrap());
    rule(&coordinator, Policy::default()).await;
    for text in ["one", "two", "three"] {
        coordinator.note(&election(), &operator(), text).await.unwrap();
    }
    assert_eq!(verified(&coordinator, &book()).await.faults, vec![]);
    let file = newest(&path.join("e/history/0"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"two\"", "\"tvo\"")).unwrap();
    let faults = verified(&coordinator, &book()).await.faults;
    assert_eq!(faults.iter().map(|fault| fault.number).collect::<Vec<_>>(), [Some(1), Some(3)], "{faults:?}");
    assert!(faults[0].why.contains(file.to_str().unwrap()), "{faults:?}");
    std::fs::write(&file, text).unwrap();
    assert_eq!(verified(&coordinator, &book()).await.faults, vec![]);
}

/// Where a store has no checksum, or who changed the log has changed that too.
#[tokio::test]
async fn whatever_byte_of_a_log_is_changed_the_chain_shows_it() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    lead(&coordinator, bid("a", 30_000)).await;
    act(&coordinator, depose("loops")).await;
    coordinator.note(&election(), &operator(), "one").await.unwrap();
    let key = Key::Audit(book(), 0);
    let text = store.read(&key).await.unwrap().record().unwrap().to_json();
    let (mut unreadable, mut chained) = (0, 0);
    for place in (text.find("entries").unwrap()..text.len()).step_by(3) {
        // A space that became another space says the same.
        if !text.as_bytes()[place].is_ascii_graphic() {
            continue;
        }
        let mut bytes = text.clone().into_bytes();
        bytes[place] ^= if place % 2 == 0 { 1 } else { 0x20 };
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        match Record::from_json(&key, &changed) {
            Err(_) => unreadable += 1,
            Ok(record) => {
                let expect = store.read(&key).await.unwrap().expect();
                store.swap(&key, expect, &record, AgeStamp::Preserve, Persistence::Durable).await.unwrap();
                let faults = verified(&coordinator, &book()).await.faults;
                let around = &changed[place.saturating_sub(40)..(place + 40).min(changed.len())];
                assert!(!faults.is_empty(), "at {place}: {around}");
                chained += 1;
            }
        }
    }
    assert!(unreadable > 50 && chained > 50, "{unreadable} were unreadable, {chained} broke the chain");
    // Where it is.
    let whole = Record::from_json(&key, &text).unwrap();
    let expect = store.read(&key).await.unwrap().expect();
    store.swap(&key, expect, &whole, AgeStamp::Preserve, Persistence::Durable).await.unwrap();
    assert_eq!(verified(&coordinator, &book()).await.faults, vec![]);
    replace(&store, |entries| entries[1].ended = None).await;
    let faults = verified(&coordinator, &book()).await.faults;
    assert_eq!(faults.iter().map(|fault| fault.number).collect::<Vec<_>>(), [Some(2)], "{faults:?}");
    assert!(faults[0].why.contains("changed"), "{faults:?}");
}

/// Swaps in another log than the one that is there.
async fn replace(store: &MemoryStore, change: impl Fn(&mut Vec<Entry>)) {
    let key = Key::Audit(book(), 0);
    let reading = store.read(&key).await.unwrap();
    let Some(Record::Audit(log)) = reading.record() else { panic!("there is a log") };
    let mut log = log.clone();
    change(&mut log.entries);
    store
        .swap(&key, reading.expect(), &Record::Audit(log), AgeStamp::Preserve, Persistence::Durable)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_is_left_out_cut_off_or_put_in_is_found() {
    let whole = async || {
        let store = MemoryStore::default();
        let coordinator = client(&store);
        rule(&coordinator, Policy::default()).await;
        for number in 0..5 {
            coordinator.note(&election(), &operator(), &format!("{number}")).await.unwrap();
        }
        (store, coordinator)
    };
    let numbers = |verdict: &Verdict| verdict.faults.iter().map(|fault| fault.number).collect::<Vec<_>>();
    let (store, coordinator) = whole().await;
    replace(&store, |entries| drop(entries.remove(2))).await;
    assert_eq!(numbers(&verified(&coordinator, &book()).await), [Some(3)], "left out");
    let (store, coordinator) = whole().await;
    replace(&store, |entries| drop(entries.pop())).await;
    assert_eq!(numbers(&verified(&coordinator, &book()).await), [Some(5)], "the tail is cut off");
    let (store, coordinator) = whole().await;
    replace(&store, |entries| drop(entries.remove(0))).await;
    assert_eq!(numbers(&verified(&coordinator, &book()).await), [Some(1)], "the head is cut off");
    let (store, coordinator) = whole().await;
    replace(&store, Vec::clear).await;
    assert_eq!(numbers(&verified(&coordinator, &book()).await), [Some(5)], "all is gone");
    // One of another election with the same key, and one by a key that was nobody's.
    let (other, elsewhere) = whole().await;
    drop(other);
    let foreign = elsewhere.audit().read(&book(), usize::MAX).await.unwrap();
    let (store, coordinator) = whole().await;
    replace(&store, |entries| entries[2] = foreign[2].clone()).await;
    assert!(!verified(&coordinator, &book()).await.faults.is_empty(), "of another store");
}

#[tokio::test]
async fn a_record_that_is_put_back_is_found_out_wherever_that_is() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    let key = Key::Election(election());
    let mut before = Vec::new();
    for number in 2..=70 {
        before.push(store.read(&key).await.unwrap().record().unwrap().clone());
        coordinator.note(&election(), &operator(), &format!("note {number}")).await.unwrap();
    }
    assert_eq!(verified(&coordinator, &book()).await.faults, vec![]);
    // The act of the last one was in the record only, and is gone with it.
    for record in &before[..before.len() - 1] {
        let expect = store.read(&key).await.unwrap().expect();
        store.swap(&key, expect, record, AgeStamp::Preserve, Persistence::Durable).await.unwrap();
        // Somebody who has seen nothing of it.
        let verdict = verified(&client(&store), &book()).await;
        assert!(!verdict.faults.is_empty(), "after {} acts", verdict.acts);
    }
}

#[tokio::test]
async fn what_everybody_does_is_paused_at_once_and_goes_on_at_once() {
    let store = MemoryStore::default();
    let (coordinator, early) = (client(&store), client(&store));
    rule(&coordinator, Policy::default()).await;
    let names = ["a/1", "a/2", "a/3"].map(|name| name.parse().unwrap());
    let take = async |coordinator: &Coordinator, election| {
        let credential = baton::mint_credential().unwrap();
        coordinator.acquire(election, &bid("a", 30_000), credential, None, None).await
    };
    let mut grants = Vec::new();
    for name in &names {
        grants.push(take(&early, name).await.unwrap());
    }
    coordinator.operate(&names[2], &operator(), &Act::Pause { reason: "by itself".into() }).await.unwrap();
    let spread = coordinator.orders().pause_all(&operator(), "fire").await.unwrap();
    assert_eq!((spread.elections, spread.failed.len()), (3, 0), "two are led, one is vacant");
    for (name, grant) in names.iter().zip(&grants) {
        assert!(coordinator.check(name, grant.epoch).await.is_err(), "{name}");
        let refused = take(&early, name).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::Paused { .. }))), "{refused:?}");
    }
    let new = "new".parse().unwrap();
    for client in [&early, &coordinator] {
        let refused = take(client, &new).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::Paused { .. }))), "{refused:?}");
    }
    assert!(coordinator.view(&new).await.unwrap().document.is_none());
    let again = coordinator.orders().pause_all(&operator(), "fire").await.unwrap();
    assert_eq!(again.elections, 0, "the same call again finds nothing to do");
    let stranger = OperatorKey::from_seed([99; 32]);
    assert!(coordinator.orders().resume_all(&stranger).await.is_err());
    assert_eq!(coordinator.orders().resume_all(&operator()).await.unwrap().elections, 3);
    assert!(take(&early, &new).await.is_ok(), "also one who knew of the pause");
    let refused = take(&early, &names[2]).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Paused { .. }))), "paused by itself: {refused:?}");
}

#[tokio::test]
async fn parts_stay_bounded_when_a_record_is_made_anew() {
    let store = MemoryStore::default();
    let coordinator = client(&store);
    rule(&coordinator, Policy::default()).await;
    let key = Key::Election(election());
    for life in 1..=4 {
        for number in 1..=20 {
            coordinator.note(&election(), &operator(), &format!("life {life}, note {number}")).await.unwrap();
        }
        // As after a deletion: the next life counts from one again.
        let before = document(&coordinator).await;
        let mut fresh = Document::new(election(), before.store, before.epoch.next(), &before.operator_keys);
        fresh.beat = before.beat + 1;
        let reading = store.read(&key).await.unwrap();
        let record = Record::Election(Box::new(fresh));
        store.swap(&key, reading.expect(), &record, AgeStamp::Reset, Persistence::Durable).await.unwrap();
    }
    let (mut parts, mut logged) = (0, 0);
    for times in 0..8 {
        let part = Key::Audit(book(), Entry::spilled(0, times));
        if let Some((Record::Audit(log), _)) = store.read(&part).await.unwrap().found {
            assert!(log.entries.len() <= 32, "a part has {} entries", log.entries.len());
            (parts, logged) = (parts + 1, logged + log.entries.len());
        }
    }
    // The first life began with the rules; the last act of each went with its record.
    assert_eq!((parts, logged), (3, 77));
    assert_eq!(
        coordinator.audit().read(&book(), usize::MAX).await.unwrap().len(),
        77,
        "all of them are read"
    );
}
