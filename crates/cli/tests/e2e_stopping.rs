//! A CMD that ignores SIGTERM, forks and double-forks is gone before the successor starts, whatever happened.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use rustix::process::Signal;

use crate::support::stubborn::{ELECTION, StubbornRun, VALIDATOR, tree_of};
use crate::support::watcher::Watcher;
use crate::support::{World, exit_code, happens, processes, until};

/// Two runs: the first leads with everything it starts, the second waits.
struct TwoRuns {
    world: World,
    watcher: Watcher,
    first: StubbornRun,
    second: StubbornRun,
    token: u64,
}

/// Longer than a busy machine stands still, and short enough to wait for its end.
const LEASE: [&str; 2] = ["--ttl", "9s"];

impl TwoRuns {
    fn set() -> TwoRuns {
        TwoRuns::set_in(World::new())
    }

    fn set_in(world: World) -> TwoRuns {
        let first = StubbornRun::start(&world, "first", &LEASE);
        TwoRuns::with_first(world, first)
    }

    /// The first does not campaign again after a loss: it might be quicker than the second.
    fn set_for_once() -> TwoRuns {
        let world = World::new();
        let first = StubbornRun::start(&world, "first", &[&LEASE[..], &["--once"]].concat());
        TwoRuns::with_first(world, first)
    }

    /// The first has a validator at work, whose daemon has left its parent, session and group. Neither obeys SIGTERM.
    fn set_judged(more: &[&str]) -> TwoRuns {
        let world = World::new();
        let options = [&LEASE[..], &["--validate", VALIDATOR], more].concat();
        let end = r#"echo x > "$BATON_CHECKPOINT_FILE"; while :; do sleep 1; done"#;
        let first = StubbornRun::launch(&world, world.command(&[]), "first", &options, end);
        let scene = TwoRuns::with_first(world, first);
        scene.world.read_soon("validating");
        scene
    }

    fn with_first(world: World, first: StubbornRun) -> TwoRuns {
        let watcher = Watcher::start(&world, ELECTION);
        let token = first.started_alone(&world);
        assert!(tree_of(&world, token).len() >= 3, "{:?}", tree_of(&world, token));
        let second = StubbornRun::start(&world, "second", &LEASE);
        until("the second waits", || {
            let said = std::fs::read_to_string(world.file("second.err")).unwrap_or_default();
            said.contains("waits to lead")
        });
        TwoRuns { world, watcher, first, second, token }
    }

    /// The first's CMD has ended, and its work is judged.
    fn with_judged_end(world: World, first: StubbornRun) -> TwoRuns {
        let watcher = Watcher::start(&world, ELECTION);
        let token = first.started_alone(&world);
        world.read_soon("validating");
        let second = StubbornRun::start(&world, "second", &LEASE);
        until("the second waits", || {
            let said = std::fs::read_to_string(world.file("second.err")).unwrap_or_default();
            said.contains("waits to lead")
        });
        TwoRuns { world, watcher, first, second, token }
    }

    /// The successor's CMD runs, saw nothing of its predecessor, and nor does anybody since.
    fn expect_succession(self) {
        let token = self.second.started_alone(&self.world);
        assert!(token > self.token, "{token} after {}", self.token);
        assert!(tree_of(&self.world, self.token).is_empty());
        until("the successor is watched", || self.watcher.findings().trees.len() >= 2);
        self.watcher.finish();
        assert!(processes::warden(self.second.pid()).is_some());
    }
}

#[test]
fn after_the_kill_of_run() {
    let mut scene = TwoRuns::set();
    scene.first.child.kill().unwrap();
    scene.first.child.wait().unwrap();
    scene.expect_succession();
}

#[test]
fn after_the_kill_of_the_warden() {
    let scene = TwoRuns::set_for_once();
    processes::signal(scene.first.warden(), Signal::KILL);
    scene.expect_succession();
}

#[test]
fn after_run_was_stopped_for_longer_than_its_lease() {
    let scene = TwoRuns::set();
    let run = scene.first.pid();
    processes::signal(run, Signal::STOP);
    until("it is stopped", || processes::is_stopped(run));
    let token = scene.second.started_alone(&scene.world);
    assert!(token > scene.token);
    assert!(processes::is_stopped(run), "the successor did not wait for it to wake up");
    processes::signal(run, Signal::CONT);
    let said = || std::fs::read_to_string(scene.world.file("first.err")).unwrap_or_default();
    until("the first knows that it has lost", || said().contains("lost the leadership"));
    scene.expect_succession();
}

#[test]
fn after_the_warden_was_stopped() {
    let scene = TwoRuns::set_for_once();
    processes::signal(scene.first.warden(), Signal::STOP);
    scene.expect_succession();
}

#[test]
fn after_the_warden_was_stopped_and_run_was_asked_to_end() {
    let mut scene = TwoRuns::set();
    processes::signal(scene.first.warden(), Signal::STOP);
    processes::signal(scene.first.pid(), Signal::TERM);
    assert!(exit_code(&mut scene.first.child).is_some());
    scene.expect_succession();
}

#[test]
fn after_a_lease_lost_because_the_store_is_out_of_reach_for_the_leader_alone() {
    let world = World::folder();
    let door = world.file("door");
    std::fs::create_dir(world.store()).unwrap();
    std::os::unix::fs::symlink(world.store(), &door).unwrap();
    let mut command = world.command(&[]);
    command.env("BATON_STORE", format!("file:{}", door.display()));
    let first = StubbornRun::launch(&world, command, "first", &LEASE, "while :; do sleep 1; done");
    let scene = TwoRuns::with_first(world, first);
    // A name that leads to itself cannot be opened; the others have the folder's own name.
    std::fs::remove_file(&door).unwrap();
    std::os::unix::fs::symlink(&door, &door).unwrap();
    scene.expect_succession();
}

