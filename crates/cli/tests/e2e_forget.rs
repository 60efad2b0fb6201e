//! `baton forget` retires an election: it is in no list, and its tokens go on where they were.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support::server::Server;
use crate::support::{World, until};

/// What it prints.
fn shown(world: &World, arguments: &[&str]) -> String {
    world.ok(arguments).stdout
}

/// From a leader at work to one that begins anew. Returns the tokens of both.
fn forget(world: &World) -> (u64, u64) {
    world.ok(&["init"]);
    let first = world.json(&["acquire", "job", "--as", "a", "--ttl", "1h"])["token"].as_u64().unwrap();
    world.ok(&["acquire", "other", "--as", "a"]);
    world.ok(&["fence", "db", "--election", "job", "--token", &first.to_string()]);
    let refused = world.call(&["forget", "job"]).expect(1);
    assert!(
        refused.stderr.contains("a leads") && refused.stderr.contains("baton depose"),
        "{}",
        refused.stderr
    );
    world.ok(&["checkpoint", "job", "--as", "a", "--summary", "all of it"]);
    world.ok(&["release", "job", "--as", "a", "--done"]);
    assert_eq!(world.json(&["forget", "job", "--reason", "merged"])["outcome"], "forget");
    for command in ["status", "tree"] {
        let shown = shown(world, &[command]);
        assert!(!shown.contains("job") && shown.contains("other"), "{command}: {shown}");
    }
    assert!(shown(world, &["audit"]).contains("forget: merged"), "the act stays");
    assert!(shown(world, &["audit", "job"]).contains("forget: merged"));
    world.ok(&["audit", "verify", "job"]);
    assert_eq!(world.json(&["operator", "list"])["elections"], 1);
    let unknown = world.call(&["status", "job"]);
    assert!(unknown.stderr.contains("job") && !unknown.stdout.contains("all of it"), "{}", unknown.stderr);
    world.call(&["history", "job"]).expect(1);
    world.call(&["proposal", "make", "job", "otherwise", "--id", "p", "--as", "w"]).expect(1);
    let twice = world.call(&["forget", "job"]);
    assert!(twice.stderr.contains("there is no election `job`"), "{}", twice.stderr);
    world.call(&["renew", "job", "--as", "a"]).expect(4);
    let second = world.json(&["acquire", "job", "--as", "b"]);
    assert_eq!(second["cause"], "first", "{second}");
    let second = second["token"].as_u64().unwrap();
    assert!(second > first + 1, "{second} after {first}");
    // The fence has kept its mark.
    world.call(&["fence", "db", "--token", &first.to_string()]).expect(5);
    world.ok(&["fence", "db", "--token", &second.to_string()]);
    assert!(shown(world, &["status"]).contains("job"));
    (first, second)
}

#[test]
fn a_forgotten_election_of_a_folder_is_in_no_list_and_its_tokens_go_on() {
    forget(&World::new());
}

#[test]
fn a_forgotten_election_of_a_server_stays_so_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(&folder.path().join("server.redb"));
    let world = World::on(&server.url());
    let (_, token) = forget(&world);
    assert!(server.ask("GET", "/metrics").1.contains("election=\"job\""));
    world.ok(&["release", "job", "--as", "b", "--done"]);
    world.ok(&["forget", "job"]);
    let metrics = server.ask("GET", "/metrics").1;
    assert!(!metrics.contains("election=\"job\""), "{metrics}");
    let overview = server.ask("GET", "/v1/overview").1;
    assert!(!overview.contains("\"job\"") && overview.contains("\"other\""), "{overview}");
    server.crash();
    let world = World::on(&server.url());
    until("it is back", || world.call(&["status"]).code == 0);
    assert!(!shown(&world, &["status"]).contains("job"));
    let again = world.json(&["acquire", "job", "--as", "c"])["token"].as_u64().unwrap();
    assert!(again > token + 1, "{again} after {token}");
}

/// Does what each refusal's hint says until the election is forgotten. A second operator signs what waits.
fn follow_hints(world: &World, election: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut command = format!("forget {election}");
    for _ in 0..12 {
        let said = world.call(&command.split(' ').collect::<Vec<_>>());
        done.push(command.clone());
        let waits = said.code == 6 && said.stderr.contains("baton cosign");
        if waits {
            world.call_elsewhere(&["cosign", election, "--yes"]).expect(0);
        }
        if command.starts_with("forget") && (said.code == 0 || waits) {
            return done;
        }
        command = match said.code {
            // The end of the hint is the command.
            1 => said.stderr.trim().rsplit("baton ").next().unwrap().to_string(),
            0 | 6 => format!("forget {election}"),
            other => panic!("{done:?} ended with {other}: {}", said.stderr),
        };
    }
    panic!("the hints lead in a circle: {done:?}");
}

#[test]
fn the_hints_lead_to_an_election_that_is_forgotten() {
    let world = World::folder();
    world.ok(&["init"]);
    let held = |election: &str| world.ok(&["acquire", election, "--as", "a", "--ttl", "1h"]);
    held("held");
    assert_eq!(
        follow_hints(&world, "held"),
        ["forget held", "depose held", "forget held", "depose held --force", "forget held"]
    );
    held("paused");
    world.ok(&["pause", "paused"]);
    let ended = ["forget paused", "depose paused --force", "forget paused"];
    assert_eq!(follow_hints(&world, "paused"), [&["forget paused", "resume paused"][..], &ended].concat());
    held("halted");
    held("released");
    world.ok(&["release", "released", "--as", "a"]);
    world.ok(&["pause", "--all"]);
    for election in ["halted", "released"] {
        follow_hints(&world, election);
    }
    world.ok(&["resume", "--all"]);
    held("done");
    world.ok(&["release", "done", "--as", "a", "--done"]);
    assert_eq!(follow_hints(&world, "done"), ["forget done"]);
    // Under a quorum the hints are the same, and another operator signs each act.
    let key = world.call_elsewhere(&["operator", "key"]).expect(0).stdout.trim().to_string();
    world.ok(&["operator", "add", &key]);
    for (election, pause) in [("strict", false), ("strict-paused", true)] {
        held(election);
        world.ok(&["policy", election, "--quorum", "2"]);
        if pause {
            world.call(&["pause", election]).expect(6);
            world.call_elsewhere(&["cosign", election, "--yes"]).expect(0);
        }
        follow_hints(&world, election);
    }
    // An act that waits for signatures is no obstacle.
    held("waits");
    world.ok(&["policy", "waits", "--quorum", "2"]);
    world.call(&["depose", "waits"]).expect(6);
    follow_hints(&world, "waits");
    assert_eq!(world.ok(&["status", "--json"]).jsons().len(), 0);
}
