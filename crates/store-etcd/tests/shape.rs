//! What etcd's own tool sees, and what is found where Baton did not write it.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use baton_election::Epoch;
use baton_store::{Expect, Prefix, StoreError, Version};

use crate::support;
use crate::support::{agent, document, elections, etcdctl, fresh, inspect, key, led, need, open, put};

#[tokio::test]
async fn etcdctl_shows_leader_and_token() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let store = open(&format!("etcd://{at}/{prefix}")).await.unwrap();
    let absent = store.read(&key("a/b")).await.unwrap();
    let next = led("a/b", "agent-a", absent.trace.unwrap().epoch);
    let version = put(&*store, &key("a/b"), Expect::Absent, &next).await.unwrap().version;
    let shown = etcdctl(&at, &["get", "--prefix", &prefix]);
    assert!(shown.starts_with(&format!("{prefix}/@begun/a/b\n{}\n{prefix}/a/b\n", next.epoch)), "{shown}");
    assert!(shown.contains("\"coordinator\": \"agent-a\""), "{shown}");
    assert!(shown.contains(&format!("\"epoch\": {}", next.epoch)), "{shown}");
    let raw = inspect(&at, &format!("{prefix}/a/b")).unwrap();
    assert_eq!(version, Version::new(&raw["mod_revision"].to_string()));
    assert!(raw["lease"].is_null(), "a record does not end by itself: {raw}");
}

#[tokio::test]
async fn no_epoch_is_above_the_revision() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let store = open(&format!("etcd://{at}/{prefix}")).await.unwrap();
    let floor = store.read(&key("e")).await.unwrap().trace.unwrap().epoch;
    let mut next = led("e", "a", floor);
    assert_eq!(next.epoch, floor.next());
    let mut expect = Expect::Absent;
    for _ in 0..5 {
        let version = put(&*store, &key("e"), expect, &next).await.unwrap().version;
        let revision: u64 = version.as_str().parse().unwrap();
        assert!(next.epoch <= Epoch(revision), "{} is above {revision}", next.epoch);
        expect = Expect::Version(version);
        next.epoch = next.epoch.next();
    }
}

#[tokio::test]
async fn what_baton_did_not_write_is_corrupt_and_stays() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let store = open(&format!("etcd://{at}/{prefix}")).await.unwrap();
    let whole = baton_store::Record::Election(Box::new(led("e", "a", Epoch(1)))).to_json();
    let newer = whole.replacen("\"format\": 1", "\"format\": 99", 1);
    assert_ne!(whole, newer);
    let elsewhere = whole.replace("\"e\"", "\"f\"");
    for (value, words) in [
        ("somebody else's", "not a record"),
        (&whole[..whole.len() / 2], "not a record"),
        (newer.as_str(), "newer Baton"),
        (elsewhere.as_str(), "something else"),
    ] {
        etcdctl(&at, &["put", &format!("{prefix}/e"), value]);
        let error = store.read(&key("e")).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Newer { .. }), words == "newer Baton", "{error:?}");
        assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. }), "{error:?}");
        assert!(!error.hint().is_empty(), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().contains(&format!("`{prefix}/e`")), "{error}");
        let overwritten = put(&*store, &key("e"), Expect::Absent, &led("e", "a", Epoch(1))).await;
        assert!(matches!(overwritten, Err(StoreError::Conflict)), "{overwritten:?}");
        assert_eq!(etcdctl(&at, &["get", "--print-value-only", &format!("{prefix}/e")]), value.trim_end());
    }
}

#[tokio::test]
async fn lists_go_on_over_many_pages() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let store = open(&format!("etcd://{at}/{prefix}")).await.unwrap();
    let names: Vec<String> = (0..2_345).map(|number| format!("e{number:04}")).collect();
    for part in names.chunks(100) {
        let puts: String = part.iter().map(|name| format!("put {prefix}/{name} x\n")).collect();
        transact(&at, &puts);
    }
    let found = store.list(&Prefix::Elections).await.unwrap();
    assert_eq!(found, names.iter().map(|name| key(name)).collect::<Vec<_>>());
}

/// Makes many changes at once.
fn transact(at: &str, changes: &str) {
    use std::io::Write;
    let mut child = std::process::Command::new(std::env::var("BATON_TEST_ETCDCTL").unwrap())
        .args(["--endpoints", at, "txn"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // No condition, the changes, nothing otherwise.
    write!(child.stdin.take().unwrap(), "\n{changes}\n\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
async fn without_a_prefix_the_names_are_the_keys() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let store = open(&format!("etcd://{at}")).await.unwrap();
    let name = fresh();
    let next = led(&name, "a", store.read(&key(&name)).await.unwrap().trace.unwrap().epoch);
    put(&*store, &key(&name), Expect::Absent, &next).await.unwrap();
    assert!(inspect(&at, &name).is_some());
    assert!(store.list(&Prefix::Elections).await.unwrap().contains(&key(&name)));
    assert_eq!(document(&store.read(&key(&name)).await.unwrap()), next);
    assert_eq!(etcdctl(&at, &["del", &name]), "1");
}

#[tokio::test]
async fn elections_of_etcd_are_left_alone() {
    let (at, _) = (need!("BATON_TEST_ETCD"), need!("BATON_TEST_ETCDCTL"));
    let prefix = fresh();
    let native = elections(&at, &prefix).await;
    let credential = support::credential();
    let (election, ttl) = (support::name("e"), baton_election::Span::secs(30));
    native.stand(&election, &agent("a"), &credential, ttl).await.unwrap();
    let store = open(&format!("etcd://{at}/{prefix}")).await.unwrap();
    let info = baton_store::Record::Store(support::store_info());
    for error in [
        store.read(&key("e")).await.map(|_| ()).unwrap_err(),
        put(&*store, &key("e"), Expect::Absent, &led("e", "b", Epoch(1))).await.map(|_| ()).unwrap_err(),
        store
            .swap(
                &baton_store::Key::Store,
                Expect::Absent,
                &info,
                baton_store::AgeStamp::Reset,
                baton_store::Persistence::Durable,
            )
            .await
            .map(|_| ())
            .unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Refused { .. }), "{error:?}");
        assert!(error.hint().contains("?election=etcd"), "{error}");
        assert!(error.to_string().contains(&format!("{prefix}/e/")), "{error}");
    }
    assert!(store.list(&Prefix::Elections).await.unwrap().is_empty(), "a candidate is no election");
    // Other names are free, and once the election is over, so is this one.
    assert!(store.read(&key("f")).await.unwrap().found.is_none());
    assert!(native.leave(&election, &credential).await.unwrap());
    assert!(put(&*store, &key("e"), Expect::Absent, &led("e", "b", Epoch(1))).await.is_ok());
}
