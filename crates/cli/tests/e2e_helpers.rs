//! What `e2e_stopping` does on a folder, on every other store that needs no outside server; and what becomes of the store's own helpers: a run that
//! takes CMD from its warden leaves the `git` alone that moves a ref.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use crate::support::faults::{FAULTS, suffer_each};
use crate::support::server::Server;
use crate::support::stubborn::{StubbornRun, tree_of};
use crate::support::test_stores::{self, tool};
use crate::support::{World, exit_code, processes, until};

/// Longer than a busy machine stands still, and short enough to wait for its end.
const LEASE: [&str; 3] = ["--ttl", "12s", "--once"];

/// A repository of its own, in a folder that lives as long as the place.
fn repository(place: &Path) -> PathBuf {
    let path = place.join("r");
    tool("git", &["init", "--quiet", &path.display().to_string()]);
    path
}

#[test]
fn on_a_repository() {
    suffer_each(
        &FAULTS,
        || tempfile::tempdir().unwrap(),
        |place| World::on(&format!("git:{}", repository(place.path()).display())),
    );
}

#[test]
fn on_a_clone_with_a_remote() {
    suffer_each(&FAULTS, || test_stores::git().unwrap(), |place| World::on(&place.url));
}

#[test]
fn on_a_server() {
    let server = || {
        let place = World::folder();
        let server = Server::start(&place.file("baton.redb"));
        (place, server)
    };
    suffer_each(&FAULTS, server, |(_, server)| World::on(&server.url()));
}

/// A `git` that, while it is told to, stays for a second between taking the lock of a ref and moving it (`slow`), or does not move it at
/// all (`hold`). If it is told to end then, the store was given up; it notes whether what CMD left was still alive at that moment.
fn slow_git(world: &World) -> String {
    let folder = world.file("bin");
    fs::create_dir(&folder).unwrap();
    let script = r#"#!/bin/sh
PATH=${PATH#*:}
case " $* " in
*" update-ref --stdin "*) ;;
*) exec git "$@" ;;
esac
if [ -e "$E2E_WORLD/hold" ]; then
    # The shell tells of a child that was ended, and whoever reads that may be gone.
    trap '' PIPE
    trap 'daemon="$E2E_WORLD/daemon"
        [ -e "$daemon" ] && read -r pid < "$daemon" && [ -e "/proc/$pid/exe" ] && echo >> "$E2E_WORLD/gave-up-first"
        echo $$ >> "$E2E_WORLD/gave-up"; exit 1' TERM
    echo $$ >> "$E2E_WORLD/held"
    while [ -e "$E2E_WORLD/hold" ]; do sleep 0.05; done
    echo $$ >> "$E2E_WORLD/went-on"
    exec git "$@"
fi
[ -e "$E2E_WORLD/slow" ] || exec git "$@"
change=$(cat)
{ printf 'start\n%s\nprepare\n' "$change"; sleep 0.3; echo >> "$E2E_WORLD/locked"; sleep 1; printf 'commit\n'; } | git "$@" >/dev/null
"#;
    fs::write(folder.join("git"), script).unwrap();
    fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// Waits until no `git` is left that was held. What it was told before it has noted by then.
fn held_ends(world: &World) {
    let held = world.read_soon("held");
    let lives = |pid: &str| Path::new(&format!("/proc/{pid}/exe")).exists();
    until("no git is held", || !held.lines().any(lives));
}

/// Whether the first `git` that was held has noted itself there.
fn has_noted(world: &World, note: &str) -> bool {
    let held = world.read_soon("held");
    let noted = fs::read_to_string(world.file(note)).unwrap_or_default();
    noted.lines().any(|pid| held.lines().next() == Some(pid))
}

fn locks(repository: &Path) -> Vec<PathBuf> {
    let refs = fs::read_dir(repository.join(".git/refs/baton")).unwrap();
    refs.map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "lock"))
        .collect()
}

/// The warden dies while a renewal holds the lock of the ref: run ends CMD, and not its own git.
#[test]
fn a_git_that_holds_the_lock_of_a_ref_outlives_a_seizure() {
    let place = tempfile::tempdir().unwrap();
    let repository = repository(place.path());
    let world = World::on(&format!("git:{}", repository.display()));
    let mut command = world.command(&[]);
    command.env("PATH", slow_git(&world));
    let first = StubbornRun::launch(&world, command, "first", &LEASE, "while :; do sleep 1; done");
    let token = first.started_alone(&world);
    fs::write(world.file("slow"), "").unwrap();
    world.read_soon("locked");
    assert_eq!(locks(&repository).len(), 1, "it holds the lock");
    processes::signal(first.warden(), Signal::KILL);
    until("nothing of CMD is left", || tree_of(&world, token).is_empty());
    let second = StubbornRun::start(&world, "second", &LEASE);
    assert!(second.started_alone(&world) > token);
    until("no lock is left", || locks(&repository).is_empty());
}

