//! Eight `baton run` on one file store, some with a validator and some with a CMD that outlives its lease, killed and stopped at random; with clocks that are right, and with clocks half of which are an
//! hour off: the wall clock decides nothing. Both for a minute, beside each other.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run, and that it did not run")]

use std::process::{Child, Command};
use std::time::Duration;

use crate::support;
use crate::support::fleet::{ELECTION, Fleet, check_history, check_log};
use crate::support::random::Random;
use crate::support::watcher::Watcher;
use crate::support::{World, clocks};

const AGENTS: usize = 8;

#[test]
fn eight_runs_killed_and_stopped_at_random_have_one_leader_at_a_time_and_soon_a_next_one() {
    let world = World::new();
    let mut random = Random::seeded();
    let watcher = Watcher::start(&world, ELECTION);
    let mut fleet = Fleet::start_mixed(&world, AGENTS, |_| Vec::new());
    support::until("somebody leads", || watcher.findings().leader().is_some());

    let seconds = if support::campaign() { 600 } else { 60 };
    let validated = || std::fs::read_to_string(world.file("validated")).unwrap_or_default();
    // That something happened at all.
    fleet.suffer(&watcher, &mut random, Duration::from_secs(seconds), |fleet| {
        fleet.kills >= 10
            && fleet.stops >= 10
            && fleet.stale_writes > 0
            && watcher.findings().trees.len() >= 10
            && !validated().is_empty()
            && check_log(&world).len() >= 50
            && check_history(&world).len() >= 10
    });
    let findings = watcher.findings();
    fleet.heal(&watcher);

    eprintln!(
        "{} kills, {} stops, {} stale writes refused, {} leaderships, longest vacancy {:?}, {} looks",
        fleet.kills,
        fleet.stops,
        fleet.stale_writes,
        findings.trees.len(),
        findings.longest_vacancy,
        findings.looks,
    );
    let (vacant, most) = (findings.longest_vacancy, fleet.longest_vacancy());
    assert!(vacant <= most, "{vacant:?}, over {most:?}");

    fleet.stop();
    watcher.finish();
    check_log(&world);
    check_history(&world);
    // Who lost its lease at the very end, since the machine stood still, had nothing to give back.
    let state = world.status(ELECTION)["state"].clone();
    assert!(state == "vacant" || state == "expired", "{state}");
}

#[test]
fn clocks_that_are_an_hour_off_have_no_effect() {
    if !clocks::can_be_moved() {
        return;
    }
    let world = World::new();
    let mut random = Random::seeded();
    let watcher = Watcher::start(&world, ELECTION);
    let mut fleet = Fleet::start_mixed(&world, AGENTS, clocks::environment);
    support::until("somebody leads", || watcher.findings().leader().is_some());

    let seconds = if support::campaign() { 300 } else { 60 };
    fleet.suffer(&watcher, &mut random, Duration::from_secs(seconds), |fleet| {
        fleet.kills >= 5
            && fleet.stops >= 5
            && clocks::each_kind_has_led(&clocks::starts(&world.file("started")), AGENTS)
            && check_log(&world).len() >= 20
            && documents_show_it(&world)
    });
    let findings = watcher.findings();
    fleet.heal(&watcher);
    eprintln!(
        "{} kills, {} stops, {} leaderships, longest vacancy {:?}",
        fleet.kills,
        fleet.stops,
        findings.trees.len(),
        findings.longest_vacancy,
    );
    let (vacant, most) = (findings.longest_vacancy, fleet.longest_vacancy());
    assert!(vacant <= most, "{vacant:?}, over {most:?}");
    clocks::assert_moved(&clocks::starts(&world.file("started")));

    fleet.stop();
    watcher.finish();
    check_log(&world);
    assert!(documents_show_it(&world));
}

/// The times in the history are of those clocks: they go back and forth while the epochs rise. A server writes its own, which rise.
fn documents_show_it(world: &World) -> bool {
    let history = check_history(world);
    let times: Vec<&str> = history.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    if support::server::wanted() {
        assert!(times.is_sorted(), "{times:?}");
        return times.len() >= 10;
    }
    let hours: std::collections::BTreeSet<&str> = times.iter().map(|time| &time[..13]).collect();
    hours.len() >= 3 && !times.is_sorted()
}

#[test]
fn the_watcher_would_see_two_leaders_and_a_vacancy() {
    let world = World::new();
    let pretend = |token: &str| -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").env(support::MARK, world.mark()).env("BATON_KEY", "k");
        command.env("BATON_TOKEN", token).env("BATON_AGENT", "a").spawn().unwrap()
    };
    let watcher = Watcher::start(&world, ELECTION);
    let mut first = pretend("1");
    support::until("the first is seen", || watcher.findings().leader().is_some());
    assert!(watcher.findings().overlaps.is_empty());
    let mut second = pretend("2");
    support::until("both are seen", || !watcher.findings().overlaps.is_empty());
    for child in [&mut first, &mut second] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let vacancy = || watcher.findings().longest_vacancy;
    support::until("the vacancy is seen", || vacancy() > Duration::from_millis(100));
    assert_eq!(watcher.findings().trees.len(), 2);
}
