//! One of the two processes is killed or stopped: the other ends CMD's tree before the deadline, and only
//! then is the lease released.

use rustix::process::Signal;
use std::time::Duration;

use crate::support::{Scene, is_alive, signal, state, until, until_time};

fn run_pid(scene: &Scene) -> i32 {
    i32::try_from(scene.run.id()).expect("a pid")
}

fn assert_released_in_time(scene: &Scene) {
    let released = scene.file("released");
    let words: Vec<String> = released.split_whitespace().map(str::to_owned).collect();
    scene.assert_clear_in_time(&words);
    scene.assert_nothing_left();
}

#[test]
fn run_is_killed() {
    let scene = Scene::evil(600_000, 200_000);
    assert!(!scene.released());
    signal(run_pid(&scene), Signal::KILL);
    assert_released_in_time(&scene);
    let warden = scene.warden();
    until("the warden leaves", || !is_alive(warden));
}

#[test]
fn run_is_stopped_for_longer_than_the_lease() {
    let mut scene = Scene::evil(10_000, 4_000);
    signal(run_pid(&scene), Signal::STOP);
    assert_released_in_time(&scene);
    assert_eq!(state(run_pid(&scene)), "T");
    signal(run_pid(&scene), Signal::CONT);
    assert_eq!(scene.event("ended")[..2], ["Signal(9)", "Deadline"]);
    scene.exit_code();
}

#[test]
fn run_is_stopped_and_killed_after_the_command_finished() {
    let script = r#"until [ -e "$LEASH_MARK/go" ]; do sleep 0.01; done"#;
    let scene = Scene::start(600_000, 1_000, &["sh", "-c", script]);
    let main = scene.main();
    signal(run_pid(&scene), Signal::STOP);
    until("run is stopped", || state(run_pid(&scene)) == "T");
    std::fs::write(scene.path().join("go"), "").unwrap();
    until("the command finishes", || !is_alive(main));
    assert!(!scene.released(), "the lease has long to go, and run may come back");
    signal(run_pid(&scene), Signal::KILL);
    assert_released_in_time(&scene);
}

#[test]
fn the_warden_is_killed() {
    let mut scene = Scene::evil(600_000, 200_000);
    scene.say("own");
    let own: i32 = scene.event("own")[0].parse().unwrap();
    signal(scene.warden(), Signal::KILL);
    scene.event("gone");
    let seized = scene.event("seized");
    scene.assert_clear_in_time(&seized);
    scene.assert_nothing_left();
    assert_eq!(scene.exit_code(), Some(99));
    assert!(is_alive(own), "a child of run's own was swept");
    signal(own, Signal::KILL);
    assert!(!scene.released());
}

#[test]
fn the_warden_is_stopped_and_the_lease_is_lost() {
    let mut scene = Scene::evil(10_000, 4_000);
    signal(scene.warden(), Signal::STOP);
    scene.event("overdue");
    let seized = scene.event("seized");
    scene.assert_clear_in_time(&seized);
    scene.assert_nothing_left();
    assert_eq!(scene.exit_code(), Some(99));
}

#[test]
fn the_warden_is_stopped_and_the_lease_is_kept() {
    let scene = Scene::evil(600_000, 1_000);
    signal(scene.warden(), Signal::STOP);
    until("the warden is stopped", || state(scene.warden()) == "T");
    // Unanswered: run must not renew for a warden that could not say that the command has ended.
    scene.say("renew 600000");
    scene.event("overdue");
    let seized = scene.event("seized");
    scene.assert_clear_in_time(&seized);
    scene.assert_nothing_left();
}

#[test]
fn a_warden_that_was_stopped_hears_renewals_before_it_looks_at_the_time() {
    let scene = Scene::evil(8_000, 0);
    let first = scene.deadline();
    // Not for as long as run waits for an answer, and in time for the renewal, on a busy machine too.
    until_time(first.earlier(Duration::from_millis(2_500)));
    signal(scene.warden(), Signal::STOP);
    until("the warden is stopped", || state(scene.warden()) == "T");
    scene.say("renew 600000");
    until("run renewed", || scene.deadline() != first);
    until_time(first.later(Duration::from_millis(200)));
    signal(scene.warden(), Signal::CONT);
    scene.say("kill");
    assert_eq!(scene.event("ended")[..2], ["Signal(9)", "Stopped"], "ended by the old deadline");
    assert!(!scene.events().iter().any(|line| line[0] == "overdue"));
}

#[test]
fn the_main_process_dies_with_a_warden_that_nobody_replaces() {
    let scene = Scene::evil(600_000, 1_000);
    let main = scene.main();
    signal(run_pid(&scene), Signal::STOP);
    until("run is stopped", || state(run_pid(&scene)) == "T");
    signal(scene.warden(), Signal::KILL);
    until("the main process dies", || !is_alive(main));
    assert!(!scene.descendants().is_empty(), "the daemon waits for run");
    signal(run_pid(&scene), Signal::CONT);
    scene.assert_clear_in_time(&scene.event("seized"));
    scene.assert_nothing_left();
}
