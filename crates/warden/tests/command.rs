//! CMD as its user sees it: arguments, streams, environment and exit code are those of a plain call.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::support::{EVIL, Scene, children, is_alive, until};

#[test]
fn the_exit_code_passes_through() {
    let mut scene = Scene::start(60_000, 1_000, &["sh", "-c", "exit 7"]);
    assert_eq!(scene.exit_code(), Some(7));
    assert_eq!(scene.event("ended")[..2], ["Exit(7)", "Finished"]);
    assert!(!scene.released(), "run was there to release");
}

#[test]
fn an_end_by_signal_passes_through() {
    let mut scene = Scene::start(60_000, 1_000, &["sh", "-c", "kill -USR1 $$"]);
    assert_eq!(scene.exit_code(), Some(128 + 10));
    assert_eq!(scene.event("ended")[..2], ["Signal(10)", "Finished"]);
}

#[test]
fn a_missing_program_is_127_and_says_so() {
    let mut scene = Scene::start(60_000, 1_000, &["no-such-program-anywhere"]);
    assert_eq!(scene.exit_code(), Some(127));
    let stderr = scene.file("stderr");
    assert!(stderr.contains("no-such-program-anywhere") && stderr.contains("No such file"), "{stderr}");
}

#[test]
fn a_program_that_cannot_be_executed_is_126() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let mut scene = Scene::start(60_000, 1_000, &[plain.to_str().unwrap()]);
    assert_eq!(scene.exit_code(), Some(126));
}

#[test]
fn streams_environment_arguments_and_group_are_given() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input");
    fs::write(&input, "hello\n").unwrap();
    let script = r#"cat; echo "$INHERITED $1"; echo talk >&2
        read -r pid _ _ _ group _ </proc/$$/stat; [ "$pid" = "$group" ]"#;
    let stdin = Stdio::from(File::open(input).unwrap());
    let mut scene = Scene::start_with_stdin(60_000, 1_000, &["sh", "-c", script, "-x", "--a b"], stdin);
    assert_eq!(scene.exit_code(), Some(0));
    assert_eq!(scene.file("stdout"), "hello\nfrom-run --a b\n");
    assert_eq!(scene.file("stderr"), "talk\n");
}

#[test]
fn what_a_finished_command_leaves_behind_is_swept() {
    let script = EVIL
        .replace("while :; do sleep 1; done\n", "")
        .replace("END\n(", "while :; do sleep 1; done\nEND\n(")
        + "until [ -e \"$LEASH_MARK/daemon\" ]; do sleep 0.01; done; exit 3";
    let mut scene = Scene::start(60_000, 1_000, &["sh", "-c", &script]);
    let daemon: i32 = scene.file("daemon").trim().parse().unwrap();
    assert_eq!(scene.exit_code(), Some(3));
    let ended = scene.event("ended");
    assert_eq!(ended[..2], ["Exit(3)", "Finished"]);
    scene.assert_clear_in_time(&ended);
    scene.assert_nothing_left();
    assert!(!is_alive(daemon));
}

#[test]
fn dead_orphans_do_not_pile_up_while_the_command_runs() {
    let script = "for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 &); done; touch \"$LEASH_MARK/made\"; sleep 600";
    let scene = Scene::start(60_000, 1_000, &["sh", "-c", script]);
    scene.file("made");
    let (warden, main) = (scene.warden(), scene.main());
    until("only the main process is left", || children(warden) == [main]);
}

#[test]
fn a_lease_that_is_about_to_end_starts_nothing() {
    let mut scene = Scene::start(7_900, 8_000, &["sh", "-c", "touch \"$LEASH_MARK/ran\""]);
    assert_eq!(scene.exit_code(), Some(126));
    assert!(scene.event("ended").join(" ").contains("Deadline"));
    assert!(!scene.path().join("ran").exists());
}
