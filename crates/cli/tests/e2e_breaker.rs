//! Circuit breakers: who fails at tasks again and again is told to do no more of their kind, until it has rested or an operator says so.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use support::World;
use support::server::Server;

fn task(world: &World, id: &str, needs: &[&str]) {
    world.ok(&[&["task", "add", "e", "a task", "--id", id, "--as", "a"][..], needs].concat());
}

fn fail(world: &World, id: &str) {
    world.ok(&["task", "assign", "e", id, "--to", "w", "--as", "a"]);
    world.ok(&["task", "accept", "e", id, "--as", "w"]);
    world.ok(&["task", "fail", "e", id, "--reason", "no compiler", "--as", "w"]);
}

fn who_fails_rests(world: &World, restart: impl FnOnce()) {
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--breaker", "2/1h"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    for id in ["one", "two", "three", "four"] {
        task(world, id, &["--needs", "rust"]);
    }
    task(world, "plain", &[]);
    fail(world, "one");
    fail(world, "two");
    restart();
    let refused =
        world.call(&["task", "assign", "e", "three", "--to", "w", "--as", "a", "--json"]).expect(3).json();
    assert_eq!(refused["code"], "not-eligible", "{refused}");
    assert!(refused["why"].as_str().unwrap().contains("no compiler"), "{refused}");
    let breakers = world.ok(&["breaker", "list", "e", "--json"]).jsons();
    assert_eq!(breakers.len(), 1);
    assert_eq!(
        (
            &breakers[0]["agent"],
            &breakers[0]["capability"],
            &breakers[0]["standing"],
            &breakers[0]["failures"]
        ),
        (&"w".into(), &"rust".into(), &"open".into(), &2.into())
    );
    // Others are told instead, and what it did not fail at it still may do.
    let best = world.json(&["task", "assign", "e", "three", "--among", "w:rust:9,x:rust:1", "--as", "a"]);
    assert_eq!(best["agent"], "x");
    world.call(&["task", "assign", "e", "four", "--among", "w:rust:9", "--as", "a"]).expect(3);
    world.ok(&["task", "assign", "e", "plain", "--to", "w", "--as", "a"]);
    world.ok(&["breaker", "reset", "e"]);
    world.ok(&["task", "assign", "e", "four", "--to", "w", "--as", "a"]);
    let audit = world.ok(&["audit", "e"]).stdout;
    assert!(audit.contains("policy"), "an operator's reset is in the audit log: {audit}");
}

#[test]
fn who_fails_rests_in_a_folder() {
    who_fails_rests(&World::folder(), || {});
}

#[test]
fn who_fails_rests_at_a_server_that_crashes_meanwhile() {
    let place = World::folder();
    let mut server = Server::start(&place.file("baton.redb"));
    let world = World::on(&server.url());
    who_fails_rests(&world, || server.crash());
}
