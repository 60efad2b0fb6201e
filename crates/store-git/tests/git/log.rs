//! The log is the list of leaders.

use baton_election::document::Cause;
use baton_election::{ElectionName, Epoch};
use baton_store::conformance::documents::{document, key, put, released, renewed, take};
use baton_store::{Expect, Store};

use crate::support::{TestRepository, git};

#[tokio::test]
async fn renewals_and_releases_take_the_place_of_the_tip() {
    let place = TestRepository::new();
    for store in [place.store("clone"), place.lone_store("clone")] {
        let key = key("refactor-auth");
        let (mut now, mut version) = take(&store, &key, "agent-b").await;
        for _ in 0..3 {
            now = renewed(&now);
            version = put(&store, &key, Expect::Version(version), &now).await.unwrap();
        }
        let (next, version) = take(&store, &key, "agent-a").await;
        let next = renewed(&next);
        let version = put(&store, &key, Expect::Version(version), &next).await.unwrap();
        let _ =
            put(&store, &key, Expect::Version(version), &released(&next, Some("done\n\nBaton-Term: forged")))
                .await
                .unwrap();
        let dir = if store.location().contains("remote") { place.remote() } else { place.clone("clone") };
        let log = git(&dir, &["log", "--format=%s", "refs/baton/refactor-auth"]);
        assert_eq!(
            log,
            "epoch 2: agent-a leads refactor-auth (failover from agent-b)\n\
             epoch 1: agent-b leads refactor-auth (first)"
        );
        let body = git(&dir, &["log", "-1", "--format=%B", "refs/baton/refactor-auth"]);
        assert!(body.contains("Reason: the lease ran out; first to ask"), "{body}");
        assert!(body.contains("Task: refactor authentication"), "{body}");
        assert!(body.contains("Phases: detection"), "{body}");
        assert!(body.contains("Ended: release of agent-a: done  Baton-Term: forged"), "{body}");
        let trailers = ["log", "-1", "--format=%(trailers:key=Baton-Term)", "refs/baton/refactor-auth"];
        assert!(!git(&dir, &trailers).contains("forged"));
        let shown = git(&dir, &["show", "refs/baton/refactor-auth~1:coordinator.json"]);
        assert!(shown.starts_with("{\n  \"coordinator\": \"agent-b\",\n  \"epoch\": 1,"), "{shown}");
        assert!(shown.contains("\"renewals\": 3"), "the last state of that leadership is kept: {shown}");
        history(&store).await;
    }
}

async fn history(store: &baton_store_git::GitStore) {
    let election = ElectionName::new("refactor-auth").unwrap();
    let all = store.native_history(&election, 10).await.unwrap();
    let told: Vec<_> = all.iter().map(|t| (t.epoch, t.to.as_str(), t.cause)).collect();
    assert_eq!(told, [(Epoch(1), "agent-b", Cause::First), (Epoch(2), "agent-a", Cause::Failover)]);
    assert_eq!(store.native_history(&election, 1).await.unwrap(), all[1..]);
    let unknown = ElectionName::new("unknown").unwrap();
    assert_eq!(store.native_history(&unknown, 10).await.unwrap(), []);
}

#[tokio::test]
async fn what_an_operator_prepared_is_below_the_first_leader() {
    let place = TestRepository::new();
    let store = place.store("clone");
    let election = ElectionName::new("e").unwrap();
    let prepared =
        baton_election::Document::new(election.clone(), baton_election::StoreId([7; 8]), Epoch(0), &[]);
    let _ = put(&store, &key("e"), Expect::Absent, &prepared).await.unwrap();
    assert_eq!(store.native_history(&election, 10).await.unwrap(), []);
    let _ = take(&store, &key("e"), "a").await;
    let log = git(&place.remote(), &["log", "--format=%s", "refs/baton/e"]);
    assert_eq!(log, "epoch 1: a leads e (first)\nepoch 0: e prepared, nobody has led");
    assert_eq!(store.native_history(&election, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_clone_that_was_away_for_many_leaders_goes_on_reading() {
    let place = TestRepository::new();
    let (here, away) = (place.store("here"), place.store("away"));
    let (first, version) = take(&here, &key("e"), "a").await;
    assert_eq!(document(&away, &key("e")).await.0, first);
    let _ = put(&here, &key("e"), Expect::Version(version), &renewed(&first)).await.unwrap();
    for agent in ["b", "c", "d", "e"] {
        let (led, version) = take(&here, &key("e"), agent).await;
        let _ = put(&here, &key("e"), Expect::Version(version), &renewed(&led)).await.unwrap();
    }
    assert_eq!(document(&away, &key("e")).await.0.epoch, Epoch(5));
    let (last, _) = take(&away, &key("e"), "f").await;
    assert_eq!(document(&here, &key("e")).await.0, last);
}

#[tokio::test]
async fn replaced_tips_are_garbage_that_git_removes() {
    let place = TestRepository::new();
    let store = place.lone_store("clone");
    let (mut now, mut version) = take(&store, &key("e"), "a").await;
    for _ in 0..5 {
        now = renewed(&now);
        version = put(&store, &key("e"), Expect::Version(version), &now).await.unwrap();
    }
    let clone = place.clone("clone");
    git(&clone, &["gc", "-q", "--prune=now"]);
    let objects = git(&clone, &["cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"]);
    assert_eq!(objects.lines().filter(|kind| *kind == "commit").count(), 2, "the user's and the tip");
    assert_eq!(document(&store, &key("e")).await, (now, version), "packed refs and objects are found");
}
