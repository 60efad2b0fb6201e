//! A validator under the warden: it ends with everything that it started, and the lease is released only when nothing of it is left.

use baton_warden::BootTime;
use rustix::process::Signal;

use crate::support::{Scene, is_alive, parent, signal, until};

const FOR_EVER: [&str; 2] = ["sleep", "600"];

/// A validator and a daemon of it, which has left its parent, session and group. Both ignore SIGTERM.
const EVIL: &str = r#"validate trap '' TERM; (setsid sh -c 'trap "" TERM; echo $$ > "$LEASH_MARK/judge.new"; mv "$LEASH_MARK/judge.new" "$LEASH_MARK/judge"; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &); while :; do sleep 1; done"#;

/// Starts the evil validator; gives its daemon, which its keeper has adopted.
fn evil_validator(scene: &Scene) -> i32 {
    scene.say(EVIL);
    let daemon: i32 = scene.file("judge").trim().parse().expect("a pid");
    until("the daemon is adopted by the keeper", || parent(daemon).and_then(parent) == Some(scene.warden()));
    daemon
}

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
fn its_exit_code_and_its_last_line_are_told_and_its_daemons_go() {
    let scene = Scene::start(600_000, 1_000, &FOR_EVER);
    let main = scene.main();
    let script =
        r#"validate (setsid sleep 600 </dev/null >/dev/null 2>&1 &); echo one; echo two words >&2; exit 3"#;
    scene.say(script);
    let words = scene.event("validated");
    assert_eq!(
        (&words[..2], &words[4..]),
        (&["Exit(3)".into(), "Finished".into()][..], &["two".into(), "words".into()][..])
    );
    assert_eq!(words[3], "1", "only CMD is left; events: {:?}", scene.events());
    assert!(is_alive(main));
}

#[test]
fn one_that_is_ended_goes_with_its_daemon_and_cmd_goes_on() {
    let scene = Scene::start(600_000, 1_000, &FOR_EVER);
    let main = scene.main();
    evil_validator(&scene);
    scene.say("unvalidate");
    let words = scene.event("validated");
    assert_eq!((words[1].as_str(), words[3].as_str()), ("Stopped", "1"), "{:?}", scene.events());
    assert!(is_alive(main));
}

#[test]
fn one_whose_keeper_is_stopped_is_ended_all_the_same() {
    let scene = Scene::start(600_000, 1_000, &FOR_EVER);
    let daemon = evil_validator(&scene);
    let keeper = parent(daemon).expect("a parent");
    signal(keeper, Signal::STOP);
    scene.say("unvalidate");
    assert_eq!(scene.event("validated")[1], "Stopped");
    until("its daemon goes", || !is_alive(daemon) || parent(daemon) == Some(scene.warden()));
    scene.say("kill");
    scene.event("ended");
    scene.assert_nothing_left();
}

#[test]
fn one_that_outlives_cmd_is_waited_for() {
    let mut scene =
        Scene::start(600_000, 1_000, &["sh", "-c", r#"until [ -e "$LEASH_MARK/go" ]; do sleep 0.01; done"#]);
    scene.say(
        r#"validate touch "$LEASH_MARK/go"; until [ -e "$LEASH_MARK/done" ]; do sleep 0.01; done; echo fine"#,
    );
    assert_eq!(scene.event("ended")[..2], ["Exit(0)", "Finished"]);
    std::fs::write(scene.path().join("done"), "").expect("a file");
    assert_eq!(scene.event("validated")[..2], ["Exit(0)", "Finished"]);
    assert_eq!(scene.exit_code(), Some(0));
    scene.assert_nothing_left();
}

#[test]
fn run_is_killed_while_it_works() {
    let scene = Scene::evil(600_000, 200_000);
    evil_validator(&scene);
    assert!(!scene.released());
    signal(run_pid(&scene), Signal::KILL);
    assert_released_in_time(&scene);
}

#[test]
fn run_is_killed_while_it_works_after_cmd_has_ended() {
    let scene = Scene::start(
        600_000,
        1_000,
        &["sh", "-c", r#"until [ -e "$LEASH_MARK/judge" ]; do sleep 0.01; done"#],
    );
    evil_validator(&scene);
    scene.event("ended");
    assert!(!scene.released());
    signal(run_pid(&scene), Signal::KILL);
    assert_released_in_time(&scene);
}

#[test]
fn run_is_stopped_and_the_lease_ends_while_it_works_after_cmd_has_ended() {
    let mut scene = Scene::start(
        10_000,
        4_000,
        &["sh", "-c", r#"until [ -e "$LEASH_MARK/judge" ]; do sleep 0.01; done"#],
    );
    let daemon = evil_validator(&scene);
    scene.event("ended");
    signal(run_pid(&scene), Signal::STOP);
    until("its daemon goes", || !is_alive(daemon));
    assert!(BootTime::now() <= scene.deadline(), "too late; events: {:?}", scene.events());
    // Run may come back until the lease has ended.
    assert!(scene.file("released").trim_end().ends_with(" 0"), "events: {:?}", scene.events());
    scene.assert_nothing_left();
    signal(run_pid(&scene), Signal::CONT);
    assert_eq!(scene.event("validated")[1], "Stopped");
    scene.exit_code();
}

#[test]
fn the_lease_ends_while_it_works() {
    let scene = Scene::evil(10_000, 4_000);
    evil_validator(&scene);
    scene.assert_clear_in_time(&scene.event("ended"));
    assert_eq!(scene.event("validated")[1], "Stopped");
    scene.assert_nothing_left();
}

#[test]
fn the_warden_is_killed_while_it_works() {
    let scene = Scene::evil(600_000, 200_000);
    evil_validator(&scene);
    signal(scene.warden(), Signal::KILL);
    scene.assert_clear_in_time(&scene.event("seized"));
    scene.assert_nothing_left();
}

#[test]
fn the_warden_is_stopped_while_it_works_after_cmd_has_ended() {
    let scene = Scene::start(
        12_000,
        4_000,
        &["sh", "-c", r#"until [ -e "$LEASH_MARK/judge" ]; do sleep 0.01; done"#],
    );
    evil_validator(&scene);
    scene.event("ended");
    signal(scene.warden(), Signal::STOP);
    scene.assert_clear_in_time(&scene.event("seized"));
    scene.assert_nothing_left();
}

#[test]
fn cmd_outlives_the_lease_and_the_validator_does_not() {
    let scene = Scene::outliving(10_000, 5_000, &FOR_EVER);
    let main = scene.main();
    let daemon = evil_validator(&scene);
    scene.event("read-only");
    assert!(!is_alive(daemon), "events: {:?}", scene.events());
    assert_eq!(scene.event("validated")[1], "Stopped");
    assert_eq!(scene.descendants(), [main]);
    scene.say("validate true");
    until("it is not run without a lease", || scene.event("validated")[0].starts_with("Unstarted"));
}
