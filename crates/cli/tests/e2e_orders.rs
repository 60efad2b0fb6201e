//! Orders on the store as a whole that take several operators: with real processes, on a folder and at a real server.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support;
use crate::support::server::Server;
use crate::support::{World, until};

/// Two operators, and a quorum of both for the store's orders.
fn strict(world: &World) {
    world.ok(&["init"]);
    let key = world.call_elsewhere(&["operator", "key"]).expect(0).stdout.trim().to_string();
    world.ok(&["operator", "add", &key]);
    world.ok(&["operator", "quorum", "2"]);
}

#[test]
fn one_operator_stops_everything_and_two_let_it_go_on() {
    let world = World::folder();
    strict(&world);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.ok(&["pause", "--all", "--reason", "something is wrong"]);
    let signed = world.call(&["resume", "--all", "--json"]).expect(6).json();
    assert_eq!(
        (&signed["outcome"], &signed["have"], &signed["need"]),
        (&json!("signed"), &json!(1), &json!(2))
    );
    world.call(&["resume", "--all"]).expect(6);
    world.call(&["acquire", "new", "--as", "b"]).expect(6);
    let waits = world.ok(&["cosign", "--list", "--json"]).jsons();
    assert_eq!(
        (waits.len(), &waits[0]["what"], &waits[0]["have"]),
        (1, &json!("resume"), &json!(1)),
        "{waits:?}"
    );
    // Whoever has signed cannot sign for the other.
    world.call(&["cosign", "--yes"]).expect(2);
    // Nobody signs unseen, or unasked.
    let asked = world.call_elsewhere(&["cosign"]).expect(2);
    assert!(asked.stderr.contains("to sign: resume everything"), "{asked:?}");
    let done = world.call_elsewhere(&["cosign", "--yes", "--json"]).expect(0).json();
    assert_eq!((&done["outcome"], &done["elections"]), (&json!("done"), &json!(1)));
    world.ok(&["acquire", "new", "--as", "b"]);
    assert_ne!(world.status("e")["state"], "paused");
    world.call_elsewhere(&["cosign", "--yes"]).expect(2);
    world.ok(&["audit", "verify"]);
    let audit = world.ok(&["audit"]).stdout;
    assert!(audit.contains("resume everything"), "{audit}");
}

/// A resumption that waits is of the pause that was there: another pause voids it.
#[test]
fn a_second_pause_voids_the_resumption_that_waits() {
    let world = World::folder();
    strict(&world);
    world.ok(&["pause", "--all", "--reason", "something is wrong"]);
    world.call(&["resume", "--all"]).expect(6);
    world.ok(&["pause", "--all", "--reason", "worse: do not resume"]);
    let late = world.call_elsewhere(&["cosign", "--yes"]);
    assert_ne!(late.code, 0, "{late:?}");
    let refused = world.call(&["acquire", "new", "--as", "b"]).expect(6);
    assert!(refused.stderr.contains("worse"), "{refused:?}");
}

#[test]
fn one_operator_neither_lowers_the_quorum_nor_changes_the_operators() {
    let world = World::folder();
    strict(&world);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.call(&["operator", "quorum", "1"]).expect(6);
    let third = "5a".repeat(32);
    let bad = world.call(&["operator", "add", &third, "--break-glass", "--reason", "now"]);
    assert_ne!(bad.code, 0, "{bad:?}");
    // A key that is somebody's: that of a third person.
    let mut other = world.command(&["operator", "key"]);
    other.env("BATON_CONFIG_DIR", world.file("third"));
    let third = support::finish(other, None).expect(0).stdout.trim().to_string();
    world.call(&["operator", "add", &third]).expect(6);
    assert_eq!(world.ok(&["operator", "list", "--json"]).jsons().len(), 2, "nothing is done yet");
    let waits = world.ok(&["cosign", "--list", "--json"]).jsons();
    let id = |what: &str| {
        let found = waits.iter().find(|one| one["what"] == what).unwrap_or_else(|| panic!("{waits:?}"));
        found["order"].as_str().unwrap().to_string()
    };
    // Two wait: which one is meant must be said.
    let unclear = world.call_elsewhere(&["cosign", "--yes"]).expect(2);
    assert!(unclear.stderr.contains(&id("quorum")), "{unclear:?}");
    let done =
        world.call_elsewhere(&["cosign", "--order", &id("operators"), "--yes", "--json"]).expect(0).json();
    assert_eq!((&done["outcome"], &done["elections"]), (&json!("done"), &json!(1)));
    assert_eq!(world.ok(&["operator", "list", "--json"]).jsons().len(), 3);
    // The list of operators has changed: the other order is void.
    assert_eq!(world.ok(&["cosign", "--list"]).stdout, "");
    assert_eq!(world.json(&["operator", "quorum"])["quorum"]["quorum"], 2);
    world.ok(&["audit", "verify"]);
}

