//! `baton fence`: a resource is touched only with a current token.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{World, exit_code, processes, until};

/// `a` leads `e` with token 1, and the resource `db` belongs to it.
fn guarded() -> World {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.ok(&["fence", "db", "--election", "e", "--token", "1"]);
    world
}

#[test]
fn the_mark_never_goes_back_and_every_acceptance_is_logged() {
    let world = guarded();
    assert_eq!(world.json(&["fence", "db", "--token", "1"])["outcome"], "accepted");
    world.ok(&["release", "e", "--as", "a"]);
    world.call(&["fence", "db", "--token", "1"]).expect(5);
    world.ok(&["acquire", "e", "--as", "b"]);
    world.call(&["fence", "db", "--token", "1"]).expect(5);
    world.ok(&["fence", "db", "--token", "2", "--as", "b", "--note", "migrate"]);
    assert_eq!(world.call(&["fence", "db", "--token", "3"]).code, 5, "a token that was never given");
    let log = world.ok(&["fence", "db", "--log", "--json"]).jsons();
    let tokens: Vec<_> = log.iter().map(|entry| entry["token"].as_u64().unwrap()).collect();
    assert_eq!(tokens, [1, 1, 2]);
    assert_eq!((&log[2]["agent"], &log[2]["note"]), (&json!("b"), &json!("migrate")));
    assert_eq!(world.ok(&["fence", "--log", "--json"]).jsons(), log);
}

#[test]
fn a_resource_belongs_to_the_election_of_its_first_use() {
    let world = guarded();
    world.ok(&["acquire", "other", "--as", "z"]);
    let refused =
        world.call(&["fence", "db", "--election", "other", "--token", "1", "--json"]).expect(2).json();
    assert!(refused["message"].as_str().unwrap().contains("belongs to the election `e`"), "{refused}");
    world.call(&["fence", "new", "--token", "1"]).expect(2);
    world.call(&["fence", "new", "--election", "unknown", "--token", "1"]).expect(1);
    world.call(&["fence", "db"]).expect(2);
}

#[test]
fn an_operator_binds_a_resource_to_another_election_and_no_mark_goes_back() {
    let world = guarded();
    world.ok(&["init"]);
    world.ok(&["acquire", "other", "--as", "z", "--ttl", "1h"]);
    let show = |election: &str| world.call(&["fence", "db", "--election", election, "--token", "1"]);
    show("other").expect(2);
    // Another user has a key of its own, which is not an operator's here.
    world.call_elsewhere(&["operator", "key"]).expect(0);
    world.call_elsewhere(&["fence", "db", "--bind", "other"]).expect(6);
    let bound = world.json(&["fence", "db", "--bind", "other"]);
    assert_eq!((&bound["outcome"], &bound["election"]), (&json!("bound"), &json!("other")), "{bound}");
    assert_eq!(bound["highest"], 0, "its tokens count from its own mark: {bound}");
    show("other").expect(0);
    show("e").expect(2);
    // After a new leader of `e` and a way back, the token of the former is refused all the same.
    world.ok(&["fence", "db", "--free"]);
    show("e").expect(0);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "1h"]);
    world.ok(&["fence", "db", "--election", "e", "--token", "2"]);
    world.ok(&["fence", "db", "--bind", "other"]);
    assert_eq!(world.json(&["fence", "db", "--bind", "e"])["highest"], 2);
    show("e").expect(5);
    let log = world.ok(&["fence", "db", "--log", "--json"]).jsons();
    let notes = log.iter().filter(|entry| entry["note"].as_str().unwrap().contains("bound it to")).count();
    assert_eq!(notes, 3, "{log:?}");
    world.call(&["fence", "db", "--bind", "e", "--free"]).expect(2);
    world.call(&["fence", "nothing", "--free"]).expect(2);
    world.call(&["fence", "--bind", "e"]).expect(2);
}

#[test]
fn the_log_is_whole_however_long_it_grows() {
    let world = guarded();
    for _ in 0..4 {
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| world.ok(&["fence", "db", "--token", "1"]));
            }
        });
    }
    let log = world.ok(&["fence", "db", "--log", "--json"]).jsons();
    let numbers: Vec<u64> = log.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=161).collect::<Vec<u64>>());
}

