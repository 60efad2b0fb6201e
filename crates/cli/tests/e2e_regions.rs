//! Regions between real processes: only their leaders lead the fleet, and who loses its region loses the fleet.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::server::Server;
use crate::support::{World, exit_code, processes, until};

/// What a leader of the fleet does: it gives an order, which the worker takes only with its token, and stays.
const COORDINATE: &str = r#"echo "$BATON_TOKEN $BATON_AGENT ${BATON_REGION:-nowhere}" >> led; sleep 600"#;

/// A `baton run` of `inner` within the CMD of another. All leases here outlast a machine that stands still
/// for seconds.
fn nested(world: &World, who: &str, region: &str, inner: &str) -> Command {
    let mut command = world.command(&["run", region, "--as", who, "--ttl", "12s", "--", "sh", "-c", inner]);
    command
        .env("BATON_BIN", env!("CARGO_BIN_EXE_baton"))
        .env("COORDINATE", COORDINATE)
        .env("WHOSE", who)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// An agent that leads a region, and the fleet while it can.
fn agent(world: &World, who: &str, region: &str) -> Child {
    let inner = r#"exec "$BATON_BIN" run fleet --ttl 12s -- sh -c "$COORDINATE""#;
    nested(world, who, region, inner).spawn().unwrap()
}

fn led(world: &World) -> Vec<(u64, String, String)> {
    let text = std::fs::read_to_string(world.file("led")).unwrap_or_default();
    let words = |line: &str| line.split(' ').map(ToString::to_string).collect::<Vec<_>>();
    let entry = |words: Vec<String>| (words[0].parse().unwrap(), words[1].clone(), words[2].clone());
    text.lines().map(words).filter(|words| words.len() == 3).map(entry).collect()
}

fn led_by(world: &World, who: &str) -> u64 {
    let mut token = 0;
    until(&format!("{who} leads the fleet"), || {
        token = led(world).last().filter(|(_, by, _)| by == who).map_or(0, |(token, ..)| *token);
        token > 0
    });
    token
}

fn leads(world: &World, election: &str, who: &str) -> bool {
    let done = world.call(&["status", election, "--json"]);
    done.code == 0 && done.json()["leader"]["agent"] == who && done.json()["leader"]["live"] == true
}

/// The tree, by names.
fn tree(world: &World) -> Vec<Value> {
    world.ok(&["tree", "--json"]).jsons()
}

fn of<'a>(tree: &'a [Value], election: &str) -> &'a Value {
    tree.iter().find(|node| node["election"] == election).unwrap()
}

/// Two regions, of which `a`'s leads the fleet. The token of that.
fn two_regions(world: &World) -> (Child, Child, u64) {
    world.ok(&["init"]);
    world.ok(&["policy", "fleet", "--regions", "yes", "--ttl", "12s"]);
    let first = agent(world, "a", "fleet/eu");
    let token = led_by(world, "a");
    let second = agent(world, "b", "fleet/us");
    until("b leads its region", || leads(world, "fleet/us", "b"));
    world.ok(&["fence", "orders", "--election", "fleet", "--token", &token.to_string()]);
    (first, second, token)
}

/// `b` leads, and no worker takes an order of the former leader.
fn the_older_epoch_is_refused(world: &World, older: u64) {
    let newer = led_by(world, "b");
    assert!(newer > older, "tokens rise: {older}, {newer}");
    assert_eq!(led(world).last().unwrap().2, "fleet/us");
    world.ok(&["fence", "orders", "--election", "fleet", "--token", &newer.to_string()]);
    let older = older.to_string();
    let refused = world.call(&["fence", "orders", "--token", &older, "--json"]).expect(5).json();
    assert_eq!(refused["code"], "stale");
    world.call(&["check", "fleet", "--token", &older]).expect(5);
}

