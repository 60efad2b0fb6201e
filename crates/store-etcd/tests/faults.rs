//! Members that are killed, stopped, cut off, or do not let us in.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_election::Epoch;
use baton_store::{Change, Expect, Store, StoreError};
use futures_util::StreamExt;

use crate::support::server::{Server, free_address};
use crate::support::{document, etcdctl, fresh, hasty, key, led, need, open, put, soon, until};

/// Adds to the beat of an election, however often it takes; returns how often the outcome was not known.
///
/// The task lists the name of every addition, so that one of unknown outcome is found under what others have added since.
async fn increment(store: &dyn Store) -> usize {
    let name = fresh();
    let mut unknown = 0;
    loop {
        let reading = match store.read(&key("e")).await {
            Ok(reading) => reading,
            Err(StoreError::Unavailable { .. }) => continue,
            Err(error) => panic!("{error:?}"),
        };
        let mut next = document(&reading);
        let names = next.task.as_deref().unwrap_or_default();
        if names.contains(&name) {
            assert!(unknown > 0, "it was said not to have been applied");
            return unknown;
        }
        next.task = Some(format!("{names} {name}").into());
        next.beat += 1;
        match put(store, &key("e"), reading.expect(), &next).await {
            Ok(_) => return unknown,
            Err(StoreError::Conflict | StoreError::Unavailable { .. }) => {}
            Err(StoreError::Unknown { .. }) => unknown += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
}

async fn begin(store: &dyn Store) {
    let floor = store.read(&key("e")).await.unwrap().trace.unwrap().epoch;
    put(store, &key("e"), Expect::Absent, &led("e", "a", floor)).await.unwrap();
}

async fn beat(store: &dyn Store) -> u64 {
    document(&store.read(&key("e")).await.unwrap()).beat
}

#[tokio::test]
async fn a_killed_member_is_unavailable_and_comes_back() {
    let Some(mut server) = Server::start(1, &[]).await else { return };
    let store = hasty(&format!("etcd://{}/p", server.hosts())).await;
    begin(&store).await;
    let mut changes = store.watch(&key("e")).await.unwrap();
    let before = store.read(&key("e")).await.unwrap();
    server.kill(0);
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains(server.host(0)), "{error}");
    let error = put(&store, &key("e"), before.expect(), &document(&before)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "nothing was sent: {error:?}");
    server.spawn(0);
    server.ready().await;
    assert_eq!(soon("the watch goes on", changes.next()).await, Some(Change::Gap));
    let after = store.read(&key("e")).await.unwrap();
    assert_eq!(after.found, before.found);
    put(&store, &key("e"), after.expect(), &document(&after)).await.unwrap();
    assert_eq!(soon("the watch tells", changes.next()).await, Some(Change::Changed));
}

#[tokio::test]
async fn a_member_stopped_in_the_middle_of_swaps_loses_none() {
    let Some(server) = Server::start(1, &[]).await else { return };
    let url = format!("etcd://{}/p", server.hosts());
    let store = hasty(&url).await;
    begin(&store).await;
    let first = beat(&store).await;
    let (unknown, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (store, unknown, enough) = (hasty(&url).await, unknown.clone(), enough.clone());
        writers.spawn(async move {
            let mut written = 0;
            while !enough.load(Ordering::Relaxed) {
                unknown.fetch_add(increment(&store).await, Ordering::Relaxed);
                written += 1;
            }
            written
        });
    }
    // Until a swap was under way when the member stopped.
    for _ in 0..20 {
        let before = beat(&store).await;
        until("swaps are under way", || async { (beat(&store).await > before + 5).then_some(()) }).await;
        server.stop(0).await;
        let error = store.read(&key("e")).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        server.go_on(0);
        until("it answers again", || async { store.read(&key("e")).await.ok() }).await;
        if unknown.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
    enough.store(true, Ordering::Relaxed);
    let written: u64 = soon("the swaps end", writers.join_all()).await.into_iter().sum();
    assert_eq!(beat(&store).await, first + written, "none is lost, none is doubled");
    assert!(unknown.load(Ordering::Relaxed) > 0, "no outcome was unknown");
}

/// How many watches a member serves, as it says itself.
async fn watches(server: &Server) -> u64 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(server.host(0)).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("etcd_debugging_mvcc_watcher_total "));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_watch_that_is_dropped_ends() {
    let Some(server) = Server::start(1, &[]).await else { return };
    let store = hasty(&format!("etcd://{}/p", server.hosts())).await;
    let before = watches(&server).await;
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(store.watch(&key("e")).await.unwrap());
    }
    until("all have begun", || async { (watches(&server).await == before + 5).then_some(()) }).await;
    drop(open);
    until("all have ended", || async { (watches(&server).await == before).then_some(()) }).await;
}