#[test]
fn a_token_opens_nothing_until_a_second_operator_has_signed() {
    let world = World::new();
    let mut server = Server::start(&world.file("baton.redb"));
    let at = World::on(&server.url());
    strict(&at);
    let made = at.call(&["token", "create", "--role", "observer", "--note", "ci", "--json"]).expect(6).json();
    assert_eq!(made["outcome"], "signed");
    assert!(at.ok(&["token", "list", "--json"]).jsons().is_empty());
    // The server is killed in between: what has gathered is in its store.
    server.crash();
    let waits = at.ok(&["cosign", "--list"]).stdout;
    assert!(waits.contains("create token") && waits.contains("1 of 2"), "{waits}");
    at.call_elsewhere(&["cosign", "--yes"]).expect(0);
    let listed = at.ok(&["token", "list", "--json"]).jsons();
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &made["id"]));
    // A leaked token is revoked by one.
    at.ok(&["token", "revoke", made["id"].as_str().unwrap()]);
    assert!(at.ok(&["token", "list", "--json"]).jsons().is_empty());
    at.ok(&["audit", "verify"]);
}

/// A new name for an operator is an order on the store like any other.
#[test]
fn a_name_that_waits_for_a_second_operator_is_not_told_as_set() {
    let world = World::folder();
    strict(&world);
    let named = world.call(&["init", "--name", "Ada"]).expect(6);
    assert!(named.stdout.contains("1 of 2 operators have signed"), "{named:?}");
    assert!(named.stderr.contains("baton cosign"), "{named:?}");
    let again = world.call(&["init", "--name", "Ada", "--json"]).expect(6).json();
    assert_eq!((&again["outcome"], &again["have"], &again["need"]), (&json!("signed"), &json!(1), &json!(2)));
    let names = || world.ok(&["operator", "list", "--json"]).stdout;
    assert!(!names().contains("Ada"), "{}", names());
    world.call_elsewhere(&["cosign", "--yes"]).expect(0);
    assert!(names().contains("Ada"), "{}", names());
    let named = world.ok(&["init", "--name", "Ada"]).stdout;
    assert!(named.contains("operator  Ada"), "{named}");
}

/// Whoever signs the making of a token sees what it opens, and to whom.
#[test]
fn what_a_token_would_open_is_shown_to_those_who_sign_it() {
    let world = World::folder();
    strict(&world);
    let secret = ["--role", "agent", "--agent", "ci-*", "--elections", "fleet/*", "--resources", "db/*"];
    let certified = ["--role", "operator", "--certificate", "spiffe://acme/agents/*", "--expires", "never"];
    let subject = ["--role", "observer", "--subject", "repo:acme/app:*", "--claim", "ref=main"];
    let opened = [
        (&secret[..], vec!["agent", "secret", "ci-*", "fleet/*", "db/*", "20"]),
        (&certified[..], vec!["operator", "certificate spiffe://acme/agents/*", "any", "all", "never"]),
        (&subject[..], vec!["observer", "JWT repo:acme/app:*", "ref=main"]),
    ];
    for (options, shown) in opened {
        let made = world.call(&[&["token", "create", "--json"], options].concat()).expect(6).json();
        let listed = world.ok(&["cosign", "--list"]).stdout;
        let asked = world.call_elsewhere(&["cosign"]).expect(2).stderr;
        for part in shown {
            assert!(listed.contains(part), "{part} in {listed}");
            assert!(asked.contains(part), "{part} in {asked}");
        }
        let data = world.ok(&["cosign", "--list", "--json"]).jsons().remove(0);
        let token = &data["token"];
        assert_eq!((&token["id"], &token["role"]), (&made["id"], &made["role"]), "{data}");
        assert!(token["elections"].is_array() && token["resources"].is_array(), "{data}");
        world.call_elsewhere(&["cosign", "--yes"]).expect(0);
    }
    // So is one that is to be revoked.
    let only_two = ["operator", "quorum", "2", "--for", "revoke-token"];
    world.call(&only_two).expect(6);
    world.call_elsewhere(&["cosign", "--yes"]).expect(0);
    let tokens = world.ok(&["token", "list", "--json"]).jsons();
    let first = tokens.iter().find(|token| token["role"] == "agent").unwrap();
    world.call(&["token", "revoke", first["id"].as_str().unwrap()]).expect(6);
    let asked = world.call_elsewhere(&["cosign"]).expect(2).stderr;
    assert!(asked.contains("revoke token") && asked.contains("fleet/*"), "{asked}");
}

