//! `baton run --once-per`: a short job that a timer starts on three machines runs once.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::{Child, Command, Stdio};

use crate::support::server::Server;
use crate::support::test_stores;
use crate::support::{Done, World, exit_code, finish, processes, until};

/// No test runs beyond the end of such a slot.
const SLOT: &str = "36500d";
/// A job that takes 0.1 s.
const SHORT: &str = r#"echo "$BATON_AGENT" >> "$E2E_WORLD/ran"; sleep 0.1"#;
/// A job that does not end by itself.
const LONG: &str = r#"echo "$BATON_AGENT" >> "$E2E_WORLD/ran"; while :; do sleep 0.1; done"#;

fn ran(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.file("ran")).unwrap_or_default();
    text.lines().map(ToString::to_string).collect()
}

/// A run on a machine of its own: with other private folders.
fn run(world: &World, machine: &str, more: &[&str], job: &str) -> Command {
    let head = ["run", "nightly", "--as", machine, "--ttl", "10s", "--once-per", SLOT];
    let mut command = world.command(&[&head, more, &["--", "sh", "-c", job]].concat());
    command
        // With git each machine has a clone of its own.
        .env("BATON_STORE", world.url().replace("/one?", &format!("/{machine}?")))
        .env("BATON_STATE_DIR", world.file(&format!("state-{machine}")))
        .env("BATON_CONFIG_DIR", world.file(&format!("config-{machine}")));
    command
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn call(world: &World, machine: &str, more: &[&str], job: &str) -> Done {
    finish(run(world, machine, more, job), None)
}

fn play(world: &World) {
    let machines = ["one", "two", "three"];
    let mut all: Vec<Child> = machines.iter().map(|machine| spawn(run(world, machine, &[], SHORT))).collect();
    for child in &mut all {
        assert_eq!(exit_code(child), Some(0));
    }
    assert_eq!(ran(world).len(), 1, "{:?}", ran(world));
    let late = call(world, "four", &["--wait", "1s"], SHORT).expect(0);
    let told = "nightly ran in this slot at ";
    assert!(late.stderr.contains(told) && late.stderr.contains("CMD was not run here"), "{late:?}");
    let done = call(world, "four", &["--retry-failed"], SHORT).expect(0);
    assert!(done.stderr.contains("it ended with exit code 0"), "{done:?}");
    assert_eq!(ran(world).len(), 1, "{:?}", ran(world));
    let status = world.status("nightly");
    let slot = &status["last_slot"];
    assert_eq!((&slot["by"], &slot["ended"]["success"]), (&ran(world)[0].clone().into(), &true.into()));
    assert_eq!(status["state"], "done");
    let text = world.ok(&["status", "nightly"]).stdout;
    assert!(text.contains("  last slot   1970-01-01T00:00:00.000Z for 36500d: "), "{text}");
}

#[test]
fn a_short_job_runs_once_on_three_machines_with_a_folder() {
    play(&World::folder());
}

#[test]
fn a_short_job_runs_once_on_three_machines_with_a_git_remote() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    test_stores::tool("git", &["init", "--quiet", "--bare", &path("hub.git")]);
    for machine in ["one", "two", "three", "four"] {
        test_stores::tool("git", &["init", "--quiet", &path(machine)]);
    }
    play(&World::on(&format!("git:{}?remote={}", path("one"), path("hub.git"))));
}

#[test]
fn a_short_job_runs_once_on_three_machines_with_a_server() {
    let folder = World::folder();
    let server = Server::start(&folder.file("once.redb"));
    play(&World::on(&server.url()));
}

/// On a store that a server keeps, where there is one: the slot is named by that server's clock, if it tells its time.
#[cfg(feature = "all-stores")]
fn play_at(place: Option<test_stores::TestStore>) {
    let Some(place) = place else { return };
    let world = World::on(&place.url);
    world.ok(&["init"]);
    play(&world);
}

#[cfg(feature = "all-stores")]
#[test]
fn a_short_job_runs_once_on_three_machines_with_etcd() {
    play_at(test_stores::etcd());
}

#[cfg(feature = "all-stores")]
#[test]
fn a_short_job_runs_once_on_three_machines_with_postgres() {
    play_at(test_stores::postgres());
}

#[cfg(feature = "all-stores")]
#[test]
fn a_short_job_runs_once_on_three_machines_with_kubernetes() {
    play_at(test_stores::kubernetes());
}

#[cfg(feature = "all-stores")]
#[test]
fn a_short_job_runs_once_on_three_machines_with_firestore() {
    play_at(test_stores::firestore());
}

#[cfg(feature = "all-stores")]
#[test]
fn a_short_job_runs_once_on_three_machines_with_spanner() {
    play_at(test_stores::spanner());
}