#[tokio::test]
async fn a_killed_leader_of_three_is_done_without() {
    let Some(mut server) = Server::start(3, &[]).await else { return };
    let store = open(&format!("etcd://{}/p", server.hosts())).await.unwrap();
    begin(&*store).await;
    let first = beat(&*store).await;
    let leader = server.leader();
    let started = Instant::now();
    server.kill(leader);
    for _ in 0..10 {
        increment(&*store).await;
    }
    let took = started.elapsed();
    assert_eq!(beat(&*store).await, first + 10);
    assert!(took < Duration::from_secs(60), "it took {took:?}");
    server.spawn(leader);
    server.ready().await;
}

#[tokio::test]
async fn whichever_member_is_silent_another_answers() {
    let Some(server) = Server::start(3, &[]).await else { return };
    let store = open(&format!("etcd://{}/p", server.hosts())).await.unwrap();
    begin(&*store).await;
    let mut changes = store.watch(&key("e")).await.unwrap();
    let first = beat(&*store).await;
    let started = Instant::now();
    for index in 0..3 {
        server.stop(index).await;
        // A caller that gives up soon is not sent to the silent member again and again.
        let impatient = async {
            while tokio::time::timeout(Duration::from_millis(600), store.read(&key("e"))).await.is_err() {}
        };
        soon("an impatient caller is answered", impatient).await;
        increment(&*store).await;
        server.go_on(index);
    }
    assert!(started.elapsed() < Duration::from_secs(120));
    assert_eq!(beat(&*store).await, first + 3);
    assert!(soon("the watch goes on", changes.next()).await.is_some());
}

#[tokio::test]
async fn a_minority_serves_nobody_and_says_so() {
    let Some(server) = Server::start(3, &[]).await else { return };
    let store = hasty(&format!("etcd://{}/p", server.hosts())).await;
    begin(&store).await;
    let before = store.read(&key("e")).await.unwrap();
    server.stop(0).await;
    server.stop(1).await;
    let error = soon("a read", store.read(&key("e"))).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    let mut next = document(&before);
    next.beat += 1;
    let error = soon("a swap", put(&store, &key("e"), before.expect(), &next)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. } | StoreError::Unknown { .. }), "{error:?}");
    // The one that is left finds out that it has no leader, and does not keep anybody waiting.
    let alone = hasty(&format!("etcd://{}/p", server.host(2))).await;
    let error = until("it says so", || async {
        alone.read(&key("e")).await.err().filter(|error| error.to_string().contains("no leader"))
    })
    .await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    server.go_on(0);
    server.go_on(1);
    until("they serve again", || async { store.read(&key("e")).await.ok() }).await;
}

#[tokio::test]
async fn members_that_are_not_there_do_not_matter() {
    let at = need!("BATON_TEST_ETCD");
    let (gone, prefix) = (free_address(), fresh());
    for hosts in [format!("{gone},{at}"), format!("{at},{gone}"), format!("{gone},{gone},{at}")] {
        for _ in 0..4 {
            let store = open(&format!("etcd://{hosts}/{prefix}")).await.unwrap();
            assert!(soon("a read", store.read(&key("e"))).await.unwrap().found.is_none());
        }
    }
    let store = open(&format!("etcd://{gone}/p")).await.unwrap();
    let error = soon("nobody is there", store.read(&key("e"))).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(soon("nobody is there", store.watch(&key("e"))).await.is_err());
}

#[tokio::test]
async fn something_that_never_answers_is_given_up() {
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = hasty(&format!("etcd://{}/p", deaf.local_addr().unwrap())).await;
    let error = soon("a read", store.read(&key("e"))).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    let error =
        soon("a swap", put(&store, &key("e"), Expect::Absent, &led("e", "a", Epoch(1)))).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
}

/// Lets users in only by password: root, and one that may only read below `p/`.
async fn guarded() -> Option<(Server, String)> {
    let server = Server::start(1, &["--auth-token-ttl=1"]).await?;
    let at = server.hosts();
    for arguments in [
        &["user", "add", "root:rootword"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "reader"],
        &["role", "grant-permission", "reader", "read", "--prefix=true", "p/"],
        &["user", "add", "weak:weakword"],
        &["user", "grant-role", "weak", "reader"],
    ] {
        etcdctl(&at, arguments);
    }
    Some((server, at))
}

