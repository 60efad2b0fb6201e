//! The wall clock decides nothing: half of the processes have one that is an hour off.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run, and that it did not run")]

mod support;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use support::World;
use support::fleet::{ELECTION, Fleet, TTL, check_history, check_log};
use support::random::Random;
use support::watcher::Watcher;

const HOUR: i64 = 3_600;
const PLACES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
];

/// The library that moves the wall clock of a process.
fn libfaketime() -> Option<PathBuf> {
    match std::env::var_os("BATON_FAKETIME_LIB") {
        Some(named) => Some(PathBuf::from(named)),
        None => PLACES.iter().map(PathBuf::from).find(|path| path.exists()),
    }
}

/// How far the clock of a member is off, in seconds.
fn offset(number: usize) -> i64 {
    match number % 4 {
        1 => HOUR,
        2 => -HOUR,
        _ => 0,
    }
}

fn environment(number: usize, library: &Path) -> Vec<(String, String)> {
    let offset = offset(number);
    if offset == 0 {
        return Vec::new();
    }
    let pair = |name: &str, value: String| (name.to_string(), value);
    vec![
        pair("LD_PRELOAD", library.display().to_string()),
        pair("FAKETIME", format!("{offset:+}")),
        pair("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_string()),
    ]
}

#[test]
fn clocks_that_are_an_hour_off_have_no_effect() {
    let Some(library) = libfaketime() else {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "libfaketime is missing, and CI skips nothing"
        );
        eprintln!("SKIPPED: no libfaketime; hint: install it (Debian: apt-get install libfaketime)");
        return;
    };
    let world = World::new();
    let mut random = Random::seeded();
    let watcher = Watcher::start(&world, ELECTION);
    let mut fleet = Fleet::start(&world, 8, |number| environment(number, &library));
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
    check_that_clocks_moved(&fleet);

    fleet.stop();
    watcher.finish();
    assert!(check_log(&world).len() >= 20);
    check_that_documents_show_it(&world);
}

/// Each CMD wrote what its own clock said.
fn check_that_clocks_moved(fleet: &Fleet<'_>) {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let mut moved = [0, 0, 0];
    for (_, agent, clock) in fleet.starts() {
        let number: usize = agent.trim_start_matches("agent-").parse().unwrap();
        let off = clock - now - offset(number);
        assert!(off.abs() < HOUR / 2, "the clock of {agent} is off by {} s", clock - now);
        moved[usize::try_from(offset(number) / HOUR + 1).unwrap()] += 1;
    }
    assert!(
        moved.iter().all(|count| *count > 0),
        "leaders with clocks an hour late, right and early: {moved:?}"
    );
}

/// The times in the history are of those clocks: they go back and forth while the epochs rise.
fn check_that_documents_show_it(world: &World) {
    let history = check_history(world);
    let hours = |entry: &serde_json::Value| entry["at"].as_str().unwrap()[..13].to_string();
    let seen: std::collections::BTreeSet<String> = history.iter().map(hours).collect();
    assert!(seen.len() >= 3, "{seen:?}");
    let times: Vec<&str> = history.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert!(!times.is_sorted(), "{times:?}");
}