/// What a server has at this moment, as a file that no later snapshot takes the place of.
fn snapshot(world: &World, file: &Path) -> PathBuf {
    let mut server = Server::start_with(file, &["--snapshot-every", "100ms"]);
    let folder = PathBuf::from(format!("{}.snapshots", file.display()));
    let newest = || {
        let entries = std::fs::read_dir(&folder).ok()?.map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "redb")).max()
    };
    // One that is taken at this moment may have begun before the start.
    for _ in 0..2 {
        let before = newest();
        until("a snapshot has been taken", || newest() > before);
    }
    server.stop();
    let kept = world.file("kept.redb");
    std::fs::copy(newest().unwrap(), &kept).unwrap();
    kept
}

#[test]
fn a_restore_brings_no_removed_operator_back_and_ends_no_pause() {
    let world = World::folder();
    let file = world.file("server.redb");
    let store = format!("embedded:{}", file.display());
    let on = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        command.args(["--store", &store]);
        support::finish(command, None)
    };
    let key = |folder: &str| {
        let mut command = world.command(&["operator", "key"]);
        command.env("BATON_CONFIG_DIR", world.file(folder));
        support::finish(command, None).expect(0).stdout.trim().to_string()
    };
    let removed = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        command.args(["--store", &store]).env("BATON_CONFIG_DIR", world.file("removed"));
        support::finish(command, None)
    };
    on(&["init"]).expect(0);
    for folder in ["removed", "stays"] {
        on(&["operator", "add", &key(folder)]).expect(0);
    }
    on(&["acquire", "e", "--as", "a"]).expect(0);
    removed(&["audit", "note", "e", "still an operator"]).expect(0);
    let kept = snapshot(&world, &file).display().to_string();
    on(&["operator", "remove", &key("removed")]).expect(0);
    on(&["operator", "quorum", "2"]).expect(0);
    on(&["pause", "--all", "--reason", "fire"]).expect(0);
    let restored = on(&["restore", &kept]).expect(0);
    assert!(restored.stderr.contains("those of the former store"), "{}", restored.stderr);
    // All of that holds, for the store and for its elections.
    for arguments in [&["resume", "--all"][..], &["resume", "e"], &["audit", "note", "e", "again"]] {
        let refused = removed(arguments).expect(6);
        assert!(refused.stderr.contains("operator"), "{refused:?}");
    }
    let paused = on(&["acquire", "e", "--as", "a"]).expect(6);
    assert!(paused.stderr.contains("fire"), "{paused:?}");
    let status = on(&["status"]).expect(0).stderr;
    assert!(status.contains("everything is paused"), "{status}");
    let resumed = on(&["resume", "--all"]).expect(6);
    assert!(resumed.stdout.contains("1 of 2 operators"), "{resumed:?}");
    assert_eq!(on(&["operator", "list", "--json"]).expect(0).jsons().len(), 2);
    on(&["audit", "verify"]).expect(0);
    // Where nobody knows who was removed since, everything is paused until an operator has looked.
    let elsewhere = format!("embedded:{}", world.file("elsewhere.redb").display());
    let alone = world.ok(&["restore", &kept, "--store", &elsewhere]);
    let operator = format!("operator   {}", key("removed"));
    for told in ["there is no former store", &operator, "quorum     ", "everything is paused"] {
        assert!(alone.stderr.contains(told), "{told} in {}", alone.stderr);
    }
    let paused = world.ok(&["status", "--store", &elsewhere]).stderr;
    assert!(paused.contains("everything is paused by baton restore"), "{paused}");
    world.ok(&["operator", "remove", &key("removed"), "--store", &elsewhere]);
    world.ok(&["resume", "--all", "--store", &elsewhere]);
    world.ok(&["audit", "verify", "--store", &elsewhere]);
    let trusted = format!("embedded:{}", world.file("trusted.redb").display());
    let trusted = world.json(&["restore", &kept, "--trust-snapshot", "--store", &trusted]);
    assert_eq!((&trusted["former"], &trusted["paused"]), (&json!("absent"), &json!(false)));
}