#[tokio::test]
async fn who_may_not_is_refused_with_a_hint() {
    let Some((_server, at)) = guarded().await else { return };
    // etcd does not ask yet who asks, and then it does.
    let early = open(&format!("etcd://root:rootword@{at}/p")).await.unwrap();
    begin(&*early).await;
    etcdctl(&at, &["auth", "enable"]);
    put(&*early, &key("f"), Expect::Absent, &led("f", "a", Epoch(1))).await.unwrap();
    let weak = open(&format!("etcd://weak:weakword@{at}/p")).await.unwrap();
    assert!(weak.read(&key("e")).await.unwrap().found.is_some());
    let outside = open(&format!("etcd://weak:weakword@{at}/q")).await.unwrap();
    let nobody = open(&format!("etcd://{at}/p")).await.unwrap();
    let wrong = open(&format!("etcd://root:wrongword@{at}/p")).await.unwrap();
    for (error, hint) in [
        (
            put(&*weak, &key("g"), Expect::Absent, &led("g", "a", Epoch(1))).await.map(|_| ()),
            "grant-permission",
        ),
        (outside.read(&key("e")).await.map(|_| ()), "grant-permission"),
        (outside.watch(&key("e")).await.map(|_| ()), "grant-permission"),
        (nobody.read(&key("e")).await.map(|_| ()), "?user="),
        (nobody.watch(&key("e")).await.map(|_| ()), "?user="),
        (wrong.read(&key("e")).await.map(|_| ()), "password"),
    ] {
        let error = error.unwrap_err();
        assert!(matches!(&error, StoreError::Refused { .. }), "{error:?}");
        assert!(error.hint().contains(hint), "{error}: {}", error.hint());
        assert!(!format!("{error:?} {error}").contains("word@"), "{error:?}");
    }
    assert!(!weak.location().contains("weak"));
}

#[tokio::test]
async fn a_token_that_has_run_out_is_renewed() {
    let Some((_server, at)) = guarded().await else { return };
    etcdctl(&at, &["auth", "enable"]);
    let store = open(&format!("etcd://root:rootword@{at}/p")).await.unwrap();
    begin(&*store).await;
    for round in 0..2 {
        // Tokens last for a second from their last use.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        if round == 0 {
            increment(&*store).await;
        } else {
            assert!(store.watch(&key("e")).await.is_ok());
        }
    }
}

#[tokio::test]
async fn the_wrong_door_is_refused_with_a_hint() {
    let (tls, plain) = (need!("BATON_TEST_ETCD_TLS"), need!("BATON_TEST_ETCD"));
    let ca = need!("BATON_TEST_ETCD_TLS_CA");
    let error = open(&format!("etcd://{tls}/p?tls=true")).await.unwrap().read(&key("e")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.hint().contains("&ca="), "{error}: {}", error.hint());
    // In both directions etcd hangs up without a word, as one that is killed does.
    for url in [format!("etcd://{plain}/p?tls=true&ca={ca}"), format!("etcd://{tls}/p")] {
        let error = open(&url).await.unwrap().read(&key("e")).await.unwrap_err();
        assert!(matches!(&error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(error.hint().contains("tls=true"), "{error}: {}", error.hint());
    }
    let missing = open(&format!("etcd://{plain}/p?ca=/nowhere")).await.err().unwrap();
    assert!(matches!(&missing, StoreError::Refused { .. }), "{missing:?}");
}

#[tokio::test]
async fn who_shows_no_certificate_is_not_let_in() {
    let ca = need!("BATON_TEST_ETCD_TLS_CA");
    let Some(server) = Server::start_with_certificates(&ca).await else { return };
    let (at, cert, key_file) =
        (server.hosts(), ca.replace("ca.crt", "server.crt"), ca.replace("ca.crt", "server.key"));
    let store = open(&format!("etcd://{at}/p?ca={ca}&cert={cert}&key={key_file}")).await.unwrap();
    begin(&*store).await;
    increment(&*store).await;
    let error =
        open(&format!("etcd://{at}/p?tls=true&ca={ca}")).await.unwrap().read(&key("e")).await.unwrap_err();
    assert!(error.hint().contains("&cert="), "{error}: {}", error.hint());
}
