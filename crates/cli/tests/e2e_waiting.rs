//! Whoever stands by says whom it waits for, and is shown.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::support::server::Server;
use crate::support::{World, exit_code, processes, until};

const WORK: &str = "while :; do sleep 0.05; done";

/// A run, whose words are kept in a file of its name.
fn start(world: &World, agent: &str, ttl: &str) -> Child {
    let mut command = world.command(&["run", "e", "--as", agent, "--ttl", ttl, "--", "sh", "-c", WORK]);
    let said = File::create(world.file(&format!("{agent}.err"))).unwrap();
    command.stdout(Stdio::null()).stderr(said).spawn().unwrap()
}

fn said(world: &World, agent: &str) -> String {
    std::fs::read_to_string(world.file(&format!("{agent}.err"))).unwrap_or_default()
}

fn says(world: &World, agent: &str, words: &str) {
    until(&format!("{agent} says: {words}"), || said(world, agent).contains(words));
}

fn end(run: &mut Child) {
    processes::signal(run.id(), Signal::TERM);
    assert!(exit_code(run).is_some());
}

fn waiting(world: &World) -> Vec<String> {
    let status = world.status("e");
    let all = status["waiting"].as_array().unwrap();
    all.iter().map(|one| one["agent"].as_str().unwrap().to_string()).collect()
}

fn standbys_are_told_and_shown(world: &World) {
    let mut alice = start(world, "alice", "20s");
    says(world, "alice", "alice leads e with token 1");
    assert!(
        !said(world, "alice").contains("waits"),
        "who leads at once did not wait: {}",
        said(world, "alice")
    );
    let mut bob = start(world, "bob", "20s");
    says(world, "bob", "bob waits to lead e: alice leads with token 1, and its lease lasts ");
    assert!(said(world, "bob").contains("s more unless renewed"), "{}", said(world, "bob"));
    until("bob is shown", || waiting(world) == ["bob"]);
    let mut carol = start(world, "carol", "20s");
    until("both are shown", || {
        let mut shown = waiting(world);
        shown.sort();
        shown == ["bob", "carol"]
    });
    let text = world.ok(&["status", "e"]).stdout;
    assert!(text.contains("  in line     ") && text.contains("carol"), "{text}");
    let shown = world.ok(&["top", "--once"]).stdout;
    let row = shown.lines().find(|line| line.starts_with("e ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(shown.contains("IN LINE") && row.trim_end().ends_with('2'), "{shown}");
    let looked = world.ok(&["top", "--once", "--json"]).jsons();
    assert_eq!(looked[0]["waiting"].as_array().map(Vec::len), Some(2), "{looked:?}");
    until("both are agents", || {
        let agents = world.ok(&["agents", "--json"]).jsons();
        let stand = |name: &str| agents.iter().any(|one| one["agent"] == name && one["stands_for"][0] == "e");
        stand("bob") && stand("carol")
    });
    end(&mut carol);
    until("carol is gone", || waiting(world) == ["bob"]);
    end(&mut alice);
    says(world, "bob", "bob leads e with token 2");
    until("nobody waits", || waiting(world).is_empty());
    // Another waits for another.
    let mut dave = start(world, "dave", "20s");
    says(world, "dave", "dave waits to lead e: bob leads with token 2");
    assert_eq!(said(world, "dave").matches("waits to lead").count(), 1, "{}", said(world, "dave"));
    end(&mut dave);
    end(&mut bob);
}

#[test]
fn standbys_are_told_and_shown_in_a_folder() {
    standbys_are_told_and_shown(&World::folder());
}

#[test]
fn standbys_are_told_and_shown_at_a_server() {
    let folder = World::folder();
    let server = Server::start(&folder.file("waiting.redb"));
    standbys_are_told_and_shown(&World::on(&server.url()));
}

#[test]
fn a_standby_says_again_when_the_leader_changes() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    let mut run = start(&world, "z", "20s");
    says(&world, "z", "z waits to lead e: a leads with token 1");
    world.ok(&["release", "e", "--to", "b", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);
    says(&world, "z", "z waits to lead e: b leads with token 2");
    end(&mut run);
    let told = world.call(&["acquire", "e", "--as", "y", "--wait", "1s"]).expect(3);
    assert!(
        told.stderr.contains("y waits to lead e: b leads with token 2, and its lease lasts "),
        "{told:?}"
    );
}

/// The notes of those who wait lie in a folder that nobody may write: they are not shown, and lead all the same.
#[test]
fn who_cannot_be_noted_waits_and_leads_all_the_same() {
    if rustix::process::geteuid().is_root() {
        // Whom no mode keeps from writing is kept by a file in the folder's place.
        return who_cannot_be_noted(&World::folder(), |world| {
            std::fs::write(world.store().join("@waiting"), "").unwrap()
        });
    }
    who_cannot_be_noted(&World::folder(), |world| {
        let notes = world.store().join("@waiting");
        std::fs::create_dir(&notes).unwrap();
        std::fs::set_permissions(&notes, std::fs::Permissions::from_mode(0o500)).unwrap();
    });
}

fn who_cannot_be_noted(world: &World, bar: impl FnOnce(&World)) {
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    bar(world);
    let mut run = start(world, "z", "20s");
    says(world, "z", "z waits to lead e: a leads with token 1");
    assert_eq!(waiting(world), [""; 0]);
    world.ok(&["release", "e", "--as", "a"]);
    says(world, "z", "z leads e with token 2");
    end(&mut run);
}
