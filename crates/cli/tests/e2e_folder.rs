//! A store in a folder, and other users than the one who made it.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "what was skipped is said")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::support;
use crate::support::{Done, World, finish, tree};

/// Whom the other calls are made as.
const OTHER: u32 = 65_534;

/// A world that other users can reach; none where this user cannot become one of them.
fn shared() -> Option<World> {
    let root = rustix::process::geteuid().is_root();
    if !root || Command::new("setpriv").arg("--version").output().is_err() {
        support::skip("this user cannot become another one");
        return None;
    }
    let world = World::folder_below(Path::new("/tmp"));
    fs::create_dir(world.file("other")).unwrap();
    chown(world.file("other"), Some(OTHER), Some(OTHER)).unwrap();
    set(&world.file("other"), 0o700);
    set(world.path(), 0o755);
    fs::copy(env!("CARGO_BIN_EXE_baton"), world.file("baton")).unwrap();
    Some(world)
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A call as the other user, with private folders of its own.
fn as_other(world: &World, arguments: &[&str]) -> Done {
    let plain = world.command(arguments);
    let mut command = Command::new("setpriv");
    let user = OTHER.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]);
    command.arg(world.file("baton")).args(arguments).current_dir(world.path());
    for (name, value) in plain.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    for (name, folder) in
        [("BATON_STATE_DIR", "state"), ("BATON_CONFIG_DIR", "config"), ("XDG_RUNTIME_DIR", "run")]
    {
        command.env(name, world.file("other").join(folder));
    }
    finish(command, None)
}

/// A call without a store that is named, in this folder.
fn unnamed(world: &World, folder: &Path, arguments: &[&str]) -> Done {
    let mut command = world.command(arguments);
    command.env_remove("BATON_STORE").current_dir(folder);
    finish(command, None)
}

#[test]
fn a_store_of_another_user_that_is_found_upwards_is_not_taken() {
    let Some(world) = shared() else { return };
    let open = world.file("open");
    let deep = open.join("mine");
    fs::create_dir_all(&deep).unwrap();
    set(&open, 0o1777);
    let theirs = open.join(".baton");
    let store = format!("file:{}", theirs.display());
    as_other(&world, &["acquire", "deploy", "--as", "mallory", "--store", &store]).expect(0);
    let before = tree(&theirs);
    let run = ["run", "deploy", "--as", "bot", "--once", "--wait", "1s", "--", "true"];
    for call in [&run[..], &["status", "deploy"], &["acquire", "deploy", "--as", "bot"]] {
        let refused = unnamed(&world, &deep, call).expect(7);
        assert!(refused.stderr.contains("belongs to another user"), "{}", refused.stderr);
        assert!(refused.stderr.contains(&format!("--store {store}")), "{}", refused.stderr);
    }
    assert_eq!(tree(&theirs), before, "nothing was touched");
    let named = unnamed(&world, &deep, &["status", "deploy", "--store", &store]).expect(0);
    assert!(named.stdout.contains("mallory"), "named, it is used: {}", named.stdout);
    fs::remove_dir_all(&theirs).unwrap();
    fs::create_dir(&theirs).unwrap();
    let run = ["run", "build", "--as", "bot", "--once", "--", "true"];
    let found = unnamed(&world, &deep, &run).expect(0);
    assert!(found.stderr.contains(&format!("uses the store {store}")), "{}", found.stderr);
}

/// A standby that may not write is told so before it waits for its turn.
#[test]
fn a_standby_that_may_not_write_does_not_wait_for_its_turn() {
    let Some(world) = shared() else { return };
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    for call in
        [&["run", "e", "--as", "b", "--", "true"][..], &["acquire", "e", "--as", "b", "--wait", "30m"]]
    {
        let refused = as_other(&world, call).expect(7);
        assert!(refused.stderr.contains("may not use it"), "{}", refused.stderr);
        assert!(refused.stderr.contains("chmod"), "it says what to do: {}", refused.stderr);
    }
}

#[test]
fn init_changes_nothing_where_one_election_cannot_be_written() {
    let Some(world) = shared() else { return };
    for election in ["a", "b"] {
        world.ok(&["acquire", election, "--as", "a"]);
    }
    // All of the store is everybody's, but for one election.
    for path in tree(&world.store()).into_keys().chain([world.store()]) {
        set(&path, if path.is_dir() { 0o777 } else { 0o666 });
    }
    set(&world.store().join("b/versions"), 0o755);
    let before = tree(&world.store());
    let refused = as_other(&world, &["init"]).expect(7);
    assert!(refused.stderr.contains("b/versions"), "it says where: {}", refused.stderr);
    assert_eq!(tree(&world.store()), before, "nothing was changed");
    assert!(!world.file("other/config").exists(), "no key was made");
    world.ok(&["init"]);
}