#[test]
fn nobody_else_gets_in_while_a_command_runs_on_the_resource() {
    let world = guarded();
    let script = r#"echo in > "$E2E_WORLD/in"; while [ ! -e "$E2E_WORLD/end" ]; do sleep 0.02; done; exit 6"#;
    let mut holder = world
        .command(&["fence", "db", "--token", "1", "--", "sh", "-c", script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    world.read_soon("in");
    let refused = world.call(&["fence", "db", "--token", "1", "--wait", "100ms", "--json"]).expect(3).json();
    assert_eq!(refused["code"], "held");
    std::fs::write(world.file("end"), "").unwrap();
    assert_eq!(exit_code(&mut holder), Some(6), "the exit code is that of CMD");
    world.ok(&["fence", "db", "--token", "1"]);
}

/// A command that waits for a resource says so, and a command that has waited long enough says for what.
#[test]
fn who_waits_for_a_resource_is_told_why() {
    let world = guarded();
    let script = r#"echo in > "$E2E_WORLD/in"; while [ ! -e "$E2E_WORLD/end" ]; do sleep 0.02; done"#;
    let mut holder = world
        .command(&["fence", "db", "--token", "1", "--", "sh", "-c", script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    world.read_soon("in");
    let refused = world.call(&["fence", "db", "--token", "1", "--wait", "0s"]).expect(3).stderr;
    assert!(refused.contains("error: another command is at db, with token 1"), "{refused}");
    assert!(refused.contains("--wait"), "{refused}");
    let wait = |told: &str, how: &[&str]| {
        let stderr = std::fs::File::create(world.file(told)).unwrap();
        let arguments = [&["fence", "db", "--token", "1", "--wait", "10m"], how].concat();
        world.command(&arguments).stdout(Stdio::null()).stderr(stderr).spawn().unwrap()
    };
    let told = |name: &str| std::fs::read_to_string(world.file(name)).unwrap();
    let mut waiting = [wait("told", &["--", "true"]), wait("event", &["--json"])];
    let line = "baton: another command is at db, with token 1; waits for at most 10m\n";
    until("both have said that they wait", || told("told") == line && told("event").ends_with('\n'));
    let event: serde_json::Value = serde_json::from_str(&told("event")).unwrap();
    assert_eq!(
        (&event["event"], &event["resource"], &event["token"]),
        (&json!("waiting"), &json!("db"), &json!(1))
    );
    std::fs::write(world.file("end"), "").unwrap();
    assert_eq!(exit_code(&mut holder), Some(0));
    for waiter in &mut waiting {
        assert_eq!(exit_code(waiter), Some(0));
    }
    assert_eq!(told("told"), line, "it is said once");
}

#[test]
fn a_command_is_ended_when_its_token_becomes_stale() {
    let world = guarded();
    world.ok(&["init"]);
    let script = r#"trap '' TERM; echo in > "$E2E_WORLD/in"; while :; do sleep 0.05; done"#;
    let mut holder = world
        .command(&["fence", "db", "--token", "1", "--", "sh", "-c", script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    world.read_soon("in");
    world.ok(&["depose", "e", "--force"]);
    assert_eq!(exit_code(&mut holder), Some(5));
    assert_eq!(processes::of_no_warden(world.mark()), []);
    world.ok(&["acquire", "e", "--as", "b"]);
    let token = world.status("e")["token"].to_string();
    world.ok(&["fence", "db", "--token", &token]);
}

#[test]
fn a_holder_that_is_killed_or_stopped_holds_nobody_up_for_long() {
    for signal in [Signal::KILL, Signal::STOP] {
        let world = guarded();
        let script = r#"(setsid sleep 600 &) ; echo in > "$E2E_WORLD/in"; sleep 600"#;
        let mut holder = world
            .command(&["fence", "db", "--token", "1", "--", "sh", "-c", script])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        world.read_soon("in");
        processes::signal(holder.id(), signal);
        world.ok(&["fence", "db", "--token", "1", "--wait", "50s"]);
        // The warden itself leaves a moment after it has let go of the resource.
        let left = processes::of_no_warden(world.mark());
        let others: Vec<_> = left.iter().filter(|process| process.pid != holder.id()).collect();
        assert!(others.is_empty(), "{signal:?}: {others:?}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        until("nothing is left", || processes::of_world(world.mark()).is_empty());
    }
}

#[test]
fn a_stale_token_does_not_start_a_command() {
    let world = guarded();
    world.ok(&["release", "e", "--as", "a"]);
    world.call(&["fence", "db", "--token", "1", "--", "touch", "ran"]).expect(5);
    assert!(!world.file("ran").exists());
}

/// Its renewal, which every act of the holder is, ends the leadership: before CMD, not beside it.
#[test]
fn a_holder_that_is_past_its_limit_starts_no_command() {
    for form in [&[][..], &["--", "touch", "ran"]] {
        let world = World::new();
        world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h", "--budget-renewals", "1"]);
        world.ok(&["fence", "db", "--election", "e", "--token", "1"]);
        world.ok(&["renew", "e", "--as", "a"]);
        world.call(&[&["fence", "db", "--token", "1", "--as", "a"], form].concat()).expect(5);
        assert!(!world.file("ran").exists());
        assert_eq!(world.ok(&["fence", "db", "--log", "--json"]).jsons().len(), 1, "{form:?}");
    }
}

#[test]
fn a_token_that_was_never_given_is_not_called_stale() {
    let world = guarded();
    let refused = world.call(&["check", "e", "--token", "99", "--json"]).expect(5).json();
    assert_eq!(
        refused["message"],
        "token 99 is not valid (current token 1): it was never given: it is of another election or store"
    );
}
