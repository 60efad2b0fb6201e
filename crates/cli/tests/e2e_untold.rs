//! Where nobody is told of changes, waiters look for themselves, and the commands say so.
#![cfg(feature = "all-stores")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::File;

use serde_json::Value;

use crate::support::{World, exit_code, finish, test_stores, until};

/// What the doctor found of being told, with this store.
fn watching(world: &World, url: &str, pubsub: &str) -> Value {
    let mut doctor = world.command(&["--json", "--store", url, "doctor"]);
    doctor.env("PUBSUB_EMULATOR_HOST", pubsub);
    let found = finish(doctor, None).jsons();
    found.iter().find(|line| line["check"] == "watch").unwrap_or_else(|| panic!("{found:?}")).clone()
}

#[test]
fn a_missing_topic_is_told_of_once_and_changes_are_seen_all_the_same() {
    let (Some(place), Some(pubsub)) = (test_stores::firestore(), test_stores::at("BATON_TEST_PUBSUB")) else {
        return;
    };
    let world = World::on(&place.url);
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let notified = format!("{}&notify=pubsub:missing", place.url);
    let told = watching(&world, &notified, &pubsub);
    assert_eq!(told["verdict"], "warn", "{told}");
    assert!(told["hint"].as_str().unwrap().contains("topics create"), "{told}");
    until("it is told", || watching(&world, &place.url, &pubsub)["verdict"] == "ok");

    let mut watch = world.command(&["--store", &notified, "watch", "e", "--changes", "1"]);
    let file = |name: &str| File::create(world.file(name)).unwrap();
    watch.env("PUBSUB_EMULATOR_HOST", pubsub).stdout(file("out")).stderr(file("err"));
    let mut watch = watch.spawn().unwrap();
    until("it looks", || !std::fs::read_to_string(world.file("out")).unwrap().is_empty());
    world.ok(&["release", "e", "--as", "a"]);
    assert_eq!(exit_code(&mut watch), Some(0));
    let said = std::fs::read_to_string(world.file("err")).unwrap();
    assert_eq!(said.matches("nobody is told of changes").count(), 1, "{said}");
    assert!(said.contains("topics create"), "{said}");
}

#[test]
fn a_pooler_that_swallows_what_the_server_tells_is_found() {
    let (Some(place), Some(pooler)) = (test_stores::postgres(), test_stores::at("BATON_TEST_PGBOUNCER"))
    else {
        return;
    };
    let world = World::on(&place.url);
    world.ok(&["init"]);
    // A busy server may not say so in time.
    until("it is told", || watching(&world, &place.url, "")["verdict"] == "ok");
    let (_, parameters) = place.url.split_once('?').unwrap();
    let told = watching(&world, &format!("{pooler}?{parameters}"), "");
    assert_eq!(told["verdict"], "warn", "{told}");
    assert!(told["hint"].as_str().unwrap().contains("pooler"), "{told}");
}
