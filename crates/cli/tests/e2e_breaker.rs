//! Circuit breakers: who fails at tasks again and again is told to do no more of their kind, until it has rested or an operator says so; where the
//! policy says so, it does not lead either.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{World, exit_code, until};

/// Leads, tells itself to do two tasks, and fails at both once it is told to; the next time it only leads.
const FAILS: &str = r#"set -e
if [ -e fail ]; then exec sleep 600; fi
echo "$BATON_TOKEN" > token
for id in one two; do
  "$BATON_BIN" task add e 'a task' --id $id --needs rust
  "$BATON_BIN" task assign e $id --to "$BATON_AGENT"
done
while [ ! -e fail ]; do sleep 0.05; done
for id in one two; do
  "$BATON_BIN" task accept e $id
  "$BATON_BIN" task fail e $id --reason 'no compiler'
done
exec sleep 600"#;

fn task(world: &World, id: &str, needs: &[&str]) {
    world.ok(&[&["task", "add", "e", "a task", "--id", id, "--as", "a"][..], needs].concat());
}

fn fail(world: &World, id: &str) {
    world.ok(&["task", "assign", "e", id, "--to", "w", "--as", "a"]);
    world.ok(&["task", "accept", "e", id, "--as", "w"]);
    world.ok(&["task", "fail", "e", id, "--reason", "no compiler", "--as", "w"]);
}

fn who_fails_rests(world: &World, restart: impl FnOnce()) {
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--breaker", "2/1h"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    for id in ["one", "two", "three", "four"] {
        task(world, id, &["--needs", "rust"]);
    }
    task(world, "plain", &[]);
    fail(world, "one");
    fail(world, "two");
    restart();
    let refused =
        world.call(&["task", "assign", "e", "three", "--to", "w", "--as", "a", "--json"]).expect(3).json();
    assert_eq!(refused["code"], "not-eligible", "{refused}");
    assert!(refused["why"].as_str().unwrap().contains("no compiler"), "{refused}");
    let breakers = world.ok(&["breaker", "list", "e", "--json"]).jsons();
    assert_eq!(breakers.len(), 1);
    assert_eq!(
        (
            &breakers[0]["agent"],
            &breakers[0]["capability"],
            &breakers[0]["standing"],
            &breakers[0]["failures"]
        ),
        (&"w".into(), &"rust".into(), &"open".into(), &2.into())
    );
    // Others are told instead, and what it did not fail at it still may do.
    let best = world.json(&["task", "assign", "e", "three", "--among", "w:rust:9,x:rust:1", "--as", "a"]);
    assert_eq!(best["agent"], "x");
    world.call(&["task", "assign", "e", "four", "--among", "w:rust:9", "--as", "a"]).expect(3);
    world.ok(&["task", "assign", "e", "plain", "--to", "w", "--as", "a"]);
    world.ok(&["breaker", "reset", "e"]);
    world.ok(&["task", "assign", "e", "four", "--to", "w", "--as", "a"]);
    let audit = world.ok(&["audit", "e"]).stdout;
    assert!(audit.contains("policy"), "an operator's reset is in the audit log: {audit}");
}

#[test]
fn who_fails_rests_in_a_folder() {
    who_fails_rests(&World::folder(), || {});
}

#[test]
fn who_fails_rests_at_a_server_that_crashes_meanwhile() {
    let place = World::folder();
    let mut server = Server::start(&place.file("baton.redb"));
    let world = World::on(&server.url());
    who_fails_rests(&world, || server.crash());
}

