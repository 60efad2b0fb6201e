//! How much of a server one may have, and for how long.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Stdio;

use crate::support;
use crate::support::World;
use crate::support::secure::{create, text, with_token};
use crate::support::server::Server;

#[test]
fn a_lease_that_is_longer_than_the_server_grants_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(&folder.path().join("server.redb"), &["--max-lease", "10m"]);
    let world = World::on(&server.url());
    world.ok(&["init"]);
    let refused = world.call(&["acquire", "e", "--as", "a", "--ttl", "1h"]).expect(2);
    assert!(
        refused.stderr.contains("at most 10m") && refused.stderr.contains("--ttl 10m"),
        "{}",
        refused.stderr
    );
    assert_eq!(world.json(&["acquire", "e", "--as", "a", "--ttl", "10m"])["token"], 1);
    // Nor by the policy.
    world.ok(&["policy", "f", "--ttl", "1h"]);
    let refused = world.call(&["acquire", "f", "--as", "a"]).expect(2);
    assert!(refused.stderr.contains("baton policy f --ttl 10m"), "{}", refused.stderr);
    world.ok(&["acquire", "f", "--as", "a", "--ttl", "5m"]);
    let nobody = world.call(&["serve", "--listen", "127.0.0.1:0", "--max-lease", "1ms"]).expect(2);
    assert!(nobody.stderr.contains("nobody could lead"), "{}", nobody.stderr);
}

#[test]
fn a_server_keeps_so_many_elections_and_forgetting_one_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ["--limit-elections", "5", "--limit-token-elections", "2"];
    let mut server = Server::start_with(&folder.path().join("server.redb"), &limits);
    let world = World::on(&server.url());
    world.ok(&["init"]);
    let token = text(&create(&world, &server.url(), &["--role", "agent"]), "token");
    let lead =
        |election: &str| with_token(&world, &token, &["acquire", election, "--as", election, "--ttl", "1h"]);
    lead("a").expect(0);
    lead("b").expect(0);
    let refused = lead("c").expect(2);
    assert!(
        refused.stderr.contains("has 2 elections") && refused.stderr.contains("baton forget"),
        "{}",
        refused.stderr
    );
    // What there is may be led.
    with_token(&world, &token, &["release", "a", "--as", "a", "--done"]).expect(0);
    lead("a").expect(0);
    // Others are not concerned, until the store has as many as it may.
    for election in ["d", "e", "f"] {
        world.ok(&["acquire", election, "--as", "x", "--ttl", "1h"]);
    }
    assert!(
        world.call(&["acquire", "g", "--as", "x"]).expect(2).stderr.contains("the store has 5 elections")
    );
    support::until("somebody is warned", || world.ok(&["alerts"]).stdout.contains("quota-nearly-used"));
    assert!(server.ask("GET", "/metrics").1.contains("baton_quota_used{what=\"elections\"} 5"));
    // It counts the same after a crash.
    server.crash_with(&limits);
    let counted = || server.ask("GET", "/metrics").1.contains("baton_quota_used{what=\"elections\"} 5");
    support::until("all is counted again", counted);
    assert!(lead("c").expect(2).stderr.contains("the store has 5 elections"));
    world.ok(&["release", "d", "--as", "x", "--done"]);
    world.ok(&["forget", "d"]);
    assert!(lead("c").expect(2).stderr.contains("has 2 elections"));
    with_token(&world, &token, &["release", "b", "--as", "b", "--done"]).expect(0);
    world.ok(&["forget", "b"]);
    lead("c").expect(0);
}

