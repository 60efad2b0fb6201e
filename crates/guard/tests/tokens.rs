//! Which writes a guard lets through, and in which order.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use crate::support;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{
    Answer, Fickle, HANG, RunningGuard, Upstream, coordinator, lead, release, settings, succeed,
};
use baton::election::{ResourceName, Span};
use baton_guard::{Guard, Settings, StartError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);

async fn guarded(drain: Duration) -> (Fickle, Upstream, RunningGuard) {
    let (store, upstream) = (Fickle::default(), Upstream::start().await);
    let guard = RunningGuard::start(&store, &upstream.url(), drain).await;
    (store, upstream, guard)
}

/// Asks again while it is told to.
async fn put_at_last(guard: &RunningGuard, path: &str, token: u64) -> Answer {
    let insist = async {
        loop {
            let answer = guard.put(path, token).await;
            if answer.status != 503 {
                return answer;
            }
            assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANG, insist).await.expect("it is never let in")
}

#[tokio::test]
async fn reads_pass_and_writes_need_a_current_token() {
    let (store, upstream, guard) = guarded(LONG).await;
    assert_eq!(guard.get("/a").await.status, 200);
    guard.ask("PUT", "/a", &[], "x").await.expect(428, "no-token");
    guard.ask("PUT", "/a", &[("baton-token", "one")], "x").await.expect(400, "invalid");
    guard.put("/a", 1).await.expect(409, "unknown-election");
    let first = lead(&store, "a", Span::secs(600)).await;
    assert_eq!(guard.put("/a", 1).await.status, 200);
    let never = guard.put("/a", 7).await.expect(409, "stale");
    assert_eq!((&never["shown"], &never["current"]), (&7.into(), &1.into()));
    succeed(&store, &first, "b").await;
    let past = guard.put("/a", 1).await.expect(409, "stale");
    assert_eq!(past["current"], 2);
    assert_eq!(guard.put("/a", 2).await.status, 200);
    assert_eq!(guard.put("/a", 1).await.expect(409, "stale")["current"], 2);
    let writes = upstream.seen().iter().filter(|seen| seen.method == "PUT").count();
    assert_eq!(writes, 2);
}

#[tokio::test]
async fn who_has_given_the_lease_back_or_let_it_run_out_is_refused() {
    let (store, _, guard) = guarded(LONG).await;
    let first = lead(&store, "a", Span::secs(600)).await;
    assert_eq!(guard.put("/a", 1).await.status, 200);
    release(&store, &first).await;
    let refused = tokio::time::timeout(HANG, async {
        loop {
            let answer = guard.put("/a", 1).await;
            if answer.status != 200 {
                return answer;
            }
        }
    });
    // Until the guard has heard of it, and nobody else has written.
    refused.await.unwrap().expect(409, "stale");
    lead(&store, "b", Span::secs(5)).await;
    assert_eq!(put_at_last(&guard, "/b", 2).await.status, 200);
    let over = tokio::time::timeout(HANG, async {
        loop {
            let answer = guard.put("/b", 2).await;
            if answer.status != 200 {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let over = over.await.expect("it never runs out").expect(409, "stale");
    assert!(over["detail"].as_str().unwrap().contains("run out"), "{over}");
}

#[tokio::test]
async fn a_usual_write_asks_the_store_for_nothing() {
    let (store, _, guard) = guarded(LONG).await;
    lead(&store, "a", Span::secs(600)).await;
    assert_eq!(guard.put("/a", 1).await.status, 200);
    let before = store.asked.load(Ordering::SeqCst);
    let begun = std::time::Instant::now();
    for _ in 0..200 {
        assert_eq!(guard.put("/a", 1).await.status, 200);
    }
    let asked = store.asked.load(Ordering::SeqCst) - before;
    // The hold is kept every second, by some three requests; the follower looks every five.
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap() + 2;
    assert!(asked <= 6 * seconds, "{asked} requests to the store in {seconds} s");
}

#[tokio::test]
async fn a_higher_token_waits_for_the_requests_of_the_lower() {
    let (store, upstream, guard) = guarded(SHORT).await;
    let first = lead(&store, "a", Span::secs(600)).await;
    let slow = async { guard.put("/slow/1", 1).await };
    let next = async {
        upstream.until("begin /slow/1").await;
        succeed(&store, &first, "b").await;
        let told = guard.put("/2", 2).await;
        told.expect(503, "draining");
        assert_eq!(told.header("retry-after"), Some("1"));
        guard.put("/late", 1).await.expect(409, "stale");
        upstream.go();
        put_at_last(&guard, "/2", 2).await
    };
    let (slow, next) = tokio::join!(slow, next);
    assert_eq!((slow.status, next.status), (200, 200), "{slow:?}");
    assert_eq!(upstream.events(), ["begin /slow/1", "end /slow/1", "begin /2", "end /2"]);
}

#[tokio::test]
async fn a_write_whose_client_has_gone_is_waited_for_all_the_same() {
    let (store, upstream, guard) = guarded(SHORT).await;
    let first = lead(&store, "a", Span::secs(600)).await;
    let mut client = TcpStream::connect(guard.address).await.unwrap();
    let request = "PUT /slow/1 HTTP/1.1\r\nhost: g\r\nbaton-token: 1\r\ncontent-length: 1\r\n\r\nx";
    client.write_all(request.as_bytes()).await.unwrap();
    upstream.until("begin /slow/1").await;
    drop(client);
    succeed(&store, &first, "b").await;
    for _ in 0..3 {
        guard.put("/2", 2).await.expect(503, "draining");
    }
    upstream.go();
    assert_eq!(put_at_last(&guard, "/2", 2).await.status, 200);
    assert_eq!(upstream.events(), ["begin /slow/1", "end /slow/1", "begin /2", "end /2"]);
}

#[tokio::test]
async fn a_write_that_never_arrives_whole_is_cut_off_for_the_next_leader() {
    let (store, upstream, guard) = guarded(SHORT).await;
    let first = lead(&store, "a", Span::secs(600)).await;
    let mut client = TcpStream::connect(guard.address).await.unwrap();
    let request = "PUT /1 HTTP/1.1\r\nhost: g\r\nbaton-token: 1\r\ncontent-length: 100\r\n\r\nonly this";
    client.write_all(request.as_bytes()).await.unwrap();
    upstream.until("begin /1").await;
    succeed(&store, &first, "b").await;
    guard.put("/2", 2).await.expect(503, "draining");
    assert_eq!(put_at_last(&guard, "/2", 2).await.status, 200);
    upstream.until("broken /1").await;
    assert!(upstream.seen().iter().all(|seen| seen.path != "/1" || seen.body.is_none()));
}

#[tokio::test]
async fn nothing_follows_of_a_write_that_was_answered_before_it_had_arrived_whole() {
    let (store, listener) = (Fickle::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let guard =
        RunningGuard::start(&store, &format!("http://{}", listener.local_addr().unwrap()), LONG).await;
    let first = lead(&store, "a", Span::secs(600)).await;
    let mut client = TcpStream::connect(guard.address).await.unwrap();
    let head = "PUT /1 HTTP/1.1\r\nhost: g\r\nbaton-token: 1\r\ncontent-length: 1000000\r\n\r\n";
    client.write_all(format!("{head}0123456789").as_bytes()).await.unwrap();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let mut early = listener.accept().await.unwrap().0;
    read_until(&mut early, "0123456789").await;
    early.write_all(answer).await.unwrap();
    read_until(&mut client, "200 OK").await;
    succeed(&store, &first, "b").await;
    let next = async {
        let mut next = listener.accept().await.unwrap().0;
        read_until(&mut next, "body").await;
        // The former leader goes on sending.
        let _ = client.write_all(&[b'x'; 999_990]).await;
        next.write_all(answer).await.unwrap();
        next
    };
    let (answered, _next) = tokio::join!(guard.put("/2", 2), next);
    assert_eq!(answered.status, 200);
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(HANG, early.read_to_end(&mut rest)).await.expect("it is kept open");
    assert_eq!(rest.len(), 0, "it came after the next leader's write");
}

/// Reads until some text has come.
async fn read_until(stream: &mut TcpStream, text: &str) {
    let mut bytes = Vec::new();
    let arrival = async {
        while !String::from_utf8_lossy(&bytes).contains(text) {
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "it ends: {bytes:?}");
        }
    };
    tokio::time::timeout(HANG, arrival).await.unwrap_or_else(|_| panic!("never came: {text}"));
}

#[tokio::test]
async fn tokens_that_were_never_given_keep_no_leader_out() {
    let (store, _, guard) = guarded(LONG).await;
    lead(&store, "a", Span::secs(600)).await;
    store.stalled.send_replace(true);
    let before = store.asked.load(Ordering::SeqCst);
    let mut clients = Vec::new();
    for token in (1_000..1_100).chain([1]) {
        let mut client = TcpStream::connect(guard.address).await.unwrap();
        let head =
            format!("PUT /{token} HTTP/1.1\r\nhost: g\r\nbaton-token: {token}\r\nconnection: close\r\n");
        client.write_all(format!("{head}content-length: 0\r\n\r\n").as_bytes()).await.unwrap();
        clients.push(client);
    }
    // Time for answers that nobody should get before the store has been asked.
    assert!(tokio::time::timeout(SHORT, clients[99].readable()).await.is_err(), "it was not asked");
    store.stalled.send_replace(false);
    let mut leader = clients.pop().unwrap();
    for mut client in clients {
        read_until(&mut client, "HTTP/1.1 409").await;
    }
    read_until(&mut leader, "HTTP/1.1 200").await;
    let asked = store.asked.load(Ordering::SeqCst) - before;
    assert!(asked < 100, "{asked} questions for 101 tokens at once");
}

#[tokio::test]
async fn a_leader_that_does_not_take_its_answer_holds_nobody_up() {
    let (store, upstream, guard) = guarded(LONG).await;
    let first = lead(&store, "a", Span::secs(600)).await;
    let mut client = TcpStream::connect(guard.address).await.unwrap();
    let request = "PUT /large HTTP/1.1\r\nhost: g\r\nbaton-token: 1\r\ncontent-length: 1\r\n\r\nx";
    client.write_all(request.as_bytes()).await.unwrap();
    upstream.until("end /large").await;
    succeed(&store, &first, "b").await;
    let begun = std::time::Instant::now();
    assert_eq!(guard.put("/2", 2).await.status, 200);
    assert!(begun.elapsed() < Duration::from_secs(20), "it waited for the limit on a request");
    drop(client);
}

#[tokio::test]
async fn a_write_that_takes_too_long_is_given_up_and_the_next_leader_goes_on() {
    let (store, upstream) = (Fickle::default(), Upstream::start().await);
    let limit = Duration::from_secs(1);
    let guard = RunningGuard::with(&store, Settings { limit, ..settings(&upstream.url()) }).await;
    let first = lead(&store, "a", Span::secs(600)).await;
    guard.put("/slow/1", 1).await.expect(504, "upstream");
    guard.get("/slow/read").await.expect(504, "upstream");
    succeed(&store, &first, "b").await;
    assert_eq!(guard.put("/2", 2).await.status, 200);
}

#[tokio::test]
async fn without_the_store_writes_end_with_the_hold_and_reads_pass() {
    let (store, upstream, guard) = guarded(SHORT).await;
    lead(&store, "a", Span::secs(600)).await;
    assert_eq!(guard.put("/a", 1).await.status, 200);
    store.down.store(true, Ordering::SeqCst);
    assert_eq!(guard.put("/a", 1).await.status, 200, "nobody else can have been let in");
    let refused = tokio::time::timeout(HANG, async {
        loop {
            let answer = guard.put("/a", 1).await;
            if answer.status != 200 {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    refused.await.expect("the hold ends").expect(503, "unavailable");
    assert_eq!(guard.get("/a").await.status, 200);
    store.down.store(false, Ordering::SeqCst);
    assert_eq!(put_at_last(&guard, "/back", 1).await.status, 200);
    upstream.until("end /back").await;
}

#[tokio::test]
async fn of_several_guards_of_one_resource_one_is_open_at_a_time() {
    let (store, upstream, guard) = guarded(LONG).await;
    let other = RunningGuard::start(&store, &upstream.url(), SHORT).await;
    let first = lead(&store, "a", Span::secs(600)).await;
    let slow = async { guard.put("/slow/1", 1).await };
    let rest = async {
        upstream.until("begin /slow/1").await;
        other.put("/1", 1).await.expect(503, "held");
        succeed(&store, &first, "b").await;
        other.put("/2", 2).await.expect(503, "held");
        // Longer than the hold: it is kept in the name of the new leader while the old one's request is under way.
        tokio::time::sleep(Duration::from_secs(7)).await;
        other.put("/2", 2).await.expect(503, "held");
        upstream.go();
        put_at_last(&other, "/2", 2).await
    };
    let (slow, rest) = tokio::join!(slow, rest);
    assert_eq!((slow.status, rest.status), (200, 200));
    assert_eq!(upstream.events(), ["begin /slow/1", "end /slow/1", "begin /2", "end /2"]);
    guard.put("/1", 1).await.expect(409, "stale");
}

#[tokio::test]
async fn a_guard_that_stops_gives_its_hold_back_and_one_that_was_killed_is_waited_for() {
    let (store, upstream, guard) = guarded(LONG).await;
    lead(&store, "a", Span::secs(600)).await;
    assert_eq!(guard.put("/1", 1).await.status, 200);
    let resource = ResourceName::new("orders").unwrap();
    let hold = async || coordinator(&store).fences().get(&resource).await.unwrap().unwrap().fence.hold;
    assert!(hold().await.is_some());
    guard.stop().await;
    assert!(hold().await.is_none());
    // One that holds the fence and keeps nothing.
    let run = baton::mint_credential().unwrap();
    let entry = baton::election::fence::Entry {
        resource: &resource,
        token: baton::election::Epoch(1),
        agent: None,
        note: "",
        hold: Some(baton::election::fence::HoldRequest::short(run, Span::secs(2))),
    };
    let begun = std::time::Instant::now();
    coordinator(&store).fences().admit(&entry, None).await.unwrap();
    let guard = RunningGuard::start(&store, &upstream.url(), LONG).await;
    assert_eq!(guard.put("/2", 1).await.status, 200);
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_idle_guard_gives_its_hold_back_and_the_next_is_another() {
    let (store, _, guard) = guarded(LONG).await;
    lead(&store, "a", Span::secs(600)).await;
    let resource = ResourceName::new("orders").unwrap();
    let hold = async || coordinator(&store).fences().get(&resource).await.unwrap().unwrap().fence.hold;
    assert_eq!(guard.put("/1", 1).await.status, 200);
    let first = hold().await.unwrap().incarnation;
    let given_back = async {
        while hold().await.is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(HANG, given_back).await.expect("it is kept for ever");
    assert_eq!(guard.put("/2", 1).await.status, 200);
    // A word that was sent to end the first, and comes late.
    let late = baton::election::Credential { incarnation: first, ..baton::mint_credential().unwrap() };
    coordinator(&store).fences().leave(&resource, &late).await.unwrap();
    assert_ne!(hold().await.expect("it ended another").incarnation, first);
}

/// Everybody who may look at a fence sees the incarnation of its hold, and every client of the upstream the name in `Via`.
#[tokio::test]
async fn nobody_ends_the_hold_of_a_guard_by_what_it_can_see() {
    let (store, upstream, guard) = guarded(LONG).await;
    let first = lead(&store, "a", Span::secs(600)).await;
    let resource = ResourceName::new("orders").unwrap();
    let hold = async || coordinator(&store).fences().get(&resource).await.unwrap().unwrap().fence.hold;
    let slow = async {
        let begun = guard.put("/slow", 1).await;
        assert_eq!(begun.status, 200);
    };
    let attack = async {
        upstream.until("begin /slow").await;
        let seen = hold().await.unwrap();
        let via = upstream.seen()[0].headers.get("via").unwrap().to_str().unwrap().to_string();
        assert!(!via.contains(&seen.incarnation.to_string()), "{via} names the hold {}", seen.incarnation);
        let stolen = baton::election::Credential {
            incarnation: seen.incarnation,
            ..baton::mint_credential().unwrap()
        };
        let attacker = coordinator(&store);
        let left = attacker.fences().leave(&resource, &stolen).await.unwrap_err();
        assert_eq!(left.code(), "wrong-key", "{left}");
        let kept = attacker.fences().keep(&resource, &support::election(), &stolen).await.unwrap_err();
        assert_eq!(kept.code(), "wrong-key", "{kept}");
        assert_eq!(hold().await, Some(seen));
        // So the next leader is not let in by another guard while the slow write is under way.
        let other = RunningGuard::start(&store, &upstream.url(), SHORT).await;
        let next = succeed(&store, &first, "b").await;
        other.put("/next", next.epoch.0).await.expect(503, "held");
        assert!(!upstream.events().iter().any(|event| event == "begin /next"), "{:?}", upstream.events());
        upstream.go();
    };
    tokio::join!(slow, attack);
}

#[tokio::test]
async fn a_resource_of_another_election_is_refused_at_the_start() {
    let (store, upstream, guard) = guarded(LONG).await;
    lead(&store, "a", Span::secs(600)).await;
    assert_eq!(guard.put("/1", 1).await.status, 200);
    let listener = Guard::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let other = Settings { election: "other".parse().unwrap(), ..settings(&upstream.url()) };
    let refused = Guard::start(listener, coordinator(&store), other).await.err();
    assert!(matches!(&refused, Some(StartError::Bound { election, .. }) if election.as_str() == "e"));
    for url in ["ftp://a", "http://", "127.0.0.1:1", "http://u:p@a/", "http://a/?q=1", ""] {
        let listener = Guard::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let refused = Guard::start(listener, coordinator(&store), settings(url)).await.err();
        assert!(matches!(&refused, Some(StartError::Upstream { .. })), "{url}: {refused:?}");
    }
}