fn a_deposed_region_loses_the_fleet(world: &World) {
    let (_first, _second, token) = two_regions(world);
    let before = tree(world);
    let fleet = of(&before, "fleet");
    assert_eq!((&fleet["leader"]["agent"], &fleet["regions"]), (&"a".into(), &true.into()));
    assert_eq!((&fleet["region"]["election"], &fleet["region"]["led"]), (&"fleet/eu".into(), &true.into()));
    assert_eq!(of(&before, "fleet/us")["parent"], "fleet");
    world.ok(&["depose", "fleet/eu", "--reason", "enough"]);
    the_older_epoch_is_refused(world, token);
    let after = tree(world);
    assert_eq!(of(&after, "fleet")["region"]["election"], "fleet/us");
    assert!(of(&after, "fleet/eu")["token"].as_u64().unwrap() > 1);
}

fn a_killed_region_loses_the_fleet_within_its_lease(world: &World) {
    let (mut first, _second, token) = two_regions(world);
    // Runs, wardens, commands: nobody is left to give anything back.
    until("nothing of a is left", || {
        let marked = |pid: u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == b"WHOSE=a")
        };
        let its: Vec<_> =
            processes::of_world(world.mark()).into_iter().filter(|process| marked(process.pid)).collect();
        its.iter().for_each(|process| process.signal(Signal::KILL));
        let _ = first.try_wait();
        its.is_empty()
    });
    the_older_epoch_is_refused(world, token);
}

#[test]
fn who_loses_its_region_loses_the_fleet_in_a_folder() {
    a_deposed_region_loses_the_fleet(&World::folder());
}

#[test]
fn who_loses_its_region_loses_the_fleet_at_a_server() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    a_deposed_region_loses_the_fleet(&World::on(&server.url()));
}

#[test]
fn a_region_that_is_killed_loses_the_fleet_in_a_folder() {
    a_killed_region_loses_the_fleet_within_its_lease(&World::folder());
}

#[test]
fn a_region_that_is_killed_loses_the_fleet_at_a_server() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    a_killed_region_loses_the_fleet_within_its_lease(&World::on(&server.url()));
}

#[test]
fn three_levels_are_led_by_one_and_end_together() {
    let world = World::folder();
    world.ok(&["init"]);
    for above in ["fleet", "fleet/eu"] {
        world.ok(&["policy", above, "--regions", "yes"]);
    }
    let inner = r#"exec "$BATON_BIN" run fleet/eu --ttl 12s -- sh -c 'exec "$BATON_BIN" run fleet --ttl 12s -- sh -c "$COORDINATE"'"#;
    let mut all = nested(&world, "a", "fleet/eu/paris", inner).spawn().unwrap();
    led_by(&world, "a");
    let shown = world.ok(&["tree", "fleet"]).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with("fleet ") && lines[1].contains("fleet/eu (token 1)"), "{shown}");
    assert!(lines[2].starts_with("  eu ") && lines[2].contains("fleet/eu/paris (token 1)"), "{shown}");
    assert!(lines[3].starts_with("    paris "), "{shown}");
    processes::signal(all.id(), Signal::TERM);
    exit_code(&mut all);
    for election in ["fleet", "fleet/eu", "fleet/eu/paris"] {
        assert_eq!(world.status(election)["state"], "vacant", "{election}");
    }
}

#[test]
fn regions_may_be_in_another_store_than_the_fleet() {
    let (world, above) = (World::folder(), World::folder());
    above.ok(&["init"]);
    above.ok(&["policy", "fleet", "--regions", "yes"]);
    let inner = r#"exec "$BATON_BIN" run fleet --ttl 12s --store "$ABOVE" -- sh -c "$COORDINATE""#;
    let mut all = nested(&world, "a", "fleet/eu", inner).env("ABOVE", above.url()).spawn().unwrap();
    led_by(&world, "a");
    let shown = above.ok(&["tree"]).stdout;
    assert!(shown.contains("fleet/eu (token 1), out of reach here"), "{shown}");
    processes::signal(all.id(), Signal::TERM);
    exit_code(&mut all);
    assert_eq!(above.status("fleet")["state"], "vacant");
}

