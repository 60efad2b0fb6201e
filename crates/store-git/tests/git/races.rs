//! One winner each.

use baton_store::conformance::documents::{document, key, led, put, renewed, take};
use baton_store::{Expect, Record, Store, StoreError};

use crate::support::{TestRepository, git, read};

/// What a racer's swap came to.
async fn race(store: baton_store_git::GitStore, name: String, agent: String) -> Option<u64> {
    let key = key(&name);
    loop {
        let reading = read(&store, &key).await;
        let before = match reading.record() {
            Some(Record::Election(document)) => Some(&**document),
            _ => None,
        };
        let next = led(&name, before, &agent);
        match put(&store, &key, reading.expect(), &next).await {
            Ok(_) => return Some(next.epoch.0),
            Err(StoreError::Conflict) => return None,
            Err(StoreError::Unavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_clones_one_wins_each_round() {
    let place = TestRepository::new();
    let stores: Vec<_> = (0..16).map(|number| place.store(&format!("clone-{number}"))).collect();
    for round in 1..=3_u64 {
        let mut racers = tokio::task::JoinSet::new();
        let before = read(&stores[0], &key("e")).await;
        let former = match before.record() {
            Some(Record::Election(document)) => Some((**document).clone()),
            _ => None,
        };
        for (number, store) in stores.iter().cloned().enumerate() {
            let next = led("e", former.as_ref(), &format!("agent-{number}"));
            let expect = before.expect();
            // All of them build on the same tip.
            racers.spawn(async move {
                loop {
                    match put(&store, &key("e"), expect.clone(), &next).await {
                        Ok(_) => return Some(next.epoch.0),
                        Err(StoreError::Conflict) => return None,
                        Err(StoreError::Unavailable { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let winners: Vec<u64> = racers.join_all().await.into_iter().flatten().collect();
        assert_eq!(winners, [round], "one winner, and the epoch rises by one");
    }
    let log = git(&place.remote(), &["log", "--format=%s", "refs/baton/e"]);
    assert_eq!(log.lines().count(), 3, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_in_one_clone_race_as_clones_do() {
    let place = TestRepository::new();
    for (case, remote) in [("far", true), ("near", false)] {
        let mut racers = tokio::task::JoinSet::new();
        for number in 0..6 {
            let store = if remote { place.store("one") } else { place.lone_store("one") };
            racers.spawn(race(store, case.to_string(), format!("agent-{number}")));
        }
        let mut epochs: Vec<u64> = racers.join_all().await.into_iter().flatten().collect();
        epochs.sort_unstable();
        let expected: Vec<u64> = (1..=epochs.len() as u64).collect();
        assert_eq!(epochs, expected, "every win is an epoch of its own");
    }
}

#[tokio::test]
async fn the_same_change_from_two_clones_is_applied_once() {
    let place = TestRepository::new();
    let (one, two) = (place.store("one"), place.store("two"));
    let (first, version) = take(&one, &key("e"), "a").await;
    let _ = read(&two, &key("e")).await;
    let next = renewed(&first);
    let expect = Expect::Version(version);
    let at = key("e");
    let (left, right) = tokio::join!(put(&one, &at, expect.clone(), &next), put(&two, &at, expect, &next));
    let applied = [&left, &right].into_iter().filter(|result| result.is_ok()).count();
    assert_eq!(applied, 1, "{left:?} {right:?}");
}

#[tokio::test]
async fn a_swap_on_a_version_that_only_another_clone_has_read_is_judged_by_what_is_there() {
    let place = TestRepository::new();
    let (one, two) = (place.store("one"), place.store("two"));
    let (first, version) = take(&one, &key("e"), "a").await;
    let second = put(&two, &key("e"), Expect::Version(version.clone()), &renewed(&first)).await.unwrap();
    assert_ne!(second, version);
    let stale = put(&one, &key("e"), Expect::Version(version), &renewed(&first)).await;
    assert!(matches!(stale, Err(StoreError::Conflict)), "{stale:?}");
    assert_eq!(document(&one, &key("e")).await.1, second);
    assert!(!one.properties().stamped);
}
