//! Two machines with one machine-id on one folder, played by the real binary: the second one has a boot id of its own, in a mount namespace of its own.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "a test that cannot be played says so")]

use std::fs;
use std::process::{Command, Stdio};

use crate::support::stubborn::{ELECTION, StubbornRun, tree_of};
use crate::support::watcher::Watcher;
use crate::support::{Done, World, exit_code, finish, until};

const LEASE: [&str; 3] = ["--ttl", "30s", "--once"];
/// Makes the file its boot id, and becomes the command.
const ANOTHER_BOOT: &str = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;

/// A command of the second machine, without arguments.
fn on_the_second(world: &World) -> Command {
    let id = world.file("boot_id");
    fs::write(&id, "6f1d5a8e-0b0a-4c6e-9d55-2f4f0c5f7a11\n").unwrap();
    let here = world.command(&[]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", ANOTHER_BOOT]).arg(id).arg(here.get_program());
    for (name, value) in here.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(world.path()).stdin(Stdio::null());
    command
}

fn call_on_the_second(world: &World, arguments: &[&str]) -> Done {
    let mut command = on_the_second(world);
    command.args(arguments);
    finish(command, None)
}

/// Whether this user may make mount namespaces. In continuous integration nothing is skipped.
fn can_be_played() -> bool {
    let id = tempfile::NamedTempFile::new().unwrap();
    let tried = Command::new("unshare")
        .args(["--mount", "sh", "-c", ANOTHER_BOOT])
        .arg(id.path())
        .arg("true")
        .stdin(Stdio::null())
        .output();
    let why = match tried {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    eprintln!("SKIPPED: this user may not make mount namespaces: {why}");
    false
}

#[track_caller]
fn is_refused(done: &Done) {
    assert_eq!(done.code, 7, "{done:?}");
    assert!(done.stderr.contains("after this run began"), "{done:?}");
    assert!(done.stderr.contains("hint: ") && done.stderr.contains("machine-id"), "{done:?}");
}

#[test]
fn the_second_machine_takes_no_lease_of_the_first() {
    if !can_be_played() {
        return;
    }
    let world = World::folder();
    let watcher = Watcher::start(&world, ELECTION);
    let first = StubbornRun::start(&world, "first", &LEASE);
    let token = first.started_alone(&world);
    let mut second =
        StubbornRun::launch(&world, on_the_second(&world), "second", &LEASE, "while :; do sleep 1; done");
    let started = world.file("start-second");
    until("the second is refused, or leads", || {
        started.exists() || second.child.try_wait().unwrap().is_some()
    });
    assert!(!started.exists(), "the second leads beside the first");
    assert_eq!(exit_code(&mut second.child), Some(7));
    let said = fs::read_to_string(world.file("second.err")).unwrap();
    assert!(said.contains("after this run began"), "{said}");
    is_refused(&call_on_the_second(&world, &["acquire", ELECTION, "--as", "third"]));
    is_refused(&call_on_the_second(&world, &["status", ELECTION]));
    assert_eq!(world.status(ELECTION)["token"], token, "the first goes on");
    assert!(!tree_of(&world, token).is_empty());
    watcher.finish();
}

/// In a folder that the second machine wrote first, the first is the stranger.
#[test]
fn and_the_other_way_round() {
    if !can_be_played() {
        return;
    }
    let world = World::folder();
    assert_eq!(call_on_the_second(&world, &["acquire", ELECTION, "--as", "second", "--ttl", "1h"]).code, 0);
    is_refused(&world.call(&["acquire", ELECTION, "--as", "first"]));
    let renewed = call_on_the_second(&world, &["renew", ELECTION, "--as", "second"]);
    assert_eq!(renewed.code, 0, "{renewed:?}");
}
