//! What goes wrong, told apart.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use baton_store::conformance::documents::{document, key, led, put, renewed, take};
use baton_store::{Change, Expect, Store, StoreError};
use futures_util::StreamExt;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::support::{TestRepository, commit_by_hand, git, open};

/// A bound on a hang.
const HANG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_remote_that_is_gone_is_unavailable_and_comes_back() {
    let place = TestRepository::new();
    let store = place.store("one");
    let (first, version) = take(&store, &key("e"), "a").await;
    let away = place.path().join("away.git");
    std::fs::rename(place.remote(), &away).unwrap();
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("does not appear to be a git repository"), "{error}");
    let expect = Expect::Version(version);
    let error = put(&store, &key("e"), expect.clone(), &renewed(&first)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "nothing was sent: {error:?}");
    std::fs::rename(&away, place.remote()).unwrap();
    assert!(put(&store, &key("e"), expect, &renewed(&first)).await.is_ok());
}

#[tokio::test]
async fn a_watcher_is_told_of_a_gap_when_the_remote_is_back() {
    let place = TestRepository::new();
    let store = place.store("one");
    let _ = take(&store, &key("e"), "a").await;
    let mut changes = store.watch(&key("e")).await.unwrap();
    let away = place.path().join("away.git");
    std::fs::rename(place.remote(), &away).unwrap();
    // Where it was, something else lies. The watcher looks when git opens the file that is there; at the second
    // look it has dealt with the first.
    std::fs::create_dir(place.remote()).unwrap();
    let head = place.remote().join("HEAD");
    std::fs::write(&head, "no repository").unwrap();
    let notices = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&notices, &head, WatchFlags::OPEN).unwrap();
    let looked = async {
        for _ in 0..2 {
            while rustix::io::read(&notices, &mut [0; 1024]).is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    // It looks while somebody listens.
    let told = tokio::spawn(async move { changes.next().await });
    tokio::time::timeout(HANG, looked).await.expect("the watcher looks twice");
    assert!(!told.is_finished(), "there is nothing to tell");
    std::fs::remove_file(head).unwrap();
    std::fs::remove_dir(place.remote()).unwrap();
    std::fs::rename(&away, place.remote()).unwrap();
    let told = tokio::time::timeout(HANG, told).await.expect("it is told of the gap");
    assert_eq!(told.unwrap(), Some(Change::Gap));
}

#[tokio::test]
async fn a_remote_whose_hook_declines_refuses_in_its_own_words() {
    let place = TestRepository::new();
    let hook = place.remote().join("hooks/pre-receive");
    std::fs::write(&hook, "#!/bin/sh\necho 'only on Tuesdays, it already exists' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let store = place.store("one");
    let error = put(&store, &key("e"), Expect::Absent, &led("e", None, "a")).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("pre-receive hook declined"), "{error}");
    assert!(error.to_string().contains("only on Tuesdays"), "{error}");
    assert!(error.hint().contains("refs/baton/*"));
}

#[tokio::test]
async fn a_remote_whose_branches_only_go_forward_lets_a_tip_be_replaced() {
    let place = TestRepository::new();
    git(&place.remote(), &["config", "receive.denyNonFastForwards", "true"]);
    git(&place.remote(), &["config", "receive.denyDeletes", "true"]);
    let store = place.store("one");
    let (first, version) = take(&store, &key("e"), "a").await;
    assert!(put(&store, &key("e"), Expect::Version(version), &renewed(&first)).await.is_ok());
}

#[tokio::test]
async fn a_remote_that_hides_or_protects_the_refs_refuses() {
    let place = TestRepository::new();
    git(&place.remote(), &["config", "receive.hideRefs", "refs/baton"]);
    let store = place.store("one");
    let error = put(&store, &key("e"), Expect::Absent, &led("e", None, "a")).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("hidden ref"), "{error}");
}

#[tokio::test]
async fn records_that_no_baton_wrote_are_refused_and_left_alone() {
    let place = TestRepository::new();
    let store = place.store("one");
    let cases = [
        ("coordinator.json", "{ not json", "not a record of Baton"),
        ("coordinator.json", "{\"format\": 99}", "newer Baton"),
        ("other.json", "{}", "no file coordinator.json"),
    ];
    for (number, (file, text, why)) in cases.into_iter().enumerate() {
        let name = format!("e{number}");
        let refname = format!("refs/baton/{name}");
        let commit = commit_by_hand(&place.remote(), &refname, file, text, None);
        let error = store.read(&key(&name)).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Newer { .. }), why == "newer Baton", "{error:?}");
        assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_string().contains(&refname), "{error}");
        assert_eq!(git(&place.remote(), &["rev-parse", &refname]), commit);
    }
    let _ = take(&store, &key("good"), "a").await;
    git(&place.remote(), &["update-ref", "refs/baton/moved", "refs/baton/good"]);
    let error = store.read(&key("moved")).await.unwrap_err();
    assert!(error.to_string().contains("a record of something else"), "{error}");
}

#[tokio::test]
async fn a_store_that_cannot_be_is_refused_with_a_hint() {
    let place = TestRepository::new();
    let clone = place.clone("one");
    let outside = tempfile::tempdir().unwrap();
    let cases = [
        (format!("git:{}", outside.path().display()), "not a git repository", "git init"),
        (format!("git:{}/nowhere", outside.path().display()), "No such file", "git:DIR"),
        (format!("git:{}?remote=upstream", clone.display()), "no remote `upstream`", "git remote add"),
        (format!("git:{}?remote=--exec=x", clone.display()), "is no remote", "?remote=origin"),
        (format!("git:{}?branch=x", clone.display()), "no parameter `branch`", "remote"),
    ];
    for (url, why, hint) in cases {
        let Err(error) = open(&url) else { panic!("{url} was opened") };
        let misnamed = url.contains("branch");
        assert_eq!(matches!(error, StoreError::Misnamed { .. }), misnamed, "{error:?}");
        assert_eq!(matches!(error, StoreError::Refused { .. }), !misnamed, "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.hint().contains(hint), "{}", error.hint());
    }
}

#[tokio::test]
async fn a_push_without_an_answer_may_have_been_applied() {
    let place = TestRepository::new();
    let hook = place.remote().join("hooks/post-receive");
    std::fs::write(&hook, "#!/bin/sh\nexec sleep 30\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let store = place.store("one").limited_to(Duration::from_secs(6));
    let next = led("e", None, "a");
    let error = put(&store, &key("e"), Expect::Absent, &next).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    std::fs::remove_file(&hook).unwrap();
    assert_eq!(document(&place.store("one"), &key("e")).await.0, next, "as it was here");
}
