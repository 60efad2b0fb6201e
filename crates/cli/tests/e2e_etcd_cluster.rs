//! Three members of etcd, one of them killed, one cut off: no token is given twice, and leadership comes back by itself.
#![cfg(feature = "all-stores")]
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run")]

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support;
use crate::support::cluster::Cluster;
use crate::support::watcher::Watcher;
use crate::support::{World, clocks, processes};

const CANDIDATES: usize = 6;
const LEASE: Duration = Duration::from_secs(3);
/// A bound on a hang.
const SOON: Duration = Duration::from_secs(60);

const WORKER: &str = r#"
clock=$(date +%s) && printf '%s %s %s\n' "$BATON_TOKEN" "$BATON_AGENT" "$clock" >> "$E2E_WORLD/started"
while :; do sleep 0.05; done
"#;

/// Plays on a store in the cluster that a parameter names: plain, or etcd's own elections.
fn play(parameters: &str) {
    let base = World::new();
    let Some(mut cluster) = Cluster::start(&base) else { return };
    let leader = cluster.leader();
    let world = World::on(&format!("etcd://{}/p{parameters}", cluster.endpoints()));
    let watcher = Watcher::start(&world, "e");
    let mut candidates: Vec<_> = (1..=CANDIDATES)
        .map(|number| {
            let agent = format!("agent-{number}");
            let ttl = format!("{}s", LEASE.as_secs());
            let mut command =
                world.command(&["run", "e", "--as", &agent, "--ttl", &ttl, "--", "sh", "-c", WORKER]);
            command
                .stderr(std::fs::File::create(world.file(&format!("{agent}.err"))).unwrap())
                .spawn()
                .unwrap()
        })
        .collect();
    let led = |what: &str| {
        let begun = Instant::now();
        let mut leader = None;
        let led = support::happens(SOON, || {
            leader = watcher.findings().leader().cloned();
            leader.is_some()
        });
        assert!(led, "nobody leads: {what}");
        eprintln!("{what}: led again after {:?}", begun.elapsed());
        leader.unwrap()
    };
    led("at the beginning");
    cluster.kill(leader);
    std::thread::sleep(Duration::from_secs(5));
    led("etcd's leader was killed");
    // With one of three dead, to cut off another leaves no majority: nobody may lead for long.
    let cut = (1..=3).find(|number| *number != leader).unwrap();
    cluster.cut(cut, true);
    // An agent that was granted it just before may lead for a lease; from then on nobody leads.
    let mut led_at = Instant::now();
    let nobody = support::happens(SOON, || {
        if watcher.findings().leader().is_some() {
            led_at = Instant::now();
        }
        led_at.elapsed() > LEASE
    });
    assert!(nobody, "somebody leads without a majority behind it");
    cluster.run(leader);
    led("the killed member is back, another is still cut off");
    cluster.cut(cut, false);
    std::thread::sleep(Duration::from_secs(3));
    let leader = led("all are back");
    // And whoever leads is killed with its warden, so that there is a change under the healed cluster too.
    let (number, last): (usize, u64) =
        (leader.agent.trim_start_matches("agent-").parse().unwrap(), leader.token);
    processes::kill_with_warden(&mut candidates[number - 1]);
    let next = support::happens(SOON, || watcher.findings().leader().is_some_and(|tree| tree.token > last));
    assert!(next, "nobody leads after a kill in the healed cluster");
    candidates.remove(number - 1).wait().unwrap();
    for child in &candidates {
        processes::signal(child.id(), Signal::TERM);
    }
    for child in &mut candidates {
        support::exit_code(child);
    }
    let trees = watcher.finish().trees;
    let tokens: Vec<u64> = clocks::starts(&world.file("started")).iter().map(|start| start.token).collect();
    eprintln!("tokens {tokens:?}, leaderships seen {}", trees.len());
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    let given: std::collections::BTreeSet<u64> = trees.iter().map(|tree| tree.token).collect();
    assert!(given.len() >= 3 && given.len() == trees.len(), "no token is given twice: {trees:?}");
}

#[test]
fn a_killed_and_a_cut_off_member() {
    play("");
}

#[test]
fn a_killed_and_a_cut_off_member_under_etcds_own_elections() {
    play("?election=etcd");
}
