//! `baton judge --webhook`: a service elsewhere judges what the leader leaves, over real HTTP.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use serde_json::json;

use crate::support;
use crate::support::receiver::{Delivery, answer, receive_at, receiver, secret_file};
use crate::support::{HANG, World, exit_code, until};

const SECRET: &str = "a secret of the judge and the service";

/// A world in which `a` leads `e` under this policy, and `reviewer` may judge.
fn world(policy: &[&str]) -> World {
    let world = World::folder();
    world.ok(&["init"]);
    world.ok(&[&["policy", "e", "--watcher", "reviewer"], policy].concat());
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    secret_file(&world.file("secret"), SECRET);
    world
}

/// A judge that runs by itself; what it says is in the file `said`.
fn judge(world: &World, url: &str, more: &[&str]) -> Child {
    let judge = ["judge", "e", "--as", "reviewer", "--webhook", url, "--webhook-secret-file", "secret"];
    let mut command = world.command(&[&judge, more].concat());
    let said = File::create(world.file("said")).unwrap();
    command.stdout(Stdio::null()).stderr(said).spawn().unwrap()
}

fn said(world: &World) -> String {
    std::fs::read_to_string(world.file("said")).unwrap_or_default()
}

#[track_caller]
fn until_said(world: &World, text: &str) {
    until(&format!("it says {text:?}"), || said(world).contains(text));
}

fn checkpoint(world: &World, summary: &str) {
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", summary]);
}

fn summary(posted: &Delivery) -> String {
    posted.json()["checkpoint"]["summary"].as_str().unwrap().to_string()
}

/// An answer to what was posted.
fn verdict(posted: &Delivery, verdict: &str, reason: &str) -> String {
    let body = json!({"key": posted.json()["key"], "verdict": verdict, "reason": reason});
    answer("200 OK", &body.to_string())
}

fn leads(world: &World, agent: &str) -> bool {
    world.status("e")["leader"]["agent"] == agent
}

#[test]
fn its_verdicts_end_a_leadership_as_the_policy_says() {
    let world = world(&["--performance", "2/3", "--cool-off", "1h"]);
    let (url, posted) = receiver(|posted| match summary(posted).as_str() {
        "one" => verdict(posted, "pass", "all tests pass"),
        _ => verdict(posted, "fail", "one test fails"),
    });
    let mut judge = judge(&world, &url, &["--verdicts", "3"]);
    checkpoint(&world, "one");
    until_said(&world, "checkpoint 1 of a: good: all tests pass");
    checkpoint(&world, "two");
    until_said(&world, "checkpoint 2 of a: bad: one test fails");
    world.ok(&["check", "e", "--token", "1"]);
    checkpoint(&world, "three");
    until_said(&world, "checkpoint 3 of a: bad: one test fails; the leadership of a has ended");
    world.call(&["check", "e", "--token", "1"]).expect(5);
    assert_eq!(exit_code(&mut judge), Some(0));
    assert!(world.status("e")["departure"]["reason"].as_str().unwrap().contains("one test fails"));

    for (seq, summary) in (1..).zip(["one", "two", "three"]) {
        let posted = posted.recv_timeout(HANG).unwrap();
        assert!(posted.is_signed_with(SECRET) && !posted.is_signed_with("another secret of sorts"));
        let told = posted.json();
        let checkpoint = &told["checkpoint"];
        assert_eq!((&told["type"], &told["election"]), (&"checkpoint".into(), &"e".into()), "{told}");
        assert_eq!((&told["leader"], &told["token"]), (&"a".into(), &1.into()), "{told}");
        assert_eq!((&checkpoint["seq"], &checkpoint["summary"]), (&seq.into(), &summary.into()), "{told}");
        let key = format!("e:1:{seq}:{}", checkpoint["hash"].as_str().unwrap());
        assert_eq!((told["key"].as_str().unwrap(), &posted.delivery), (key.as_str(), &key));
    }
}

#[test]
fn what_is_no_answer_to_the_question_is_no_verdict_and_it_is_asked_again() {
    // The first bad verdict would end the leadership.
    let world = world(&[]);
    let (elsewhere, misled) = receiver(|posted| verdict(posted, "fail", "who asks me?"));
    let asked = AtomicUsize::new(0);
    let (url, posted) = receiver(move |posted| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => verdict(posted, "fail", "").replace("200 OK", "503 Service Unavailable"),
        1 => format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n"),
        2 => verdict(posted, "fail", &"long ".repeat(100_000)),
        3 => verdict(posted, "fail", "").replace("e:1:1:", "e:1:0:"),
        _ => verdict(posted, "pass", ""),
    });
    checkpoint(&world, "one");
    let mut judge = judge(&world, &url, &["--verdicts", "1", "--timeout", "10m"]);
    assert_eq!(exit_code(&mut judge), Some(0), "{}", said(&world));
    let said = said(&world);
    for none in [
        "none: it answered 503 Service Unavailable; it is asked again in ",
        "none: it answered 307 Temporary Redirect; it is asked again in ",
        "none: its answer has more than 65536 bytes; it is asked again in ",
        "none: its answer is about something else than it was asked; it is asked again in ",
    ] {
        assert_eq!(said.matches(none).count(), 1, "{none}\n{said}");
    }
    assert!(said.ends_with("checkpoint 1 of a: good\n") && !said.contains("bad"), "{said}");
    assert!(misled.try_recv().is_err(), "what is signed for one is not sent to another");
    let keys: Vec<String> = posted.try_iter().map(|posted| posted.delivery).collect();
    assert!(keys.len() == 5 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    world.ok(&["check", "e", "--token", "1"]);
}

