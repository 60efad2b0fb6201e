//! `baton alerts`, `baton serve` with thresholds, and `baton peer --report`: what is wrong is told of, with real processes.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::nets::Proxy;
use crate::support::peers::Peers;
use crate::support::server::Server;
use crate::support::{World, until};

/// The alerts of a server.
fn alerts(world: &World) -> Vec<Value> {
    world.ok(&["alerts", "--json"]).jsons()
}

fn is_active(world: &World, alert: &str, election: &str) -> bool {
    alerts(world).iter().any(|told| told["alert"] == alert && told["election"] == election)
}

#[test]
fn by_bully_a_partition_makes_two_leaders_and_the_server_tells_of_it() {
    let world = World::folder();
    let server = Server::start(&world.file("elections.redb"));
    let there = World::on(&server.url());
    // A server without an operator warns of that.
    there.ok(&["init"]);
    let mut peers = Peers::new(&world, "bully", 3);
    let mut links: BTreeMap<(u16, u16), Proxy> = BTreeMap::new();
    for to in 1..=3 {
        let real = peers.address(to);
        for from in (1..=3).filter(|from| *from != to) {
            let proxy = Proxy::start(real.parse().unwrap());
            peers.member(to).addresses.insert(from, proxy.address.to_string());
            links.insert((from, to), proxy);
        }
        peers.member(to).extra = vec!["--report".to_string(), server.url()];
    }
    peers.start_all();
    until("the highest leads, and says so", || {
        let sessions = there.ok(&["agents", "--sessions", "--json"]).jsons();
        sessions
            .iter()
            .any(|session| session["agent"] == "peer-3" && session["leads"][0]["election"] == "peers")
    });
    // On a busy machine the next one may have led for a moment beside it, at the start.
    until("nothing is wrong", || alerts(&there).is_empty());

    for ((from, to), link) in &links {
        if *from == 3 || *to == 3 {
            link.cut();
        }
    }
    let mut told = None;
    // On a busy machine the lowest may lead for a moment before the next one does.
    until("the two highest lead, and are told of", || {
        let names_both = |what: &str| what.contains("peer-2") && what.contains("peer-3");
        told = alerts(&there)
            .into_iter()
            .find(|told| told["alert"] == "two-leaders" && told["what"].as_str().is_some_and(names_both));
        told.is_some()
    });
    let told = told.unwrap();
    assert_eq!(told["election"], "peers");
    assert_eq!(told["runbook"], "docs/operations/two-leaders.md");
    until("it is counted", || {
        let (status, page) = server.ask("GET", "/metrics");
        assert_eq!(status, 200);
        page.contains("baton_alerts_active{alert=\"two-leaders\",severity=\"alert\"} 1")
    });
    until("it is shown", || {
        let shown = there.ok(&["alerts"]).stdout;
        shown.contains("two-leaders") && shown.contains("stop one of them")
    });

    links.values().for_each(Proxy::heal);
    until("one leads", || !is_active(&there, "two-leaders", "peers"));
}

#[test]
fn thresholds_are_options_of_the_server() {
    let world = World::folder();
    let options =
        ["--alert-flapping", "1/1h", "--warn-elections", "off", "--runbooks", "https://example.org/run/"];
    let server = Server::start_with(&world.file("elections.redb"), &options);
    let there = World::on(&server.url());
    // A server without an operator warns of that.
    there.ok(&["init"]);
    for agent in ["a", "b"] {
        there.ok(&["acquire", "e", "--as", agent]);
        there.ok(&["release", "e", "--as", agent]);
    }
    until("it flaps", || is_active(&there, "flapping", "e"));
    let told = alerts(&there);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["runbook"], "https://example.org/run/flapping.md");
    assert_eq!(told[0]["what"], "`e` changed its leader 2 times in 1h");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let folder = World::folder();
    let refused = folder.call(&["alerts"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("alerts are a server's"), "{}", refused.stderr);
    for (option, value, hint) in [
        ("--alert-flapping", "5", "N/DURATION"),
        ("--alert-contention", "x/1m", "5/10m"),
        ("--alert-no-leader", "soon", "off"),
        ("--warn-participation", "101", "0 to 100"),
        ("--warn-suspicion", "0", "1 to 100"),
    ] {
        let refused = folder.call(&["serve", "--listen", "127.0.0.1:0", option, value]);
        assert_eq!(refused.code, 2, "{option}");
        assert!(refused.stderr.contains(hint), "{option}: {}", refused.stderr);
    }
    let refused = folder.call(&["serve", "--listen", "127.0.0.1:0", "--otlp", "h:4317"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--otlp http://127.0.0.1:4318"), "{}", refused.stderr);
    let peer =
        ["peer", "--algorithm", "bully", "--id", "1", "--peer", "1=127.0.0.1:7001", "--report", "file:x"];
    let refused = folder.call(&[&peer[..], &["--", "true"]].concat());
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--report http://HOST:PORT"), "{}", refused.stderr);
}
