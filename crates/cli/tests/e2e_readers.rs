//! Readers never write and never create; output is for whoever reads it.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{World, baton, exit_code, finish, tree, until};

const READERS: [&[&str]; 11] = [
    &["status"],
    &["status", "e"],
    &["status", "--json"],
    &["watch", "e", "--changes", "0"],
    &["history", "e"],
    &["check", "e", "--token", "1"],
    &["check", "e", "--token", "1", "--as", "somebody"],
    &["handover", "e", "--look"],
    &["fence", "db", "--log"],
    &["fence", "--log"],
    &["policy", "e"],
];

#[test]
fn readers_do_not_create_a_store() {
    let world = World::new();
    for reader in READERS.into_iter().chain([&["doctor"][..]]) {
        let _ = world.call(reader);
        assert!(!world.store().exists(), "{reader:?} made a store");
    }
    // Nor does a command that is refused because of its arguments.
    world.call(&["acquire", "e"]).expect(2);
    world.call(&["acquire", "E", "--as", "a"]).expect(2);
    assert!(!world.store().exists());
}

#[test]
fn readers_write_nothing_into_a_store() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "x"]);
    world.ok(&["fence", "db", "--election", "e", "--token", "1"]);
    // Even a view that is out of date is not theirs to repair.
    std::fs::write(world.store().join("e/coordinator.json"), "old").unwrap();
    let before = tree(&world.store());
    for reader in READERS.into_iter().chain([&["doctor"][..]]) {
        let done = world.call_elsewhere(reader);
        assert_eq!(before, tree(&world.store()), "{reader:?} wrote: {done:?}");
    }
    world.ok(&["renew", "e", "--as", "a"]);
    let view = std::fs::read_to_string(world.store().join("e/coordinator.json")).unwrap();
    assert!(view.contains("\"coordinator\": \"a\""), "the next writer repairs it: {view}");
}

#[test]
fn the_view_for_people_has_its_five_fields_at_the_top() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--task", "refactor"]);
    let view = std::fs::read_to_string(world.store().join("e/coordinator.json")).unwrap();
    let names: Vec<&str> = view.lines().skip(1).take(5).map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(names, ["coordinator", "epoch", "acquired", "expires", "task"], "{view}");
}

#[test]
fn a_pipe_that_is_closed_is_success() {
    let world = World::new();
    for number in 0..20 {
        world.ok(&["acquire", &format!("e{number}"), "--as", "a"]);
    }
    for reader in
        [&["status"][..], &["status", "--json"], &["history", "e1"], &["--help"], &["completions", "bash"]]
    {
        let (gone, pipe) = std::io::pipe().unwrap();
        drop(gone);
        let mut child = world.command(reader).stdout(pipe).stderr(Stdio::piped()).spawn().unwrap();
        assert_eq!(exit_code(&mut child), Some(0), "{reader:?}");
        let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert_eq!(said, "", "{reader:?}");
    }
}

#[test]
fn stdout_is_data_and_stderr_is_talk() {
    let world = World::new();
    let empty = world.ok(&["status"]);
    assert_eq!(empty.stdout, "");
    assert!(empty.stderr.contains("no elections"), "{}", empty.stderr);
    assert_eq!(world.ok(&["status", "--json"]).stdout, "");
    let refused = world.call(&["status", "e"]).expect(1);
    assert_eq!(refused.stdout, "");
}

/// Runs a command at a terminal of its own, by `script`; gives what the terminal shows.
fn at_a_terminal(world: &World, arguments: &str, no_colour: bool) -> Option<String> {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_baton"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(world.path()).stdin(Stdio::null());
    command.env("BATON_STORE", world.url()).env("TERM", "xterm").env_remove("NO_COLOR");
    if no_colour {
        command.env("NO_COLOR", "1");
    }
    let done = command.output().ok()?;
    Some(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn colour_only_at_a_terminal_and_never_with_no_color() {
    let world = World::new();
    let piped = world.call(&["status", "unknown"]);
    assert!(!piped.stderr.contains('\u{1b}'), "{}", piped.stderr);
    let help = world.ok(&["--help"]);
    assert!(!help.stdout.contains('\u{1b}'), "{}", help.stdout);
    let Some(coloured) = at_a_terminal(&world, "status unknown", false) else { return };
    assert!(coloured.contains("\u{1b}["), "{coloured}");
    let plain = at_a_terminal(&world, "status unknown", true).unwrap();
    assert!(plain.contains("error:") && !plain.contains('\u{1b}'), "{plain}");
}

fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
    let done = Command::new("git").args(identity).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_worktree_and_the_main_tree_have_the_same_default_store() {
    let world = World::new();
    let main = world.file("main");
    std::fs::create_dir_all(main.join("deep/er")).unwrap();
    git(&main, &["init", "-q"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&main, &["worktree", "add", "-q", "../linked"]);
    let call = |folder: &Path, arguments: &[&str]| {
        let mut command = world.command(arguments);
        command.env_remove("BATON_STORE").current_dir(folder);
        finish(command, None)
    };
    call(&main, &["acquire", "e", "--as", "a"]).expect(0);
    assert!(main.join(".baton").is_dir());
    for folder in ["linked", "main", "main/deep/er"] {
        let done = call(&world.file(folder), &["acquire", "e", "--as", "b", "--json"]).expect(3);
        assert_eq!(done.json()["code"], "held", "{folder}");
    }
    // The key is found from everywhere too.
    call(&world.file("linked"), &["renew", "e", "--as", "a"]).expect(0);
    assert!(!world.file("linked/.baton").exists());
    // The store is no part of the work.
    let status = Command::new("git").args(["status", "--porcelain"]).current_dir(&main).output().unwrap();
    assert_eq!(String::from_utf8(status.stdout).unwrap(), "");
}

#[test]
fn one_store_by_whatever_name_has_one_state_folder() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a"]);
    std::os::unix::fs::symlink(world.store(), world.file("link")).unwrap();
    for name in ["file:store", "file:./store", "./store", "file:../store/../store", "file:link"] {
        let inside = world.file("sub");
        std::fs::create_dir_all(&inside).unwrap();
        let mut command = world.command(&["renew", "e", "--as", "a", "--store", name]);
        if name.contains("..") {
            command.current_dir(inside);
        }
        finish(command, None).expect(0);
    }
}

#[test]
fn a_home_folder_is_needed_only_where_something_private_is_kept() {
    let world = World::folder();
    let mut command = baton();
    command.args(["acquire", "e", "--as", "a"]).current_dir(world.path()).env("BATON_STORE", world.url());
    for name in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    command.env("HOME", world.file("home"));
    finish(command, None).expect(0);
    until("the key is in the home folder", || world.file("home/.local/state/baton").is_dir());
    assert!(world.store().is_dir());
}
