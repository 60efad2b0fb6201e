//! What a client has seen protects it from what a store should not show.

use std::fs;
use std::path::Path;

use baton::election::{Refusal, Span};
use baton::file::FileStore;
use baton::store::Access;
use baton::{Coordinator, Error, Memory};

use crate::support::{bid, client, election, in_time, lead};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn an_epoch_that_went_back_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("store"), folder.path().join("backup"));
    let open = || FileStore::open(&path, Access::Write).unwrap();
    let coordinator = client(&open());
    lead(&coordinator, bid("a", 30_000)).await.release("").await.unwrap();
    copy(&path, &backup);
    lead(&coordinator, bid("a", 30_000)).await.release("").await.unwrap();
    crate::support::wipe(&path, &folder);
    copy(&backup, &path);
    let refused =
        |error: &Error| error.code() == "corrupt" && error.to_string().contains("went back from 2 to 1");
    let memory = coordinator.memory();
    let later = Coordinator::with_store(std::sync::Arc::new(open()), memory);
    for coordinator in [&coordinator, &later] {
        let error = coordinator.view(&election()).await.unwrap_err();
        assert!(refused(&error), "{error}");
        let campaign = baton::Campaign::new(bid("a", 30_000));
        let error = in_time(coordinator.campaign(&election(), campaign)).await.err().unwrap();
        assert!(refused(&error), "{error}");
    }
    let newcomer = client(&open());
    assert_eq!(newcomer.view(&election()).await.unwrap().document.unwrap().epoch.0, 1, "nothing was written");
}

#[tokio::test]
async fn a_record_that_vanished_while_it_was_held_is_waited_for_and_epochs_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let open = || FileStore::open(folder.path(), Access::Write).unwrap();
    let (holder, coordinator) = (client(&open()), client(&open()));
    for _ in 0..4 {
        lead(&holder, bid("a", 1_500)).await.release("").await.unwrap();
    }
    let leader = lead(&holder, bid("a", 5_000)).await;
    let deadline = leader.deadline();
    assert_eq!(coordinator.view(&election()).await.unwrap().leader().unwrap().epoch.0, 5);
    crate::support::wipe(&folder.path().join("e"), &tempfile::tempdir().unwrap());
    let credential = baton::mint_credential().unwrap();
    let refused = coordinator.acquire(&election(), &bid("b", 1_500), credential, None, None).await;
    match refused.unwrap_err() {
        Error::Refused(Refusal::Held { by: None, remaining, .. }) => assert!(remaining > Span::ZERO),
        error => panic!("{error}"),
    }
    let next = lead(&coordinator, bid("b", 1_500)).await;
    assert!(next.token().0 > 5, "{}", next.token());
    assert!(next.grant().asked_at() > deadline);
    assert!(in_time(leader.lost()).await.contains("there is no election"));
}

/// Several tasks share a client: a reading that is overtaken by another's is no sign of an old copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reading_that_was_overtaken_is_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = client(&FileStore::open(folder.path(), Access::Write).unwrap());
    let mut lookers = tokio::task::JoinSet::new();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    for _ in 0..6 {
        let (coordinator, stopped) = (coordinator.clone(), stopped.clone());
        lookers.spawn(async move {
            let mut looks = 0_u64;
            while !*stopped.borrow() {
                coordinator.view(&election()).await.unwrap();
                looks += 1;
            }
            looks
        });
    }
    for round in 1..=60 {
        let leader = lead(&coordinator, bid("a", 30_000)).await;
        assert_eq!(leader.token().0, round);
        leader.release("").await.unwrap();
    }
    stop.send_replace(true);
    let looks: u64 = in_time(lookers.join_all()).await.iter().sum();
    assert!(looks > 60, "they did look: {looks}");
    let memory: Memory = coordinator.memory();
    assert!(!memory.differs_materially(&coordinator.memory()));
}