#[cfg(feature = "all-stores")]
#[test]
fn etcds_own_elections_have_no_place_for_a_slot() {
    let Some(place) = test_stores::etcd() else { return };
    let world = World::on(&format!("{}?election=etcd", place.url));
    let refused = world.call(&["run", "e", "--as", "a", "--once-per", "1d", "--", "true"]).expect(2).stderr;
    assert!(refused.contains("hint: use Baton's own elections"), "{refused}");
}

/// Kills a run and its warden when its CMD has begun. Only the end of its lease frees the election.
fn killed(world: &World) {
    let mut first = spawn(run(world, "one", &[], LONG));
    until("CMD runs", || ran(world) == ["one"]);
    assert_eq!(world.status("nightly")["last_slot"]["by"], "one", "marked before CMD began");
    processes::kill_with_warden(&mut first);
    until("CMD is gone", || processes::of_commands(world.mark()).is_empty());
}

#[test]
fn a_run_that_was_killed_is_not_run_again_in_its_slot() {
    let world = World::folder();
    killed(&world);
    let over = call(&world, "two", &[], SHORT).expect(0);
    assert!(over.stderr.contains("by one") && over.stderr.contains("its end is not known"), "{over:?}");
    assert_eq!(ran(&world), ["one"]);
}

#[test]
fn a_run_that_was_killed_or_failed_is_run_again_where_that_is_asked_for() {
    let world = World::folder();
    killed(&world);
    let failing = r#"echo "$BATON_AGENT" >> "$E2E_WORLD/ran"; exit 9"#;
    call(&world, "two", &["--retry-failed"], failing).expect(9);
    assert_eq!(world.status("nightly")["last_slot"]["ended"]["code"], 9);
    call(&world, "three", &["--retry-failed"], SHORT).expect(0);
    call(&world, "four", &["--retry-failed"], SHORT).expect(0);
    assert_eq!(ran(&world), ["one", "two", "three"]);
}

/// A candidate that waits behind a long run does not wait for its end.
#[test]
fn a_candidate_that_waits_goes_when_the_slot_is_run_by_another() {
    let world = World::folder();
    world.ok(&["acquire", "nightly", "--as", "zero", "--ttl", "10m"]);
    let mut waiting = spawn(run(&world, "two", &[], SHORT));
    let mut first = spawn(run(&world, "one", &[], LONG));
    // Kept for it: nobody else takes it meanwhile.
    world.ok(&["release", "nightly", "--to", "one", "--as", "zero"]);
    until("CMD runs", || ran(&world) == ["one"]);
    assert_eq!(exit_code(&mut waiting), Some(0));
    assert!(first.try_wait().unwrap().is_none(), "the first still runs");
    assert_eq!(ran(&world), ["one"]);
    processes::signal(first.id(), rustix::process::Signal::TERM);
    assert!(exit_code(&mut first).is_some());
}

#[test]
fn bad_slots_are_refused_with_a_hint() {
    let world = World::folder();
    let refused = |more: &[&str]| {
        let all = [&["run", "e", "--as", "a"], more, &["--", "true"]].concat();
        world.call(&all).expect(2).stderr
    };
    assert!(refused(&["--once-per", "0"]).contains("hint: use at least 1s"));
    let offset = refused(&["--once-per", "1h", "--slot-offset", "2h"]);
    assert!(offset.contains("an offset of 2h is not shorter than the slot of 1h"), "{offset}");
    assert!(refused(&["--retry-failed"]).contains("--once-per"));
}

/// A machine whose clock is years ahead has marked a slot. The others say so: they do not skip their slots in silence.
#[test]
fn a_mark_from_the_future_is_told_and_can_be_forgotten() {
    let world = World::folder();
    let put = r#""$BATON_BIN" state put nightly baton.slot "$MARK""#;
    let mark = r#"{"slot":"2100-01-01T00:00:00.000Z","lasts_ms":3600000,"run":"0101010101010101","by":"fast","at":"2100-01-01T00:00:00.000Z"}"#;
    let write = |mark: &str| {
        let mut command = world.command(&["run", "nightly", "--as", "z", "--once", "--", "sh", "-c", put]);
        command.env("BATON_BIN", env!("CARGO_BIN_EXE_baton")).env("MARK", mark);
        finish(command, None).expect(0);
    };
    write(mark);
    let hourly = ["run", "nightly", "--as", "a", "--once-per", "1h", "--", "sh", "-c", SHORT];
    let told = world.call(&hourly).expect(1);
    assert!(told.stderr.contains("fast marked the slot of 2100-01-01"), "{told:?}");
    assert!(told.stderr.contains("hint: compare the clocks"), "{told:?}");
    write("");
    world.ok(&hourly);
    assert_eq!(ran(&world), ["a"]);
}
