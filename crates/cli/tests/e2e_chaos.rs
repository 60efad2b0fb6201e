//! Eight `baton run` on one file store, killed and stopped at random.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run")]

mod support;

use std::process::{Child, Command};
use std::time::Duration;

use support::World;
use support::fleet::{ELECTION, Fleet, TTL, check_history, check_log};
use support::random::Random;
use support::watcher::Watcher;

#[test]
fn eight_runs_killed_and_stopped_at_random_have_one_leader_at_a_time_and_soon_a_next_one() {
    let world = World::new();
    let mut random = Random::seeded();
    let watcher = Watcher::start(&world, ELECTION);
    let mut fleet = Fleet::start(&world, 8, |_| Vec::new());
    support::until("somebody leads", || watcher.findings().leader().is_some());

    let seconds = if support::campaign() { 600 } else { 60 };
    fleet.suffer(&watcher, &mut random, Duration::from_secs(seconds));
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
    assert!(findings.longest_vacancy <= TTL + Duration::from_secs(1), "{:?}", findings.longest_vacancy);
    // That something happened at all.
    assert!(fleet.kills >= 10 && fleet.stops >= 10 && fleet.stale_writes > 0);
    assert!(findings.trees.len() >= 10, "{:?}", findings.trees);

    fleet.stop();
    watcher.finish();
    let tokens = check_log(&world);
    assert!(tokens.len() >= 50, "{tokens:?}");
    let history = check_history(&world);
    assert!(history.len() >= 10, "{history:?}");
    assert_eq!(world.status(ELECTION)["state"], "vacant");
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
