//! A command that outlives its lease: it is told in time that it does not lead, and that it leads again only while the
//! warden has another deadline. Whatever else happens ends it like any other.

use std::fs;
use std::time::Duration;

use baton_warden::BootTime;
use rustix::process::Signal;

use crate::support::{Scene, is_alive, signal, state, until, until_time};

const FOR_EVER: [&str; 2] = ["sleep", "600"];

fn run_pid(scene: &Scene) -> i32 {
    i32::try_from(scene.run.id()).expect("a pid")
}

fn leading(paper: &str) -> (String, String) {
    ("leading".to_owned(), paper.to_owned())
}

fn read_only() -> (String, String) {
    ("read-only".to_owned(), String::new())
}

/// A scene whose lease has run out.
fn stood_down() -> Scene {
    let scene = Scene::outliving(10_000, 5_000, &FOR_EVER);
    scene.main();
    assert_eq!(scene.shown(), leading("1"));
    let told_at = BootTime::from_ns(scene.event("read-only")[0].parse().expect("a time"));
    assert!(told_at < scene.deadline(), "told at {told_at:?}; events: {:?}", scene.events());
    assert_eq!(scene.shown(), read_only());
    scene
}

#[test]
fn it_is_told_before_the_deadline_and_leads_again_with_other_papers() {
    let scene = stood_down();
    until_time(scene.deadline().later(Duration::from_millis(200)));
    assert!(is_alive(scene.main()), "events: {:?}", scene.events());
    scene.say("lead 600000");
    scene.event("leading");
    assert_eq!(scene.shown(), leading("2"));
    scene.say("paper 3");
    until("the paper changes", || scene.shown() == leading("3"));
    scene.say("kill");
    assert_eq!(scene.event("ended")[..2], ["Signal(9)", "Stopped"]);
    scene.assert_nothing_left();
}

#[test]
fn it_is_told_while_run_is_stopped() {
    let scene = Scene::outliving(9_000, 4_000, &FOR_EVER);
    let main = scene.main();
    signal(run_pid(&scene), Signal::STOP);
    until("it is told", || scene.shown() == read_only());
    assert!(BootTime::now() < scene.deadline(), "too late");
    until_time(scene.deadline().later(Duration::from_millis(200)));
    assert_eq!(state(run_pid(&scene)), "T");
    assert!(is_alive(main));
    assert!(!scene.released(), "it may not have looked yet; its lease runs out by itself");
    signal(run_pid(&scene), Signal::CONT);
    scene.event("read-only");
    assert!(is_alive(main), "events: {:?}", scene.events());
    assert!(!scene.events().iter().any(|line| line[0] == "overdue"), "events: {:?}", scene.events());
}

#[test]
fn what_is_said_of_a_lease_that_is_over_changes_nothing() {
    let script = r#"
        trap 'cat "$LEASH_MARK/sign/mode" "$LEASH_MARK/sign/paper" > "$LEASH_MARK/seen"; exit 3' TERM
        while :; do sleep 0.05; done"#;
    let mut scene = Scene::outliving(8_000, 3_000, &["sh", "-c", script]);
    scene.event("read-only");
    // A renewal and a risen token that were on their way. The stop comes after them.
    scene.say("renew 600000");
    scene.say("paper 9");
    scene.say("stop");
    assert_eq!(scene.exit_code(), Some(3));
    assert_eq!(scene.file("seen"), "read-only\n");
}