#[test]
fn a_server_keeps_so_many_bytes_and_leads_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(&folder.path().join("server.redb"), &["--limit-token-bytes", "8KiB"]);
    let world = World::on(&server.url());
    world.ok(&["init"]);
    let token = text(&create(&world, &server.url(), &["--role", "agent"]), "token");
    let call = |arguments: &[&str]| with_token(&world, &token, arguments);
    call(&["acquire", "a", "--as", "a"]).expect(0);
    let large = format!("\"{}\"", "x".repeat(900));
    let put = |name: usize| call(&["state", "put", "a", &format!("v{name}"), &large, "--as", "a"]);
    let refused = (0..20).map(put).find(|done| done.code != 0).unwrap().expect(2);
    assert!(
        refused.stderr.contains("bytes") && refused.stderr.contains("baton forget"),
        "{}",
        refused.stderr
    );
    assert!(call(&["checkpoint", "a", "--as", "a", "--summary", "s"]).expect(2).stderr.contains("bytes"));
    // One more election has an even part of the bytes, and no more.
    call(&["acquire", "b", "--as", "b"]).expect(0);
    let put = |name: usize| call(&["state", "put", "b", &format!("v{name}"), &large, "--as", "b"]);
    put(0).expect(0);
    let refused = (1..20).map(put).find(|done| done.code != 0).unwrap().expect(2);
    assert!(refused.stderr.contains("bytes"), "{}", refused.stderr);
    // A full store costs nobody its lease, and another token is not concerned.
    call(&["renew", "a", "--as", "a"]).expect(0);
    world.ok(&["acquire", "c", "--as", "c"]);
    call(&["release", "a", "--as", "a"]).expect(0);
}

#[test]
fn a_token_that_grows_anothers_election_uses_up_nothing_of_its_others() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ["--limit-token-bytes", "16KiB"];
    let mut server = Server::start_with(&folder.path().join("server.redb"), &limits);
    let world = World::on(&server.url());
    world.ok(&["init"]);
    let [owner, other] =
        [(); 2].map(|()| text(&create(&world, &server.url(), &["--role", "agent"]), "token"));
    for election in ["mine", "shared"] {
        with_token(&world, &owner, &["acquire", election, "--as", "o", "--ttl", "1h"]).expect(0);
    }
    with_token(&world, &owner, &["release", "shared", "--as", "o", "--done"]).expect(0);
    with_token(&world, &other, &["acquire", "shared", "--as", "x", "--ttl", "1h"]).expect(0);
    let large = format!("\"{}\"", "x".repeat(900));
    let put = |token: &str, election: &str, agent: &str, name: usize| {
        with_token(&world, token, &["state", "put", election, &format!("v{name}"), &large, "--as", agent])
    };
    let refused = (0..40).map(|name| put(&other, "shared", "x", name)).find(|done| done.code != 0);
    assert!(refused.unwrap().expect(2).stderr.contains("bytes"));
    put(&owner, "mine", "o", 1).expect(0);
    with_token(&world, &owner, &["acquire", "third", "--as", "o"]).expect(0);
    // It is counted the same after a crash.
    server.crash_with(&limits);
    support::until("all is counted again", || put(&other, "shared", "x", 41).code == 2);
    put(&owner, "mine", "o", 2).expect(0);
}

#[test]
fn a_server_warns_of_a_token_that_is_refused_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(&folder.path().join("server.redb"), &["--warn-refusals", "5/5m"]);
    let world = World::on(&server.url());
    world.ok(&["init"]);
    let [narrow, other] =
        [(); 2].map(|()| create(&world, &server.url(), &["--role", "observer", "--elections", "team/*"]));
    let alerts = |token: &serde_json::Value| with_token(&world, &text(token, "token"), &["alerts", "--json"]);
    for _ in 0..10 {
        with_token(&world, &text(&narrow, "token"), &["acquire", "e", "--as", "a"]).expect(7);
    }
    let is_told = || world.ok(&["alerts"]).stdout.contains("unauthorised-burst");
    support::until("the burst is told of", is_told);
    let told = world.ok(&["alerts", "--json"]).jsons();
    let burst = told.iter().find(|alert| alert["alert"] == "unauthorised-burst").unwrap();
    assert_eq!(burst["token"], narrow["id"], "{burst}");
    assert!(burst["election"].is_null() && burst["severity"] == "warning", "{burst}");
    // Whose tokens are refused is nobody's business who sees only some elections.
    assert!(!alerts(&other).expect(0).stdout.contains("unauthorised"));
}

