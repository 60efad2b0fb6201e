//! etcd's own elections, by the command: what is known is told, what is not is left out.
#![cfg(feature = "all-stores")]
#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};

use crate::support::World;
use crate::support::test_stores::{at, tool, unique};

/// A prefix of its own, and how etcdctl reaches it.
struct Native {
    world: World,
    etcdctl: String,
    endpoints: String,
    prefix: String,
}

impl Native {
    fn new() -> Option<Native> {
        let (endpoints, etcdctl) = (at("BATON_TEST_ETCD")?, at("BATON_TEST_ETCDCTL")?);
        let prefix = unique("v");
        let world = World::on(&format!("etcd://{endpoints}/{prefix}?election=etcd"));
        Some(Native { world, etcdctl, endpoints, prefix })
    }

    /// Ends the candidacy of whoever leads, behind its back.
    fn delete_all(&self) {
        let patient = ["--endpoints", &self.endpoints, "--dial-timeout", "30s", "--command-timeout", "60s"];
        tool(&self.etcdctl, &[&patient[..], &["del", "--prefix", &self.prefix]].concat());
    }
}

fn finding<'a>(findings: &'a [Value], check: &str) -> &'a Value {
    findings.iter().find(|finding| finding["check"] == check).unwrap_or(&Value::Null)
}

#[test]
fn what_etcd_knows_is_told_and_nothing_is_made_up() {
    let Some(native) = Native::new() else { return };
    let world = &native.world;
    assert_eq!(world.ok(&["status", "--json"]).stdout, "");
    let first = world.json(&["acquire", "fleet/eu", "--as", "a", "--ttl", "30s"]);
    assert_eq!((&first["repeated"], &first["cause"]), (&json!(false), &json!(null)));
    let again = world.json(&["acquire", "fleet/eu", "--as", "a"]);
    assert_eq!((&again["repeated"], &again["token"]), (&json!(true), &first["token"]));
    let refused = world.call(&["acquire", "fleet/eu", "--as", "b", "--json"]).expect(3).json();
    assert_eq!((&refused["by"], &refused["remaining_at_most"]), (&json!("a"), &json!(false)));
    assert!(refused["remaining_ms"].as_u64().is_some_and(|left| left > 0 && left <= 30_000), "{refused}");
    world.ok(&["acquire", "other", "--as", "a"]);
    let all = world.ok(&["status", "--json"]).jsons();
    let names: Vec<&Value> = all.iter().map(|one| &one["election"]).collect();
    assert_eq!(names, [&json!("fleet/eu"), &json!("other")]);
    for one in &all {
        assert_eq!(one["leader"]["agent"], "a", "{one}");
        let made_up = ["renewals", "acquired", "phase", "spent_tokens"];
        assert!(made_up.iter().all(|field| one["leader"].get(field).is_none()), "{one}");
        assert!(one.get("policy").is_none(), "{one}");
        let line = one["candidates"].as_array().unwrap();
        assert_eq!((line.len(), &line[0]["agent"], &line[0]["place"]), (1, &json!("a"), &json!(1)), "{one}");
        assert!(line[0]["remaining_ms"].as_u64().is_some_and(|left| left > 0), "{one}");
    }
    let text = world.ok(&["status", "other"]).stdout;
    assert!(!text.contains("policy") && !text.contains("renewals"), "{text}");
    world.ok(&["renew", "other", "--as", "a"]);
    world.ok(&["release", "other", "--as", "a"]);
    world.ok(&["release", "fleet/eu", "--as", "a"]);
    assert_eq!(world.ok(&["status", "--json"]).stdout, "", "nobody was left in line");
}

#[test]
fn a_release_of_what_another_leads_by_now_is_refused() {
    let Some(native) = Native::new() else { return };
    let world = &native.world;
    let first = world.json(&["acquire", "e", "--as", "a"]);
    native.delete_all();
    let second = world.json(&["acquire", "e", "--as", "b"]);
    assert!(second["token"].as_u64() > first["token"].as_u64());
    let refused = world.call(&["release", "e", "--as", "a", "--json"]).expect(4).json();
    assert_eq!((&refused["code"], &refused["leader"]), (&json!("stale"), &json!("b")));
    assert_eq!(world.status("e")["leader"]["agent"], "b");
}

#[test]
fn the_doctor_says_what_is_limited_and_tries_to_lead() {
    let Some(native) = Native::new() else { return };
    let world = &native.world;
    world.ok(&["acquire", "e", "--as", "a"]);
    let findings = world.ok(&["doctor", "--write", "--json"]).jsons();
    for (check, detail) in [
        ("store", "own elections"),
        ("limits", "no policies"),
        ("elections", "1 election with 1 candidate"),
        ("write", "stood, led and left"),
    ] {
        let found = finding(&findings, check);
        assert!(
            found["verdict"] == "ok" && found["detail"].as_str().unwrap().contains(detail),
            "{findings:?}"
        );
    }
    let names: Vec<Value> =
        world.ok(&["status", "--json"]).jsons().iter().map(|one| one["election"].clone()).collect();
    assert_eq!(names, [json!("e")], "nothing is left of what was tried");
}
