//! The operator's commands.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use support::{World, tree, until};

const ACTS: [&[&str]; 7] = [
    &["appoint", "e", "b"],
    &["depose", "e"],
    &["pause", "e"],
    &["resume", "e"],
    &["approve", "e"],
    &["reject", "e"],
    &["policy", "e", "--ttl", "1m"],
];

#[test]
fn nobody_is_an_operator_without_init() {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "a"]);
    let before = tree(&world.store());
    for act in ACTS {
        let refused = world.call(&[act, &["--json"]].concat()).expect(6).json();
        assert_eq!(refused["code"], "no-operator", "{act:?}");
        assert!(refused["hint"].as_str().unwrap().contains("baton init"), "{act:?}: {refused}");
    }
    assert_eq!(before, tree(&world.store()));
}

#[test]
fn nobody_is_an_operator_in_a_store_that_does_not_exist() {
    let world = World::new();
    for act in ACTS {
        world.call(act).expect(6);
        assert!(!world.store().exists(), "{act:?} made a store");
    }
}

#[test]
fn an_operator_of_elsewhere_is_none_here() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    let mut elsewhere = world.command(&["init", "--store", "file:other"]);
    elsewhere.env("BATON_CONFIG_DIR", world.file("config-of-another"));
    support::finish(elsewhere, None).expect(0);
    for act in ACTS {
        let refused = world.call_elsewhere(&[act, &["--json"]].concat());
        assert_eq!(refused.code, 6, "{act:?}: {refused:?}");
    }
    assert_eq!(world.status("e")["leader"]["agent"], "a");
}

#[test]
fn init_makes_a_private_key_once_and_says_where() {
    let world = World::new();
    let first = world.json(&["init"]);
    assert_eq!((&first["outcome"], &first["key_made"]), (&json!("initialised"), &json!(true)));
    let key = std::path::PathBuf::from(first["key_file"].as_str().unwrap());
    assert!(key.starts_with(world.file("config")));
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&key).unwrap();
    for (path, text) in tree(&world.store()) {
        assert!(!String::from_utf8_lossy(&text).contains(secret.trim()), "{}", path.display());
    }
    let second = world.json(&["init"]);
    assert_eq!((&second["key_made"], &second["operator"]), (&json!(false), &first["operator"]));
    assert_eq!(std::fs::read_to_string(&key).unwrap(), secret);

    // A key that others can read proves nothing.
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = world.call(&["pause", "e", "--json"]).expect(6).json();
    assert!(refused["hint"].as_str().unwrap().contains("chmod 600"), "{refused}");
}

#[test]
fn an_operator_enrols_only_by_an_operator_once_there_is_one() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    let refused = world.call_elsewhere(&["init", "--json"]);
    let acted = world.call_elsewhere(&["depose", "e", "--json"]);
    assert_eq!(acted.code, 6, "{refused:?} {acted:?}");
    assert_eq!(world.status("e")["leader"]["agent"], "a");
}

#[test]
fn pause_stops_everybody_until_resume() {
    let world = World::new();
    world.ok(&["init"]);
    let told = world.json(&["pause", "e", "--reason", "release freeze"]);
    assert_eq!(told["outcome"], "pause");
    let refused = world.call(&["acquire", "e", "--as", "a", "--json"]).expect(6).json();
    assert_eq!(refused["code"], "paused");
    assert_eq!(world.status("e")["paused"]["reason"], "release freeze");
    world.ok(&["resume", "e"]);
    world.ok(&["acquire", "e", "--as", "a"]);
}

#[test]
fn an_appointed_agent_goes_first() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    world.ok(&["appoint", "e", "b", "--reason", "knows the code"]);
    world.ok(&["release", "e", "--as", "a"]);
    world.call(&["acquire", "e", "--as", "a"]).expect(3);
    assert_eq!(world.json(&["acquire", "e", "--as", "b"])["cause"], "appoint");
}

#[test]
fn a_checkpoint_waits_for_approval_and_the_token_rises_with_it() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--approval", "checkpoints"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    let told = world.json(&["checkpoint", "e", "--as", "a", "--summary", "plan"]);
    assert_eq!(told["awaiting_approval"], true);
    assert_eq!(world.status("e")["state"], "awaiting-approval");
    world.call(&["renew", "e", "--as", "a"]).expect(6);
    let refused = world.call(&["check", "e", "--token", "1", "--json"]);
    assert!([5, 6].contains(&refused.code), "{refused:?}");
    let wrong = "0".repeat(64);
    assert_ne!(world.call(&["approve", "e", "--checkpoint", &wrong]).code, 0);
    world.ok(&["approve", "e", "--checkpoint", told["hash"].as_str().unwrap()]);
    let renewed = world.json(&["renew", "e", "--as", "a"]);
    assert!(renewed["token"].as_u64().unwrap() > 1, "{renewed}");
    world.call(&["check", "e", "--token", "1"]).expect(5);
    world.ok(&["check", "e", "--token", &renewed["token"].to_string(), "--as", "a"]);
}

#[test]
fn a_policy_is_shown_set_and_kept() {
    let world = World::new();
    assert_eq!(world.json(&["policy", "e"])["policy"]["select"], "first");
    assert!(!world.store().exists());
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--select", "designated", "--designated", "boss", "--budget-tokens", "9"]);
    world.ok(&["policy", "e", "--ttl", "10s"]);
    let policy = world.json(&["policy", "e"])["policy"].clone();
    assert_eq!((&policy["select"], &policy["ttl"]), (&json!("designated"), &json!("10s")));
    assert_eq!(policy["designated"], "boss");
    world.call(&["acquire", "e", "--as", "a"]).expect(3);
    assert_eq!(world.json(&["acquire", "e", "--as", "boss"])["ttl_ms"], 10_000);
    world.call(&["renew", "e", "--as", "boss", "--spent", "9"]).expect(4);
    world.ok(&["policy", "e", "--budget-tokens", "none"]);
    assert_eq!(world.json(&["policy", "e"])["policy"]["limits"], json!({}));
    for wrong in [["--ttl", "500ms"], ["--ttl", "8d"], ["--select", "loudest"], ["--approval", "often"]] {
        world.call(&["policy", "e", wrong[0], wrong[1]]).expect(2);
    }
}

#[test]
fn watch_tells_of_every_change() {
    let world = World::new();
    world.ok(&["init"]);
    let log = std::fs::File::create(world.file("watched")).unwrap();
    let mut command = world.command(&["watch", "e", "--json", "--changes", "4"]);
    let mut watch = command.stdout(log).spawn().unwrap();
    let told = || std::fs::read_to_string(world.file("watched")).unwrap();
    let wait_for = |lines: usize| until("it is told", || told().lines().count() >= lines);
    wait_for(1);
    world.ok(&["acquire", "e", "--as", "a"]);
    wait_for(2);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "x"]);
    wait_for(3);
    world.ok(&["depose", "e"]);
    wait_for(4);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b"]);
    assert_eq!(support::exit_code(&mut watch), Some(0));
    let parse = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
    let states: Vec<String> =
        told().lines().map(|line| parse(line)["state"].as_str().unwrap().to_string()).collect();
    assert_eq!(states[..4], ["absent", "held", "held", "vacant"], "{states:?}");
}