#[test]
fn a_revoked_tokens_leaderships_end_at_once_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("server.redb"));
    let world = World::on(&server.url());
    world.ok(&["init"]);
    let url = server.url();
    let [stolen, other] = [(); 2].map(|()| create(&world, &url, &["--role", "agent"]));
    let lead = |token: &serde_json::Value, election: &str, agent: &str| {
        let acquire = ["acquire", election, "--as", agent, "--ttl", "7d", "--json"];
        with_token(&world, &text(token, "token"), &acquire).expect(0).json()["token"].as_u64().unwrap()
    };
    let (first, second) = (lead(&stolen, "deploy", "a"), lead(&stolen, "release", "b"));
    let mine = lead(&other, "docs", "c");
    // By a batch it is no other.
    let body = format!(
        r#"[{{"election":"batched","acquire":{{"agent":"a","incarnation":"{}","key_hash":"{}","ttl_ms":600000}}}}]"#,
        "7".repeat(16),
        "7".repeat(64)
    );
    let answer = server.post("/v1/batch", &text(&stolen, "token"), &body);
    assert!(answer.contains("granted"), "{answer}");
    let swept = world.json(&["token", "revoke", &text(&stolen, "id"), "--depose"]);
    assert_eq!(swept["deposed"], serde_json::json!(["batched", "deploy", "release"]), "{swept}");
    for (election, token) in [("deploy", first), ("release", second)] {
        let stale =
            world.call(&["check", election, "--token", &token.to_string(), "--json"]).expect(5).json();
        assert_eq!(stale["code"], "stale", "{stale}");
        assert_eq!(world.status(election)["departure"]["cause"], "depose");
    }
    world.ok(&["check", "docs", "--token", &mine.to_string()]);
    // The successor waits for the lease of a leader that may be at work, unless it is told not to.
    world.call(&["acquire", "deploy", "--as", "d"]).expect(3);
    let forced = world.json(&["token", "revoke", &text(&other, "id"), "--depose", "--force"]);
    assert_eq!(forced["deposed"], serde_json::json!(["docs"]), "{forced}");
    world.ok(&["acquire", "docs", "--as", "d"]);
    assert!(world.ok(&["audit", "docs"]).stdout.contains("was revoked"));
}

#[test]
fn a_leader_whose_token_is_revoked_says_that_the_server_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("server.redb"));
    let world = World::on(&server.url());
    world.ok(&["init"]);
    // The warden ends CMD before the lease ends, or tells it that it goes on read-only.
    for on_outage in ["stop", "read-only"] {
        let token = create(&world, &server.url(), &["--role", "agent"]);
        let run = ["run", on_outage, "--as", "a", "--ttl", "10s", "--once", "--on-outage", on_outage];
        let said = world.file(&format!("{on_outage}.said"));
        let mut command = world.command(&[&run[..], &["--", "sleep", "600"]].concat());
        command.env("BATON_HTTP_TOKEN", text(&token, "token"));
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&said).unwrap());
        let mut running = command.spawn().unwrap();
        let status = || world.call(&["status", on_outage, "--json"]).json();
        support::until("it leads", || status()["leader"]["agent"] == "a");
        world.ok(&["token", "revoke", &text(&token, "id")]);
        let said = || std::fs::read_to_string(&said).unwrap();
        support::until("it says why", || said().contains("refuses renewals: "));
        let said = said();
        assert!(said.contains(&format!("{} refuses renewals: ", server.url())), "{said}");
        assert!(!said.contains("was answered in time"), "{said}");
        if on_outage == "stop" {
            assert_eq!(support::exit_code(&mut running), Some(4), "{said}");
        } else {
            running.kill().unwrap();
            running.wait().unwrap();
        }
    }
}