#[test]
fn a_late_answer_is_no_verdict() {
    let world = world(&[]);
    let (late, is_late) = channel::<()>();
    let (is_late, asked) = (Mutex::new(is_late), AtomicUsize::new(0));
    let (url, _posted) = receiver(move |posted| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => {
            is_late.lock().unwrap().recv_timeout(HANG).unwrap();
            verdict(posted, "fail", "too late")
        }
        _ => verdict(posted, "pass", ""),
    });
    checkpoint(&world, "one");
    let mut judge = judge(&world, &url, &["--verdicts", "1", "--timeout", "3s"]);
    until_said(&world, "checkpoint 1 of a: none: it did not answer within 3s; it is asked again in ");
    late.send(()).unwrap();
    assert_eq!(exit_code(&mut judge), Some(0), "{}", said(&world));
    let said = said(&world);
    assert!(said.ends_with("checkpoint 1 of a: good\n") && !said.contains("too late"), "{said}");
    world.ok(&["check", "e", "--token", "1"]);
}

#[test]
fn a_service_that_is_away_is_asked_until_it_is_back() {
    let world = world(&[]);
    // An address of this test alone: nobody is lent its port meanwhile.
    let id = std::process::id();
    let host = format!("127.77.{}.{}:0", (id >> 8) & 255, id & 255);
    let address = TcpListener::bind(host).unwrap().local_addr().unwrap();
    checkpoint(&world, "one");
    let mut judge = judge(&world, &format!("http://{address}/hook"), &["--verdicts", "1"]);
    until_said(&world, "checkpoint 1 of a: none: ");
    world.ok(&["check", "e", "--token", "1"]);
    let (_, posted) = receive_at(TcpListener::bind(address).unwrap(), |posted| verdict(posted, "fail", "no"));
    until_said(&world, "checkpoint 1 of a: bad: no; the leadership of a has ended");
    assert_eq!(exit_code(&mut judge), Some(0));
    assert!(posted.recv_timeout(HANG).unwrap().is_signed_with(SECRET));
    world.call(&["check", "e", "--token", "1"]).expect(5);
}

#[test]
fn a_verdict_on_what_is_over_is_dropped() {
    let world = world(&[]);
    let (go, going) = channel::<()>();
    let going = Mutex::new(going);
    let (url, posted) = receiver(move |posted| {
        if summary(posted) == "two" {
            return verdict(posted, "pass", "");
        }
        going.lock().unwrap().recv_timeout(HANG).unwrap();
        verdict(posted, "fail", "it is bad")
    });
    let mut judge = judge(&world, &url, &["--verdicts", "1", "--timeout", "10m"]);
    // A checkpoint that is replaced while it is judged.
    checkpoint(&world, "one");
    assert_eq!(summary(&posted.recv_timeout(HANG).unwrap()), "one");
    checkpoint(&world, "two");
    go.send(()).unwrap();
    assert_eq!(exit_code(&mut judge), Some(0), "{}", said(&world));
    let first = said(&world);
    assert!(
        first.contains("checkpoint 1 of a: stale: ") && first.contains("checkpoint 2 of a: good"),
        "{first}"
    );
    assert!(leads(&world, "a"), "{first}");
    assert_eq!(summary(&posted.recv_timeout(HANG).unwrap()), "two");

    // A leadership that is over when its checkpoint has been judged.
    let mut judge = self::judge(&world, &url, &["--timeout", "10m"]);
    until_said(&world, "checkpoint 2 of a: good");
    assert_eq!(summary(&posted.recv_timeout(HANG).unwrap()), "two");
    checkpoint(&world, "three");
    assert_eq!(summary(&posted.recv_timeout(HANG).unwrap()), "three");
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);
    go.send(()).unwrap();
    until_said(&world, "checkpoint 3 of a: stale: ");
    assert!(leads(&world, "b"), "{}", said(&world));
    support::processes::signal(judge.id(), rustix::process::Signal::TERM);
    assert_eq!(exit_code(&mut judge), Some(0));
}

#[test]
fn a_command_and_a_webhook_exclude_each_other_and_nothing_is_sent_in_the_open() {
    let world = world(&[]);
    let refused = |more: &[&str], why: &str| {
        let refused = world.call(&[&["judge", "e", "--as", "reviewer"], more].concat()).expect(2);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        assert!(!refused.stderr.contains("hidden"), "{}", refused.stderr);
    };
    let secret = ["--webhook-secret-file", "secret"];
    let hook = |url: &'static str| [&["--webhook", url], &secret[..]].concat();
    refused(&[&hook("https://127.0.0.1/")[..], &["--", "true"]].concat(), "cannot be used with");
    refused(&[], "required");
    refused(&["--webhook", "https://127.0.0.1/"], "--webhook-secret-file <FILE>");
    refused(&secret, "--webhook <URL>");
    refused(&[&secret[..], &["--", "true"]].concat(), "cannot be used with");
    refused(&hook("http://example.org/hidden"), "over http:// everybody on the way");
    refused(&hook("http://10.0.0.1/hidden"), "use https://, or a tunnel to 127.0.0.1");
    refused(&hook("ftp://example.org/hidden"), "it is not http://… or https://…");
    refused(&hook("http://me:hidden@127.0.0.1/"), "a password, which is sent to nobody");
    secret_file(&world.file("secret"), "short");
    refused(&hook("http://127.0.0.1/hidden"), "shorter than 16 bytes");
}
