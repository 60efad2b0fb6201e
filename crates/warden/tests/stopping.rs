//! Both processes are well: CMD's tree ends by order or by the deadline, never later.

use rustix::process::Signal;
use std::time::Duration;

use crate::support::{Scene, is_alive, signal, until_time};

#[test]
fn a_stop_ends_a_tree_that_ignores_it() {
    let mut scene = Scene::evil(60_000, 500);
    scene.say("stop");
    let ended = scene.event("ended");
    assert_eq!(ended[..2], ["Signal(9)", "Stopped"]);
    scene.assert_clear_in_time(&ended);
    scene.assert_nothing_left();
    scene.exit_code();
    assert!(!scene.released(), "run was there to release");
}

#[test]
fn a_kill_does_not_wait_for_the_grace() {
    // A deadline and a grace that the test would never live to see.
    let scene = Scene::evil(600_000, 200_000);
    scene.say("kill");
    assert_eq!(scene.event("ended")[..2], ["Signal(9)", "Stopped"]);
    scene.assert_nothing_left();
}

#[test]
fn a_stop_lets_the_whole_tree_clean_up() {
    let script = r#"
        (setsid sh -c 'trap "sleep 0.2; touch \"$LEASH_MARK/child-cleaned\"; exit 0" TERM
                       touch "$LEASH_MARK/child"; while :; do sleep 0.05; done' &)
        trap 'touch "$LEASH_MARK/cleaned"; exit 5' TERM
        touch "$LEASH_MARK/parent"; while :; do sleep 0.05; done"#;
    let mut scene = Scene::start(600_000, 100_000, &["sh", "-c", script]);
    scene.file("child");
    scene.file("parent");
    scene.say("stop");
    assert_eq!(scene.exit_code(), Some(5));
    assert_eq!(scene.event("ended")[..2], ["Exit(5)", "Stopped"]);
    scene.file("cleaned");
    scene.file("child-cleaned");
}

#[test]
fn a_stopped_process_is_continued_to_hear_the_stop() {
    let script = r#"trap 'exit 6' TERM; touch "$LEASH_MARK/ready"; while :; do sleep 0.05; done"#;
    let mut scene = Scene::start(600_000, 100_000, &["sh", "-c", script]);
    scene.file("ready");
    signal(scene.main(), Signal::STOP);
    scene.say("stop");
    assert_eq!(scene.exit_code(), Some(6));
}

#[test]
fn an_unrenewed_lease_ends_the_tree_before_the_deadline() {
    let mut scene = Scene::evil(10_000, 4_000);
    let ended = scene.event("ended");
    assert_eq!(ended[..2], ["Signal(9)", "Deadline"]);
    scene.assert_clear_in_time(&ended);
    scene.assert_nothing_left();
    scene.exit_code();
}

#[test]
fn the_deadline_asks_before_it_kills() {
    let script = r#"trap 'touch "$LEASH_MARK/asked"; exit 4' TERM; while :; do sleep 0.05; done"#;
    let mut scene = Scene::start(10_000, 5_000, &["sh", "-c", script]);
    assert_eq!(scene.exit_code(), Some(4));
    assert_eq!(scene.event("ended")[..2], ["Exit(4)", "Deadline"]);
    scene.file("asked");
}

#[test]
fn renewals_keep_the_command_alive() {
    let scene = Scene::evil(8_000, 0);
    let first = scene.deadline();
    scene.say("renew 600000");
    until_time(first.later(Duration::from_millis(200)));
    assert!(is_alive(scene.main()));
    assert!(scene.descendants().len() >= 2);
    scene.say("kill");
    assert_eq!(scene.event("ended")[1], "Stopped");
}

#[test]
fn signals_meant_for_a_terminal_or_a_service_do_not_end_the_warden() {
    let scene = Scene::evil(600_000, 1_000);
    for deadly in [Signal::TERM, Signal::INT, Signal::HUP] {
        signal(scene.warden(), deadly);
    }
    // The order is obeyed after the signals were.
    scene.say("kill");
    assert_eq!(scene.event("ended")[..2], ["Signal(9)", "Stopped"]);
    assert!(!scene.events().iter().any(|line| line[0] == "gone"));
}

#[test]
fn a_fork_storm_is_swept() {
    let script = r#"trap '' TERM; i=0
        while [ $i -lt 2000 ]; do
            (setsid sleep 600 &); sleep 600 &
            i=$((i+1)); [ $i = 50 ] && touch "$LEASH_MARK/storm"
        done
        sleep 600"#;
    let scene = Scene::start(600_000, 0, &["sh", "-c", script]);
    scene.file("storm");
    scene.say("stop");
    let ended = scene.event("ended");
    assert_eq!(ended[1], "Stopped");
    scene.assert_clear_in_time(&ended);
    scene.assert_nothing_left();
}

#[test]
fn a_process_that_flees_by_forking_is_caught() {
    // Each hop is a new session and group whose parent is gone at once; five flee at the same time.
    let script = r#"
        cat > "$LEASH_MARK/hop.sh" <<'END'
        [ "$1" -gt 0 ] || exec sleep 600
        [ "$1" != 1990 ] || touch "$LEASH_MARK/fleeing"
        setsid sh "$LEASH_MARK/hop.sh" $(($1 - 1)) &
END
        for i in 1 2 3 4 5; do setsid sh "$LEASH_MARK/hop.sh" 2000 & done
        sleep 600"#;
    let scene = Scene::start(600_000, 0, &["sh", "-c", script]);
    scene.file("fleeing");
    scene.say("kill");
    let ended = scene.event("ended");
    scene.assert_clear_in_time(&ended);
    scene.assert_nothing_left();
}
