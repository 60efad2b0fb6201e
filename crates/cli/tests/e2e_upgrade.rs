//! Two versions of Baton beside each other. There is one format so far: the newer program is this one, told to speak the next format.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::server_group::ServerGroup;
use crate::support::{Done, World, baton, finish, test_stores, tree, until};

const REHEARSE: &str = "BATON_REHEARSE_FORMAT";

fn newer(mut command: Command) -> Command {
    command.env(REHEARSE, "2");
    command
}

/// A call of the newer program.
fn call_newer(world: &World, arguments: &[&str]) -> Done {
    finish(newer(world.command(arguments)), None)
}

/// That a call of the older program names the format that is needed.
#[track_caller]
fn is_refused(world: &World, arguments: &[&str]) {
    let told = world.call(&[arguments, &["--json"]].concat()).expect(7).json();
    assert_eq!(told["code"], "newer-format", "{told}");
    for field in ["message", "hint"] {
        assert!(told[field].as_str().is_some_and(|text| text.contains("format 2")), "{told}");
    }
}

#[test]
fn an_older_program_refuses_a_newer_record_and_changes_nothing() {
    let world = World::folder();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "60s"]);
    call_newer(&world, &["renew", "e", "--as", "a"]).expect(0);
    let before = tree(&world.store());
    let calls: [&[&str]; 8] = [
        &["status", "e"],
        &["history", "e"],
        &["renew", "e", "--as", "a"],
        &["release", "e", "--as", "a"],
        &["acquire", "e", "--as", "b"],
        &["checkpoint", "e", "--as", "a", "--summary", "half done"],
        &["fence", "db/orders", "--election", "e", "--token", "1"],
        &["pause", "e", "--reason", "night"],
    ];
    for call in calls {
        is_refused(&world, call);
        assert_eq!(tree(&world.store()), before, "{call:?} changes nothing");
    }
    call_newer(&world, &["release", "e", "--as", "a"]).expect(0);
}

#[test]
fn an_older_client_is_told_what_a_newer_server_needs_and_a_newer_client_speaks_to_an_older_server() {
    let place = test_stores::file().unwrap();
    let folder = tempfile::tempdir().unwrap();
    World::on(&place.url).ok(&["init"]);
    let mut servers = ServerGroup::start(folder.path(), &place.url, 1, &[]);
    let world = World::on(&servers.url());
    servers.active(None);
    call_newer(&world, &["acquire", "e", "--as", "a", "--ttl", "60s"]).expect(0);
    servers.stop(0);
    servers.rehearse(0, "2");
    servers.run(0);
    servers.active(None);
    is_refused(&world, &["renew", "e", "--as", "a"]);
    is_refused(&world, &["acquire", "f", "--as", "b"]);
    is_refused(&world, &["status"]);
    call_newer(&world, &["renew", "e", "--as", "a"]).expect(0);
    let shown = call_newer(&world, &["status", "--json"]).expect(0).jsons();
    assert!(shown.iter().any(|one| one["election"] == "e"), "{shown:?}");
    assert!(
        shown.iter().all(|one| one["election"] != "f"),
        "nothing was begun for the older client: {shown:?}"
    );
}

/// Standbys first, then the active one. Leaders go on, and nobody but newer programs can follow.
#[test]
fn three_servers_are_upgraded_one_after_another_and_no_lease_is_lost() {
    const TTL: &str = "120s";
    let place = test_stores::file().unwrap();
    let folder = tempfile::tempdir().unwrap();
    World::on(&place.url).ok(&["init"]);
    let mut servers = ServerGroup::start(folder.path(), &place.url, 3, &["--server-ttl", "4s"]);
    let world = World::on(&servers.url());
    let first = servers.active(None);
    let token = world.json(&["acquire", "e", "--as", "a", "--ttl", TTL])["token"].clone();
    for standby in (0..3).filter(|number| *number != first) {
        servers.stop(standby);
        servers.rehearse(standby, "2");
        servers.run(standby);
        // The active one is older, and so is its client.
        world.ok(&["renew", "e", "--as", "a"]);
        call_newer(&world, &["renew", "e", "--as", "a"]).expect(0);
    }
    assert_eq!(servers.active(None), first, "a standby that starts takes nothing over");
    servers.stop(first);
    let second = servers.active(Some(first));
    until("the lease goes on under a newer server", || {
        call_newer(&world, &["renew", "e", "--as", "a"]).code == 0
    });
    is_refused(&world, &["renew", "e", "--as", "a"]);
    goes_back(&place.url, folder.path());
    servers.rehearse(first, "2");
    servers.run(first);
    servers.kill(second);
    servers.active(Some(second));
    until("and under the next", || call_newer(&world, &["renew", "e", "--as", "a"]).code == 0);
    let shown = call_newer(&world, &["status", "e", "--json"]).expect(0).json();
    assert_eq!(shown["leader"]["token"], token, "nobody else led meanwhile: {shown}");
}

/// Starts an older server on a store that newer ones have written: it says what it needs, and is never active.
fn goes_back(store: &str, folder: &Path) {
    let (announced, said) = (folder.join("late.address"), folder.join("late.log"));
    let mut late = baton();
    late.args(["serve", "--take-over", "--store", store, "--listen", "127.0.0.1:0", "--address-file"])
        .arg(&announced)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&said).unwrap());
    let mut late = late.spawn().unwrap();
    let log = || std::fs::read_to_string(&said).unwrap();
    until("it names the format that it needs", || log().contains("format 2"));
    assert!(!log().contains("active in epoch"), "{}", log());
    late.kill().unwrap();
    late.wait().unwrap();
}