/// The store does not answer a leader's report on itself: CMD is asked to end at once, and not when the store is given up.
#[test]
fn a_report_that_the_store_does_not_answer_keeps_nothing_waiting() {
    let place = tempfile::tempdir().unwrap();
    let repository = repository(place.path());
    let world = World::on(&format!("git:{}", repository.display()));
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--depends", "db"]);
    fs::write(world.file("a.json"), r#"{"dependencies": {"db": "ok"}}"#).unwrap();
    let script = r#"trap 'echo >> "$E2E_WORLD/asked"; exit 3' TERM
echo > "$E2E_WORLD/started"; while :; do sleep 0.05; done"#;
    let mut command =
        world.command(&["run", "e", "--as", "a", "--ttl", "10m", "--once", "--describe", "a.json", "--"]);
    command.args(["sh", "-c", script]).env("PATH", slow_git(&world));
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    world.read_soon("started");
    fs::write(world.file("hold"), "").unwrap();
    fs::write(world.file("next.json"), r#"{"dependencies": {"db": "failing"}}"#).unwrap();
    fs::rename(world.file("next.json"), world.file("a.json")).unwrap();
    world.read_soon("asked");
    // The report's git is the first. It is still held when CMD was asked, and nobody has ended it by then. What becomes of it once it
    // may go on, or the run ends, is a race.
    assert!(!has_noted(&world, "gave-up"), "CMD was asked only after the store had been given up");
    fs::remove_file(world.file("hold")).unwrap();
    assert_eq!(exit_code(&mut run), Some(4));
    held_ends(&world);
    assert_eq!(world.status("e")["state"], "vacant");
}

/// The store does not answer a command that holds a resource: the death of its warden is heeded at once, and not when the store is given up.
#[test]
fn a_hold_that_the_store_does_not_answer_keeps_nothing_waiting() {
    let place = tempfile::tempdir().unwrap();
    let repository = repository(place.path());
    let world = World::on(&format!("git:{}", repository.display()));
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    let script = r#"(setsid sh -c 'echo $$ > "$E2E_WORLD/daemon.new"; mv "$E2E_WORLD/daemon.new" "$E2E_WORLD/daemon"; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &)
while [ ! -e "$E2E_WORLD/daemon" ]; do sleep 0.02; done; echo > "$E2E_WORLD/hold"; while :; do sleep 1; done"#;
    let mut command = world.command(&["fence", "db", "--election", "e", "--token", "1", "--as", "a", "--"]);
    command.args(["sh", "-c", script]).env("PATH", slow_git(&world));
    let mut fence = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    world.read_soon("held");
    let daemon = world.read_soon("daemon").trim().to_string();
    let warden = processes::warden(fence.id()).unwrap();
    processes::signal(warden, Signal::KILL);
    until("the daemon is gone", || !Path::new(&format!("/proc/{daemon}/exe")).exists());
    fs::remove_file(world.file("hold")).unwrap();
    assert!(exit_code(&mut fence).is_some());
    held_ends(&world);
    let noted = has_noted(&world, "went-on") || has_noted(&world, "gave-up");
    let gave_up_first = world.file("gave-up-first").exists();
    assert!(noted && !gave_up_first, "CMD was ended only after the store had been given up");
}

#[test]
fn a_lock_that_was_left_behind_is_named_with_the_command_that_removes_it() {
    let place = tempfile::tempdir().unwrap();
    let repository = repository(place.path());
    let world = World::on(&format!("git:{}", repository.display()));
    world.ok(&["acquire", "e", "--as", "a"]);
    world.ok(&["release", "e", "--as", "a"]);
    let lock = repository.join(".git/refs/baton/e.lock");
    let left = File::create(&lock).unwrap();
    let young = world.call(&["doctor"]).expect(0);
    assert!(young.stdout.contains("no lock file is left behind"), "{}", young.stdout);
    left.set_modified(SystemTime::now() - Duration::from_secs(120)).unwrap();
    let done = world.call(&["acquire", "e", "--as", "b", "--wait", "1s"]);
    assert_ne!(done.code, 0);
    assert!(done.stderr.contains("baton doctor"), "{}", done.stderr);
    let old = world.call(&["doctor"]).expect(7);
    assert!(old.stdout.contains(&format!("rm {}", lock.display())), "{}", old.stdout);
    assert!(lock.exists(), "it is not removed by its age");
    fs::remove_file(&lock).unwrap();
    world.call(&["doctor"]).expect(0);
    world.ok(&["acquire", "e", "--as", "b"]);
}