/// Whichever store a command names, the region is looked at where it is led.
#[test]
fn a_lease_under_a_region_of_another_store_is_renewed() {
    let (world, above) = (World::folder(), World::folder());
    above.ok(&["init"]);
    above.ok(&["policy", "fleet", "--regions", "yes"]);
    let inner = r#""$BATON_BIN" acquire fleet --as a --ttl 10m --store "$ABOVE"
        "$BATON_BIN" renew fleet --as a --store "$ABOVE" > renewed 2>&1; touch asked; exec sleep 600"#;
    let mut all = world
        .command(&["run", "fleet/eu", "--as", "a", "--ttl", "1m", "--", "sh", "-c", inner])
        .env("BATON_BIN", env!("CARGO_BIN_EXE_baton"))
        .env("ABOVE", above.url())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("it was asked", || world.file("asked").exists());
    let renewed = std::fs::read_to_string(world.file("renewed")).unwrap();
    assert!(renewed.starts_with("a leads fleet with token 1"), "{renewed}");
    processes::signal(all.id(), Signal::TERM);
    exit_code(&mut all);
}

#[test]
fn an_agent_without_a_process_leads_by_the_lease_of_its_region() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "fleet", "--regions", "yes"]);
    let refused = world.call(&["acquire", "fleet", "--as", "a"]).expect(3);
    assert!(refused.stderr.contains("only who leads a region of `fleet`"), "{}", refused.stderr);
    let refused = world.call(&["run", "fleet", "--as", "a", "--", "true"]).expect(3);
    assert!(refused.stderr.contains("only who leads a region of `fleet`"), "{}", refused.stderr);
    world.call(&["acquire", "fleet", "--as", "a", "--region", "fleet/eu"]).expect(4);
    world.ok(&["acquire", "fleet/eu", "--as", "a", "--ttl", "10m"]);
    world.ok(&["acquire", "fleet/us", "--as", "b", "--ttl", "10m"]);
    // A cycle, and what is no region of it.
    for odd in ["fleet", "fleet/eu/paris", "other/eu"] {
        let refused = world.call(&["acquire", "fleet", "--as", "a", "--region", odd]).expect(2);
        assert!(
            refused.stderr.contains(&format!("`{odd}` is not a region of `fleet`")),
            "{}",
            refused.stderr
        );
    }
    let refused = world.call(&["acquire", "fleet/us", "--as", "a", "--region", "fleet"]).expect(2);
    assert!(refused.stderr.contains("`fleet` is not a region of `fleet/us`"), "{}", refused.stderr);
    let granted = world.json(&["acquire", "fleet", "--as", "a", "--region", "fleet/eu", "--ttl", "7d"]);
    assert_eq!((&granted["token"], &granted["region"]), (&1.into(), &"fleet/eu".into()));
    let left = granted["expires_in_ms"].as_u64().unwrap();
    assert!(left < 600_000, "no longer than the region's: {left}");
    assert_eq!(world.json(&["renew", "fleet", "--as", "a"])["token"], 1);
    assert_eq!(world.status("fleet")["leader"]["region"]["election"], "fleet/eu");
    let top = world.ok(&["top", "--once"]).stdout;
    assert!(top.contains("a from fleet/eu"), "{top}");
    world.ok(&["release", "fleet/eu", "--as", "a"]);
    let lost = world.call(&["renew", "fleet", "--as", "a"]).expect(4);
    assert!(lost.stderr.contains("fleet/eu"), "{}", lost.stderr);
    world.ok(&["acquire", "fleet/eu", "--as", "c", "--ttl", "10m"]);
    let deep = ["d"; 8].join("/");
    let refused = world.call(&["policy", &deep, "--regions", "yes"]).expect(2);
    assert!(refused.stderr.contains("9 levels deep"), "{}", refused.stderr);
}
