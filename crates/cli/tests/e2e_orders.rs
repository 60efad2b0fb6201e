//! Orders on the store as a whole that take several operators: with real processes, on a folder and at a real server.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use serde_json::json;
use support::World;
use support::server::Server;

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