#[test]
fn a_lease_that_came_too_late_is_not_shown() {
    let scene = stood_down();
    scene.say("lead 500");
    scene.event("too");
    // Nor one that was in time for run, but not for a warden that was stopped for a moment.
    let scene = Scene::outliving(10_000, 4_000, &FOR_EVER);
    scene.event("read-only");
    signal(scene.warden(), Signal::STOP);
    until("the warden is stopped", || state(scene.warden()) == "T");
    let first = scene.deadline();
    scene.say("lead 5000");
    until("the lease is given", || scene.deadline() != first);
    until_time(scene.deadline().earlier(Duration::from_millis(3_800)));
    signal(scene.warden(), Signal::CONT);
    let told = || scene.events().iter().filter(|line| line[0] == "read-only").count();
    until("it is told again", || told() == 2);
    assert_eq!(scene.shown(), read_only());
    assert!(!scene.events().iter().any(|line| line[0] == "leading"), "events: {:?}", scene.events());
    assert!(is_alive(scene.main()));
}

#[test]
fn its_end_is_run_s_end_and_nothing_is_released() {
    let script = r#"until [ -e "$LEASH_MARK/end" ]; do sleep 0.01; done; exit 7"#;
    let mut scene = Scene::outliving(8_000, 3_000, &["sh", "-c", script]);
    scene.event("read-only");
    fs::write(scene.path().join("end"), "").unwrap();
    assert_eq!(scene.exit_code(), Some(7));
    assert_eq!(scene.event("ended")[..2], ["Exit(7)", "Finished"]);
    assert!(!scene.released());
}

#[test]
fn the_death_of_run_ends_it_with_the_ticket_of_its_lease() {
    for (again, ticket) in [(false, "1"), (true, "2")] {
        let scene = stood_down();
        if again {
            scene.say("lead 600000");
            scene.event("leading");
        }
        signal(run_pid(&scene), Signal::KILL);
        let released = scene.file("released");
        assert!(released.starts_with(&format!("{ticket} ")), "{released}");
        assert!(released.ends_with(" 0\n"), "{released}");
        scene.assert_nothing_left();
    }
}

#[test]
fn the_death_of_the_warden_ends_it() {
    let mut scene = stood_down();
    signal(scene.warden(), Signal::KILL);
    scene.event("gone");
    scene.event("seized");
    scene.assert_nothing_left();
    assert_eq!(scene.exit_code(), Some(99));
}

#[test]
fn a_stopped_warden_is_found_out_when_there_is_a_lease_to_keep() {
    let scene = Scene::outliving(9_000, 4_000, &FOR_EVER);
    scene.main();
    signal(scene.warden(), Signal::STOP);
    scene.event("overdue");
    scene.assert_clear_in_time(&scene.event("seized"));
    scene.assert_nothing_left();
    assert_eq!(scene.shown(), read_only());
    let scene = stood_down();
    signal(scene.warden(), Signal::STOP);
    until("the warden is stopped", || state(scene.warden()) == "T");
    scene.say("lead 600000");
    scene.event("overdue");
    scene.event("seized");
    scene.assert_nothing_left();
    assert_eq!(scene.shown(), read_only(), "it led without a warden");
}

#[test]
fn one_that_cannot_be_told_is_ended_before_the_deadline() {
    let scene = Scene::outliving(9_000, 4_000, &FOR_EVER);
    scene.main();
    fs::rename(scene.path().join("sign"), scene.path().join("elsewhere")).unwrap();
    assert_eq!(scene.event("terminating"), ["Unshown"]);
    let ended = scene.event("ended");
    assert_eq!(ended[1], "Unshown");
    scene.assert_clear_in_time(&ended);
    scene.assert_nothing_left();
}

#[test]
fn one_that_does_not_outlive_its_lease_is_told_that_it_leads_and_nothing_else() {
    let script =
        r#"trap 'cp "$LEASH_MARK/sign/mode" "$LEASH_MARK/seen"; exit' TERM; while :; do sleep 0.05; done"#;
    let scene = Scene::start(9_000, 4_000, &["sh", "-c", script]);
    scene.main();
    assert_eq!(scene.shown(), leading("1"));
    assert_eq!(scene.event("ended")[1], "Deadline");
    assert_eq!(scene.file("seen"), "leading\n");
    assert_eq!(scene.shown(), read_only(), "who is gone does not lead");
}
