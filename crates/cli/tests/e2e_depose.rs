//! A deposed leader's token is refused at once; its successor starts only once it has stopped or its lease has ended.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Stdio;
use std::time::Duration;

use baton::election::{Moment, Span};
use baton::store::boot;

use crate::support;
use crate::support::watcher::Watcher;
use crate::support::{World, until};

/// Longer than all takes that is asked for while it runs, on a busy machine.
const TTL: Span = Span::secs(12);

/// An operator, and a leader that is not a process. Returns a moment before its lease began.
fn deposable(ttl: Span) -> (World, Moment) {
    let world = World::new();
    world.ok(&["init"]);
    let before = boot::now();
    let granted = world.json(&["acquire", "e", "--as", "a", "--ttl", &ttl.to_string()]);
    assert_eq!(granted["token"], 1);
    world.ok(&["fence", "db", "--election", "e", "--token", "1"]);
    (world, before)
}

/// The token is refused although nobody has succeeded, and the holder is told when it renews.
fn expect_refused(world: &World) {
    let refused = world.call(&["fence", "db", "--token", "1", "--as", "a", "--json"]).expect(5).json();
    assert_eq!(refused["code"], "stale");
    assert_eq!(world.call(&["check", "e", "--token", "1", "--json"]).expect(5).json()["code"], "stale");
    world.call(&["fence", "db", "--token", "1", "--as", "a", "--", "true"]).expect(5);
    world.call(&["renew", "e", "--as", "a"]).expect(4);
}

#[test]
fn the_token_is_refused_before_there_is_a_successor() {
    let (world, _) = deposable(Span::secs(3_600));
    let deposed = world.json(&["depose", "e", "--reason", "goes in circles"]);
    assert_eq!(deposed["ended"], "a");
    assert!(deposed["waits_ms"].as_u64().unwrap() > 0);
    assert!(deposed["token"].as_u64().unwrap() > 1);
    let status = world.status("e");
    assert_eq!((status["state"].as_str(), &status["leader"]), (Some("vacant"), &serde_json::Value::Null));
    assert_eq!(status["outgoing"]["agent"], "a");
    expect_refused(&world);
    world.call(&["acquire", "e", "--as", "b"]).expect(3);
}

#[test]
fn a_successor_waits_for_the_lease_of_one_that_does_not_stop() {
    let (world, before) = deposable(TTL);
    world.ok(&["depose", "e"]);
    let granted = world.json(&["acquire", "e", "--as", "b", "--wait", "50s"]);
    let now = boot::now();
    assert!(now >= before + TTL, "granted {} before the lease had ended", (before + TTL).since(now));
    assert!(granted["token"].as_u64().unwrap() > 2, "{granted}");
    assert_eq!(granted["cause"], "depose");
    expect_refused(&world);
}

#[test]
fn a_successor_follows_at_once_when_the_deposed_one_says_that_it_has_stopped() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "7d"]);
    world.ok(&["depose", "e"]);
    world.call(&["acquire", "e", "--as", "b"]).expect(3);
    // To ask again does not cost it the key that it releases with.
    world.call(&["acquire", "e", "--as", "a"]).expect(4);
    world.ok(&["release", "e", "--as", "a"]);
    // With a lease of a week, to be granted at all is to be granted because of the release.
    world.ok(&["acquire", "e", "--as", "b"]);
    assert_eq!(world.status("e")["leader"]["agent"], "b");
}

#[test]
fn force_does_not_wait() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "7d"]);
    world.ok(&["fence", "db", "--election", "e", "--token", "1"]);
    assert_eq!(world.json(&["depose", "e", "--force"])["waits_ms"], 0);
    expect_refused(&world);
    world.ok(&["acquire", "e", "--as", "b"]);
    expect_refused(&world);
}

#[test]
fn appoint_pause_and_reject_end_a_leadership_as_depose_does() {
    // Each waits for the end of a lease: beside each other.
    std::thread::scope(|scope| {
        for act in [&["appoint", "e", "b"][..], &["pause", "e"], &["reject", "e"]] {
            scope.spawn(move || ends_as_depose_does(act));
        }
    });
}

fn ends_as_depose_does(act: &[&str]) {
    let (world, mut before) = deposable(TTL);
    if act[0] == "reject" {
        world.ok(&["policy", "e", "--approval", "checkpoints"]);
        before = boot::now();
        world.ok(&["checkpoint", "e", "--as", "a", "--summary", "plan"]);
    }
    assert_eq!(world.json(act)["ended"], "a", "{act:?}");
    expect_refused(&world);
    match act[0] {
        "appoint" => world.call(&["acquire", "e", "--as", "c"]).expect(3),
        "pause" => {
            world.call(&["acquire", "e", "--as", "b"]).expect(6);
            world.ok(&["resume", "e"]);
            world.call(&["acquire", "e", "--as", "b"]).expect(3)
        }
        other => {
            assert_eq!(other, "reject");
            world.call(&["acquire", "e", "--as", "b"]).expect(3)
        }
    };
    world.ok(&["acquire", "e", "--as", "b", "--wait", "50s"]);
    assert!(boot::now() >= before + TTL, "{act:?}");
}

/// CMD takes its time when it is asked to end, and notes when it has.
const SLOW_TO_STOP: &str = r#"
trap 'sleep 0.5; cut -d" " -f1 /proc/uptime > "$E2E_WORLD/stopped"; exit 0' TERM
echo "$BATON_TOKEN" > "$E2E_WORLD/leads-$BATON_AGENT"
while :; do sleep 0.05; done
"#;

const NOTES_ITS_START: &str = r#"
cut -d" " -f1 /proc/uptime > "$E2E_WORLD/leads-$BATON_AGENT"
while :; do sleep 0.05; done
"#;

#[test]
fn the_successor_of_a_run_starts_after_its_cmd_has_stopped_and_long_before_its_lease_would_end() {
    let world = World::new();
    world.ok(&["init"]);
    let run = |agent: &str, script: &str| {
        let arguments = ["run", "e", "--as", agent, "--ttl", "1h", "--", "sh", "-c", script];
        world.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let watcher = Watcher::start(&world, "e");
    let mut first = run("a", SLOW_TO_STOP);
    let token = world.read_soon("leads-a").trim().to_string();
    world.ok(&["fence", "db", "--election", "e", "--token", &token]);
    let mut second = run("b", NOTES_ITS_START);

    world.ok(&["depose", "e"]);
    world.call(&["fence", "db", "--token", &token]).expect(5);
    let began: f64 = world.read_soon("leads-b").trim().parse().unwrap();
    let stopped: f64 = world.read_soon("stopped").trim().parse().unwrap();
    assert!(began >= stopped, "began at {began}, and the other stopped at {stopped}");
    world.call(&["fence", "db", "--token", &token]).expect(5);

    for child in [&mut first, &mut second] {
        support::processes::signal(child.id(), rustix::process::Signal::TERM);
        assert!(support::exit_code(child).is_some());
    }
    let findings = watcher.finish();
    assert!(findings.longest_vacancy < Duration::from_secs(30), "{findings:?}");
    until("nothing is left", || support::processes::of_world(world.mark()).is_empty());
}
