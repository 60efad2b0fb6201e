//! A server that is killed, stopped, restarted or cut off, in the middle of a swap and otherwise.

use std::time::{Duration, Instant};

use baton_store::conformance::documents::{document, key, put, renewed, take};
use baton_store::conformance::{Required, required};
use baton_store::{AgeStamp, Change, Expect, Persistence, Record, StoreError};
use futures_util::StreamExt;

use crate::support::private::Server;
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::{TestSchema, store};

#[tokio::test]
async fn a_swap_whose_answer_is_lost_is_unknown_and_was_applied() {
    let Some(place) = TestSchema::new().await else { return };
    let proxy = Proxy::before(&place.server).await;
    let store = store(&format!("{}?table={}.baton&sslmode=disable", proxy.server, place.schema)).unwrap();
    let (first, version) = take(&*store, &key("e"), "a").await;
    let next = renewed(&first);
    proxy.set(ProxyMode::NoAnswers);
    let error = put(&*store, &key("e"), Expect::Version(version), &next).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    proxy.set(ProxyMode::Open);
    assert_eq!(document(&*store, &key("e")).await.0, next, "it was applied, and is found");
}

#[tokio::test]
async fn a_swap_that_is_lost_on_its_way_is_unknown_and_was_not_applied() {
    let Some(place) = TestSchema::new().await else { return };
    let proxy = Proxy::before(&place.server).await;
    let store = store(&format!("{}?table={}.baton&sslmode=disable", proxy.server, place.schema)).unwrap();
    let (first, version) = take(&*store, &key("e"), "a").await;
    let next = renewed(&first);
    // The connection breaks with the question that was read from it, not before.
    proxy.set(ProxyMode::Silent);
    let place_key = key("e");
    let mut swap = Box::pin(put(&*store, &place_key, Expect::Version(version.clone()), &next));
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut swap).await.is_err());
    proxy.set(ProxyMode::NoQuestions);
    let error = swap.await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    proxy.set(ProxyMode::Open);
    assert_eq!(document(&*store, &key("e")).await, (first, version.clone()));
    assert!(put(&*store, &key("e"), Expect::Version(version), &next).await.is_ok());
}

#[tokio::test]
async fn silence_ends_after_a_bound() {
    let Some(place) = TestSchema::new().await else { return };
    let proxy = Proxy::before(&place.server).await;
    let url =
        format!("{}?table={}.baton&sslmode=disable&timeout=6s&connect_timeout=6", proxy.server, place.schema);
    let store = store(&url).unwrap();
    let (first, version) = take(&*store, &key("e"), "a").await;
    proxy.set(ProxyMode::Silent);
    let began = Instant::now();
    let error =
        put(&*store, &key("e"), Expect::Version(version.clone()), &renewed(&first)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(60));
    proxy.set(ProxyMode::Open);
    assert!(
        put(&*store, &key("e"), Expect::Version(version), &renewed(&first)).await.is_ok(),
        "it goes on by itself"
    );
}

#[tokio::test]
async fn a_row_that_somebody_locks_is_unavailable_and_surely_unchanged() {
    let Some(place) = TestSchema::new().await else { return };
    let store = place.store("&timeout=8s");
    let (first, version) = take(&*store, &key("e"), "a").await;
    let other = place.client().await;
    other.batch_execute("BEGIN; SELECT 1 FROM baton FOR UPDATE").await.unwrap();
    let error =
        put(&*store, &key("e"), Expect::Version(version.clone()), &renewed(&first)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("lock timeout"), "{error}");
    let (free, _) = take(&*store, &key("free"), "a").await;
    assert_eq!(free.election.as_str(), "free", "others are not held up");
    assert!(store.read(&key("e")).await.unwrap().found.is_some(), "nor are readers");
    other.batch_execute("COMMIT").await.unwrap();
    assert!(put(&*store, &key("e"), Expect::Version(version), &renewed(&first)).await.is_ok());
}