#[test]
fn after_the_store_itself_was_taken_away() {
    let world = World::folder();
    std::fs::create_dir(world.file("elsewhere")).unwrap();
    std::os::unix::fs::symlink(world.file("elsewhere"), world.store()).unwrap();
    let mut scene = TwoRuns::set_in(world);
    // A file in its place, in one step: nobody can make a new store there.
    std::fs::write(scene.world.file("nothing"), "").unwrap();
    std::fs::rename(scene.world.file("nothing"), scene.world.store()).unwrap();
    assert_eq!(exit_code(&mut scene.first.child), Some(7));
    assert_eq!(exit_code(&mut scene.second.child), Some(7));
    assert!(processes::of_commands(scene.world.mark()).is_empty());
    std::os::unix::fs::symlink(scene.world.file("elsewhere"), scene.world.file("back")).unwrap();
    std::fs::rename(scene.world.file("back"), scene.world.store()).unwrap();
    scene.second = StubbornRun::start(&scene.world, "second", &LEASE);
    scene.expect_succession();
}

#[test]
fn after_an_operator_deposed_the_leader() {
    let scene = TwoRuns::set();
    scene.world.ok(&["init"]);
    scene.world.ok(&["depose", ELECTION]);
    scene.expect_succession();
}

#[test]
fn after_run_was_asked_to_end() {
    let mut scene = TwoRuns::set();
    processes::signal(scene.first.pid(), Signal::TERM);
    assert!(exit_code(&mut scene.first.child).is_some());
    assert!(tree_of(&scene.world, scene.token).is_empty());
    scene.expect_succession();
}

#[test]
fn after_cmd_ended_by_itself_and_left_a_daemon() {
    let world = World::new();
    let end = r#"while [ ! -e "$E2E_WORLD/end" ]; do sleep 0.05; done; exit 9"#;
    let first = StubbornRun::launch(&world, world.command(&[]), "first", &LEASE, end);
    let mut scene = TwoRuns::with_first(world, first);
    std::fs::write(scene.world.file("end"), "").unwrap();
    assert_eq!(exit_code(&mut scene.first.child), Some(9));
    assert!(tree_of(&scene.world, scene.token).is_empty());
    scene.expect_succession();
}

#[test]
fn a_second_signal_does_not_wait_for_the_grace() {
    let world = World::new();
    let mut run = StubbornRun::start(&world, "first", &["--ttl", "600s", "--grace", "190s"]);
    let token = run.started_alone(&world);
    processes::signal(run.pid(), Signal::TERM);
    let draining = || world.status(ELECTION)["leader"]["phase"] == "draining";
    until("it drains", draining);
    assert!(!tree_of(&world, token).is_empty());
    processes::signal(run.pid(), Signal::INT);
    let ended = happens(Duration::from_secs(60), || tree_of(&world, token).is_empty());
    assert!(ended, "{:?}", tree_of(&world, token));
    assert!(exit_code(&mut run.child).is_some());
    assert_eq!(world.status(ELECTION)["state"], "vacant");
}

#[test]
fn after_an_operator_deposed_a_leader_whose_validator_is_at_work() {
    let scene = TwoRuns::set_judged(&[]);
    scene.world.ok(&["init"]);
    scene.world.ok(&["depose", ELECTION]);
    scene.expect_succession();
}

#[test]
fn after_the_kill_of_a_run_whose_validator_is_at_work() {
    let mut scene = TwoRuns::set_judged(&[]);
    scene.first.child.kill().unwrap();
    scene.first.child.wait().unwrap();
    scene.expect_succession();
}

#[test]
fn after_the_kill_of_a_warden_whose_validator_is_at_work() {
    let scene = TwoRuns::set_judged(&["--once"]);
    processes::signal(scene.first.warden(), Signal::KILL);
    scene.expect_succession();
}

#[test]
fn after_a_run_whose_validator_is_at_work_was_asked_to_end() {
    let mut scene = TwoRuns::set_judged(&[]);
    processes::signal(scene.first.pid(), Signal::TERM);
    assert!(exit_code(&mut scene.first.child).is_some());
    assert!(tree_of(&scene.world, scene.token).is_empty());
    scene.expect_succession();
}

#[test]
fn after_a_run_whose_validator_is_at_work_was_asked_to_end_twice() {
    let mut scene = TwoRuns::set_judged(&[]);
    processes::signal(scene.first.pid(), Signal::TERM);
    let draining = || scene.world.status(ELECTION)["leader"]["phase"] == "draining";
    let _ended_already = happens(Duration::from_secs(60), || {
        draining() || processes::warden(scene.first.child.id()).is_none()
    });
    processes::signal(scene.first.pid(), Signal::INT);
    assert!(exit_code(&mut scene.first.child).is_some());
    assert!(tree_of(&scene.world, scene.token).is_empty());
    scene.expect_succession();
}

/// The last judgement, after the end of CMD.
#[test]
fn after_a_leader_lost_its_lease_during_the_last_judgement() {
    let world = World::new();
    world.ok(&["init"]);
    let options = [&LEASE[..], &["--once", "--validate", VALIDATOR]].concat();
    let first = StubbornRun::launch(&world, world.command(&[]), "first", &options, "exit 0");
    let mut scene = TwoRuns::with_judged_end(world, first);
    scene.world.ok(&["depose", ELECTION]);
    assert_eq!(exit_code(&mut scene.first.child), Some(4));
    scene.expect_succession();
}
