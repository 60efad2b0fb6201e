//! The wall clock decides nothing: half of the processes have one that is an hour off.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run, and that it did not run")]

mod support;

use std::time::Duration;

use support::fleet::{ELECTION, Fleet, TTL, check_history, check_log};
use support::random::Random;
use support::watcher::Watcher;
use support::{World, clocks};

#[test]
fn clocks_that_are_an_hour_off_have_no_effect() {
    if !clocks::can_be_moved() {
        return;
    }
    let world = World::new();
    let mut random = Random::seeded();
    let watcher = Watcher::start(&world, ELECTION);
    let mut fleet = Fleet::start(&world, 8, clocks::environment);
    support::until("somebody leads", || watcher.findings().leader().is_some());

    let seconds = if support::campaign() { 300 } else { 60 };
    fleet.suffer(&watcher, &mut random, Duration::from_secs(seconds));
    let findings = watcher.findings();
    fleet.heal(&watcher);
    eprintln!(
        "{} kills, {} stops, {} leaderships, longest vacancy {:?}",
        fleet.kills,
        fleet.stops,
        findings.trees.len(),
        findings.longest_vacancy,
    );
    assert!(findings.longest_vacancy <= TTL + Duration::from_secs(1), "{:?}", findings.longest_vacancy);
    assert!(fleet.kills >= 5 && fleet.stops >= 5);
    clocks::assert_moved(&clocks::starts(&world.file("started")));

    fleet.stop();
    watcher.finish();
    assert!(check_log(&world).len() >= 20);
    check_that_documents_show_it(&world);
}

/// The times in the history are of those clocks: they go back and forth while the epochs rise. A server writes its own.
fn check_that_documents_show_it(world: &World) {
    let history = check_history(world);
    if support::server::wanted() {
        let times: Vec<&str> = history.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
        assert!(times.len() >= 10 && times.is_sorted(), "{times:?}");
        return;
    }
    let hours = |entry: &serde_json::Value| entry["at"].as_str().unwrap()[..13].to_string();
    let seen: std::collections::BTreeSet<String> = history.iter().map(hours).collect();
    assert!(seen.len() >= 3, "{seen:?}");
    let times: Vec<&str> = history.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert!(!times.is_sorted(), "{times:?}");
}
