//! Elections over a git remote, by the command.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support;
use crate::support::{Done, World, exit_code, finish, until};

fn git(folder: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
    let done = Command::new("git").args(identity).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A bare remote and two clones of it.
fn cloned() -> World {
    let world = World::new();
    git(world.path(), &["init", "-q", "--bare", "hub.git"]);
    for clone in ["one", "two"] {
        git(world.path(), &["clone", "-q", "hub.git", clone]);
    }
    world
}

/// A call in a clone, whose user has private folders of their own.
fn command(world: &World, clone: &str, arguments: &[&str]) -> Command {
    let mut command = world.command(arguments);
    let folder = world.file(clone);
    command
        .current_dir(&folder)
        .env("BATON_STORE", "git:.?remote=origin")
        .env("BATON_STATE_DIR", world.file(&format!("state-{clone}")))
        .env("BATON_CONFIG_DIR", world.file(&format!("config-{clone}")));
    command
}

fn call(world: &World, clone: &str, arguments: &[&str]) -> Done {
    finish(command(world, clone, arguments), None)
}

#[test]
fn a_leadership_is_known_in_every_clone_and_touches_no_work_tree() {
    let world = cloned();
    fs::write(world.file("one/mine"), "unsaved work").unwrap();
    git(&world.file("one"), &["add", "mine"]);
    let before = git(&world.file("one"), &["status", "--porcelain"]);
    call(&world, "one", &["acquire", "e", "--as", "a"]).expect(0);
    let refused = call(&world, "two", &["acquire", "e", "--as", "b", "--json"]).expect(3).json();
    assert_eq!(refused["code"], "held");
    let seen = call(&world, "two", &["status", "e", "--json"]).expect(0).json();
    assert_eq!((&seen["leader"]["agent"], &seen["token"]), (&"a".into(), &1.into()));
    call(&world, "one", &["checkpoint", "e", "--as", "a", "--summary", "half"]).expect(0);
    call(&world, "one", &["release", "e", "--as", "a"]).expect(0);
    let granted = call(&world, "two", &["acquire", "e", "--as", "b", "--json"]).expect(0).json();
    assert_eq!((&granted["token"], &granted["checkpoint"]), (&2.into(), &1.into()));
    call(&world, "two", &["handover", "e", "--as", "b"]).expect(0);
    let history = call(&world, "one", &["history", "e", "--json"]).expect(0).jsons();
    assert_eq!(history.len(), 2, "{history:?}");
    call(&world, "two", &["fence", "db", "--election", "e", "--token", "2"]).expect(0);
    call(&world, "one", &["fence", "db", "--token", "1"]).expect(5);
    assert_eq!(git(&world.file("one"), &["status", "--porcelain"]), before);
    assert_eq!(git(&world.file("two"), &["status", "--porcelain"]), "");
}

#[test]
fn a_run_in_one_clone_succeeds_one_in_another() {
    let world = cloned();
    let script = r#"echo "$BATON_TOKEN $BATON_STORE" > "$E2E_WORLD/leads-$BATON_AGENT"; cd /; while :; do sleep 0.1; done"#;
    let run = |clone: &str, agent: &str| {
        let arguments = ["run", "e", "--as", agent, "--ttl", "40s", "--", "sh", "-c", script];
        command(&world, clone, &arguments).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut first = run("one", "a");
    assert!(world.read_soon("leads-a").starts_with("1 "));
    let mut second = run("two", "b");
    first.kill().unwrap();
    first.wait().unwrap();
    // The warden of the first gives its lease back.
    assert!(world.read_soon("leads-b").starts_with("2 "));
    support::processes::signal(second.id(), rustix::process::Signal::TERM);
    assert!(exit_code(&mut second).is_some());
    let status = call(&world, "one", &["status", "e", "--json"]).expect(0).json();
    assert_eq!(status["state"], "vacant");
    until("nothing is left", || support::processes::of_world(world.mark()).is_empty());
}

#[test]
fn a_lease_that_is_not_renewed_runs_out_for_those_who_watch_it_stand_still() {
    let world = cloned();
    call(&world, "one", &["acquire", "e", "--as", "a", "--ttl", "2s"]).expect(0);
    call(&world, "two", &["acquire", "e", "--as", "b"]).expect(3);
    // Between the calls nobody runs: what was seen is kept in the private folder.
    until("it has stood still for long enough", || {
        call(&world, "two", &["acquire", "e", "--as", "b"]).code == 0
    });
    call(&world, "one", &["renew", "e", "--as", "a"]).expect(4);
}

#[test]
fn a_remote_that_is_gone() {
    let world = cloned();
    call(&world, "one", &["acquire", "e", "--as", "a", "--ttl", "1h"]).expect(0);
    fs::rename(world.file("hub.git"), world.file("away.git")).unwrap();
    for arguments in [&["status", "e", "--json"][..], &["renew", "e", "--as", "a", "--json"]] {
        let told = call(&world, "one", arguments).expect(7).json();
        assert!(told["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{told}");
    }
    call(&world, "two", &["acquire", "e", "--as", "b"]).expect(7);
    fs::rename(world.file("away.git"), world.file("hub.git")).unwrap();
    call(&world, "one", &["renew", "e", "--as", "a"]).expect(0);
    call(&world, "two", &["acquire", "e", "--as", "b"]).expect(3);
}

#[test]
fn a_remote_that_rejects() {
    let world = cloned();
    let hook = world.file("hub.git/hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho 'refs/baton is protected' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let told = call(&world, "one", &["acquire", "e", "--as", "a", "--json"]).expect(7).json();
    assert!(told["message"].as_str().unwrap().contains("protected"), "what the remote said: {told}");
    assert!(told["hint"].is_string(), "{told}");
    assert_eq!(git(&world.file("hub.git"), &["for-each-ref"]), "");
    fs::remove_file(&hook).unwrap();
    call(&world, "one", &["acquire", "e", "--as", "a"]).expect(0);
}

#[test]
fn folders_and_remotes_that_are_none() {
    let world = cloned();
    for store in ["git:/nowhere/at/all?remote=origin", "git:.?remote=nobody", "git:.?what=ever"] {
        let mut command = command(&world, "one", &["acquire", "e", "--as", "a", "--json"]);
        command.env("BATON_STORE", store);
        let told = finish(command, None);
        assert!([2, 7].contains(&told.code), "{store}: {told:?}");
        let told = told.json();
        assert!(told["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{store}: {told}");
    }
}

#[test]
fn two_histories_are_shown_and_settled_by_an_operator() {
    let world = cloned();
    call(&world, "one", &["init"]).expect(0);
    call(&world, "one", &["acquire", "e", "--as", "a", "--ttl", "2s"]).expect(0);
    let hub = world.file("hub.git");
    let old = git(&hub, &["rev-parse", "refs/baton/e"]).trim().to_string();
    call(&world, "one", &["release", "e", "--as", "a"]).expect(0);
    call(&world, "one", &["acquire", "e", "--as", "a", "--ttl", "2s"]).expect(0);
    // Somebody puts the old state back, and another agent goes on from there.
    git(&hub, &["update-ref", "refs/baton/e", &old]);
    let refused = call(&world, "one", &["acquire", "e", "--as", "a", "--json"]).expect(7).json();
    assert!(["diverged", "corrupt"].contains(&refused["code"].as_str().unwrap()), "{refused}");
    assert!(refused["hint"].is_string(), "{refused}");
}

#[test]
fn one_election_with_two_histories_does_not_hide_the_others() {
    let world = cloned();
    call(&world, "one", &["init"]).expect(0);
    for election in ["e", "f", "g"] {
        call(&world, "one", &["acquire", election, "--as", "a"]).expect(0);
    }
    let hub = world.file("hub.git");
    let old = git(&hub, &["rev-parse", "refs/baton/f"]).trim().to_string();
    call(&world, "one", &["release", "f", "--as", "a"]).expect(0);
    git(&hub, &["update-ref", "refs/baton/f", &old]);
    let shown = call(&world, "one", &["status"]).expect(7);
    let rows: Vec<Vec<&str>> = shown.stdout.lines().map(|row| row.split_whitespace().collect()).collect();
    let states: Vec<_> = rows.iter().skip(1).map(|row| (row[0], row[1])).collect();
    assert_eq!(states, [("e", "held"), ("f", "diverged"), ("g", "held")]);
    assert!(shown.stderr.contains("`f`: refs/baton/f"), "{}", shown.stderr);
    let told = call(&world, "one", &["status", "--json"]).expect(7).jsons();
    let named: Vec<_> = told.iter().map(|one| one["election"].as_str().unwrap()).collect();
    assert_eq!(named, ["e", "g", "f"]);
    assert_eq!((&told[2]["code"], &told[2]["exit"]), (&"diverged".into(), &7.into()));

    // Nor does it keep a new operator from them.
    let key = call(&world, "two", &["operator", "key"]).expect(0).stdout.trim().to_string();
    let told = call(&world, "one", &["operator", "add", &key, "--json"]).expect(7).json();
    assert_eq!((&told["code"], &told["failed"]), (&"diverged".into(), &serde_json::json!(["f"])));
    call(&world, "two", &["pause", "g"]).expect(0);
}

#[test]
fn what_is_not_known_of_a_lease_is_told_as_a_bound() {
    let world = cloned();
    call(&world, "one", &["acquire", "e", "--as", "a", "--ttl", "1h"]).expect(0);
    let refused = call(&world, "two", &["acquire", "e", "--as", "b", "--json"]).expect(3).json();
    assert_eq!(refused["remaining_at_most"], true, "{refused}");
    let seen = call(&world, "two", &["status", "e", "--json"]).expect(0).json();
    assert_eq!(seen["leader"]["remaining_at_most"], true, "{seen}");
    let text = call(&world, "two", &["status", "e"]).expect(0).stdout;
    assert!(text.contains("(lease at most "), "{text}");
    let stamped = World::new();
    stamped.ok(&["acquire", "e", "--as", "a"]);
    assert_eq!(stamped.status("e")["leader"]["remaining_at_most"], false);
}

#[test]
fn the_doctor_tries_a_commit_that_changes_nothing() {
    let world = cloned();
    call(&world, "one", &["acquire", "e", "--as", "a"]).expect(0);
    let before = call(&world, "one", &["history", "e", "--json"]).expect(0).stdout;
    let findings = call(&world, "one", &["doctor", "--write", "--json"]).expect(0).jsons();
    let write = findings.iter().find(|finding| finding["check"] == "write").unwrap();
    assert_eq!(write["verdict"], "ok", "{write}");
    assert_eq!(call(&world, "one", &["history", "e", "--json"]).expect(0).stdout, before);
    call(&world, "two", &["status", "e"]).expect(0);
}