fn lead(world: &World, agent: &str, more: &[&str], script: &str) -> Child {
    let run = ["run", "e", "--as", agent, "--ttl", "10s"];
    let mut command = world.command(&[&run, more, &["--", "sh", "-c", script]].concat());
    command.env("BATON_BIN", env!("CARGO_BIN_EXE_baton"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn leader(world: &World) -> Value {
    world.status("e")["leader"]["agent"].clone()
}

fn stop(mut run: Child) {
    signal(run.id(), Signal::TERM);
    assert_eq!(exit_code(&mut run), Some(143));
}

/// That an agent may not lead, since a breaker of its is open.
fn is_barred(world: &World, agent: &str) {
    let refused = world.call_elsewhere(&["acquire", "e", "--as", agent, "--json"]).expect(3).json();
    assert_eq!(refused["code"], "not-eligible", "{refused}");
    let why = refused["why"].as_str().unwrap();
    assert_eq!(why, "its circuit breaker for `rust` is open after 2 failures in a row (no compiler)");
    assert!(refused["retry_in_ms"].as_u64().unwrap() > 0, "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("baton breaker reset"), "{refused}");
}

fn a_leader_that_fails_is_out(world: &World) {
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--breaker", "2/1h", "--breaker-bars", "leadership"]);
    let first = lead(world, "w", &[], FAILS);
    until("w leads", || leader(world) == "w");
    let token = world.read_soon("token").trim().to_string();
    let second = lead(world, "x", &[], "exec sleep 600");
    std::fs::write(world.file("fail"), "").unwrap();
    until("x leads", || leader(world) == "x");
    let last = world.status("e")["last_transition"].clone();
    assert_eq!(last["cause"], "breaker", "{last}");
    assert!(last["reason"].as_str().unwrap().contains("no compiler"), "{last}");
    world.call(&["check", "e", "--token", &token]).expect(5);
    // Free again, it is not for w, which waits all the while; others may have it.
    stop(second);
    until("nobody leads", || leader(world).is_null());
    is_barred(world, "w");
    world.ok(&["acquire", "e", "--as", "y", "--ttl", "10m"]);
    world.ok(&["release", "e", "--as", "y"]);
    world.ok(&["breaker", "reset", "e"]);
    until("w leads again", || leader(world) == "w");
    stop(first);
}

#[test]
fn a_leader_that_fails_is_out_in_a_folder() {
    a_leader_that_fails_is_out(&World::folder());
}

#[test]
fn a_leader_that_fails_is_out_at_a_server() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    a_leader_that_fails_is_out(&World::on(&server.url()));
}

fn who_fails_is_no_candidate(world: &World) {
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--breaker", "2/1h", "--breaker-bars", "candidacy"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    for id in ["one", "two"] {
        task(world, id, &["--needs", "rust"]);
        fail(world, id);
    }
    let ends = world.call(&["report", "e", "breaker", "--as", "a", "--json"]).expect(2).json();
    assert!(ends["hint"].as_str().unwrap().contains("--breaker-bars leadership"), "{ends}");
    world.ok(&["release", "e", "--as", "a"]);
    is_barred(world, "w");
    // A breaker for what a leader does not need bars nobody.
    world.ok(&["policy", "e", "--need", "go"]);
    world.ok(&["acquire", "e", "--as", "w", "--ttl", "10m"]);
    world.ok(&["release", "e", "--as", "w"]);
    // Whom it bars does not stand in the way of others, however much speaks for it.
    world.ok(&["policy", "e", "--need", "rust", "--select", "priority"]);
    let barred = lead(world, "w", &["--priority", "9"], "exec sleep 600");
    let other = lead(world, "x", &["--priority", "1"], "exec sleep 600");
    until("x leads", || leader(world) == "x");
    let last = world.status("e")["last_transition"].clone();
    assert!(!last["reason"].as_str().unwrap().contains("did not act"), "{last}");
    // An operator's word goes before it.
    world.ok(&["appoint", "e", "w"]);
    until("w leads", || leader(world) == "w");
    stop(barred);
    stop(other);
}

#[test]
fn who_fails_is_no_candidate_in_a_folder() {
    who_fails_is_no_candidate(&World::folder());
}

#[test]
fn who_fails_is_no_candidate_at_a_server() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    who_fails_is_no_candidate(&World::on(&server.url()));
}

#[test]
fn who_has_rested_may_lead_before_it_was_tried() {
    let world = World::folder();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--breaker", "1/1s", "--breaker-bars", "leadership"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    task(&world, "one", &["--needs", "rust"]);
    fail(&world, "one");
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "w", "--ttl", "10m", "--wait", "60s"]);
    let breakers = world.ok(&["breaker", "list", "e", "--json"]).jsons();
    assert_eq!(breakers[0]["standing"], "half-open", "to lead is no probe: {breakers:?}");
}