#[tokio::test]
async fn a_session_that_is_ended_in_the_middle_of_a_swap_is_unknown() {
    let Some(place) = TestSchema::new().await else { return };
    let name = format!("x{}", place.schema);
    let store = place.store(&format!("&application_name={name}&timeout=60s"));
    let (first, version) = take(&*store, &key("e"), "a").await;
    let other = place.client().await;
    other.batch_execute("BEGIN; SELECT 1 FROM baton FOR UPDATE").await.unwrap();
    let end = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}' AND wait_event_type = 'Lock'"
    );
    let (place_key, next) = (key("e"), renewed(&first));
    let swap = put(&*store, &place_key, Expect::Version(version.clone()), &next);
    let ending = async {
        let deadline = Instant::now() + Duration::from_secs(60);
        while place.by_hand(&end).await.is_empty() {
            assert!(Instant::now() < deadline, "the swap does not wait");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (swapped, ()) = tokio::join!(swap, ending);
    assert!(matches!(swapped, Err(StoreError::Unknown { .. })), "{swapped:?}");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(document(&*store, &key("e")).await.1, version);
}

async fn private(settings: &[&str]) -> Option<(Server, TestSchema)> {
    let Required::At(shared) = required("BATON_TEST_POSTGRES") else { return None };
    let server = Server::like(&shared, settings).await;
    let place = TestSchema::laid_out(server.url.clone(), server.url.clone()).await;
    Some((server, place))
}

#[tokio::test]
async fn a_server_that_was_killed_and_started_again_is_used_again() {
    let Some((mut server, place)) = private(&[]).await else { return };
    let store = place.store("");
    let (first, version) = take(&*store, &key("e"), "a").await;
    let mut changes = store.watch(&key("e")).await.unwrap();
    server.kill();
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    let error =
        put(&*store, &key("e"), Expect::Version(version.clone()), &renewed(&first)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "nothing was sent: {error:?}");
    server.start().await;
    let told = tokio::time::timeout(Duration::from_secs(60), changes.next()).await.unwrap();
    assert_eq!(told, Some(Change::Gap));
    assert_eq!(document(&*store, &key("e")).await, (first.clone(), version.clone()));
    assert!(put(&*store, &key("e"), Expect::Version(version), &renewed(&first)).await.is_ok());
    let told = tokio::time::timeout(Duration::from_secs(60), changes.next()).await.unwrap();
    assert_eq!(told, Some(Change::Changed), "the watch goes on");
}

/// Stops, or continues, the sessions of an application.
async fn signal(place: &TestSchema, name: &str, signal: rustix::process::Signal) {
    let pids = format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'");
    for pid in place.by_hand(&pids).await {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

#[tokio::test]
async fn a_server_that_stands_still_may_apply_a_swap_late_and_only_once() {
    let Some((_server, place)) = private(&[]).await else { return };
    let store = place.store("&application_name=stopped&timeout=5s");
    let (first, version) = take(&*store, &key("e"), "a").await;
    signal(&place, "stopped", rustix::process::Signal::STOP).await;
    let late = renewed(&first);
    let error = put(&*store, &key("e"), Expect::Version(version.clone()), &late).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    // Another takes over meanwhile, from the same version; the late swap must not undo it.
    let other = place.store("");
    let (taken, _) = take(&*other, &key("e"), "b").await;
    signal(&place, "stopped", rustix::process::Signal::CONT).await;
    let gone = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'stopped'";
    let deadline = Instant::now() + Duration::from_secs(60);
    while !place.by_hand(gone).await.is_empty() {
        assert!(Instant::now() < deadline, "the session that was stopped does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(document(&*store, &key("e")).await.0, taken);
    // Without another the late swap is applied, and is found.
    let (first, version) = take(&*store, &key("f"), "a").await;
    signal(&place, "stopped", rustix::process::Signal::STOP).await;
    let late = renewed(&first);
    let error = put(&*store, &key("f"), Expect::Version(version), &late).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    signal(&place, "stopped", rustix::process::Signal::CONT).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while document(&*store, &key("f")).await.0 != late {
        assert!(Instant::now() < deadline, "it was sent, so it is applied once the server goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_server_that_may_forget_is_told_not_to() {
    let Some((_server, place)) = private(&["synchronous_commit=off", "wal_writer_delay=10s"]).await else {
        return;
    };
    // What is committed without waiting is flushed by the walwriter, which sleeps.
    let store = place.store("");
    let (_, _) = take(&*store, &key("e"), "a").await;
    let ahead = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()";
    let mut flushed = 0;
    for number in 0..10 {
        let (_, _) = take(&*store, &key("e"), &format!("agent-{number}")).await;
        flushed += usize::from(place.by_hand(ahead).await == ["t"]);
    }
    assert!(flushed >= 8, "a swap is on disk when it is answered: {flushed} of 10");
}

#[tokio::test]
async fn a_standby_is_refused() {
    let Some((mut server, place)) = private(&[]).await else { return };
    let (first, version) = take(&*place.store(""), &key("e"), "a").await;
    server.kill();
    std::fs::write(server.folder().join("data/standby.signal"), "").unwrap();
    server.start().await;
    let store = place.store("");
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("standby"), "{error}");
    let record = Record::Election(Box::new(renewed(&first)));
    let error = store
        .swap(&key("e"), Expect::Version(version), &record, AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(store.watch(&key("e")).await.is_err());
}
