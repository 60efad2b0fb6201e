//! Thousands of seeds for each algorithm: no promise is broken. `BATON_CAMPAIGN=1` plays a hundred thousand of each.
//!
//! A failure tells the seed and the line to paste.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::num::NonZeroUsize;

use baton_lab::{Campaign, Elector, Scenario, SeedOptions, campaign};

/// Plays so many seeds, on as many threads as there are cores.
fn play(wishes: &SeedOptions, seeds: u64) -> Campaign {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let outcome = campaign(wishes, 0, seeds, threads, &|_| {});
    if let Some((seed, broken)) = &outcome.broken {
        let SeedOptions { algorithm, scenario, nodes, lan } = wishes;
        let nodes = nodes.map_or(String::new(), |nodes| format!(" --nodes {nodes}"));
        let lan = if *lan { " --lan" } else { "" };
        panic!(
            "{} at {}: {}\nbaton lab replay --algorithm {algorithm} --scenario {scenario} --seed {seed}{nodes}{lan}",
            broken.invariant, broken.at, broken.what
        );
    }
    outcome
}

fn keeps_its_promises(algorithm: Elector) -> Campaign {
    let seeds = if std::env::var_os("BATON_CAMPAIGN").is_some() { 100_000 } else { 2_000 };
    let outcome = play(&SeedOptions::new(algorithm), seeds);
    let statistics = &outcome.statistics;
    assert_eq!(statistics.runs, seeds);
    // The faults are not so bad that nothing is tested, nor so mild.
    assert!(statistics.leaderships > 2 * seeds, "{} leaderships", statistics.leaderships);
    assert!(statistics.no_leader.as_millis() * 50 > statistics.simulated.as_millis());
    assert!(statistics.writes_accepted > 10 * seeds && statistics.writes_refused > 0);
    // Nearly always a leader is demanded in the end.
    assert!(statistics.undemanded * 50 < seeds, "{} of {seeds} runs need no leader", statistics.undemanded);
    // Not even one that stands still counts as a leader once another leads.
    assert_eq!((statistics.two_leaders.as_nanos(), statistics.beside_still.as_nanos()), (0, 0));
    outcome
}

#[test]
fn raft_keeps_its_promises() {
    keeps_its_promises(Elector::RAFT);
}

#[test]
fn paxos_keeps_its_promises() {
    keeps_its_promises(Elector::PAXOS);
}

#[test]
fn the_lease_keeps_its_promises_on_a_store_that_stamps() {
    keeps_its_promises(Elector::Lease);
}

#[test]
fn the_lease_keeps_its_promises_on_a_store_that_is_watched() {
    keeps_its_promises(Elector::LeaseObserved);
}

#[test]
fn the_split_brain_of_bully_and_ring_is_found_and_counted() {
    for algorithm in [Elector::BULLY, Elector::RING] {
        let statistics = play(&SeedOptions::new(algorithm), 500).statistics;
        assert!(statistics.two_leaders.as_millis() > 60_000, "{algorithm}: {}", statistics.two_leaders);
        assert_eq!(statistics.undemanded, 0, "{algorithm}");
        assert!(statistics.terms_shared > 0 && statistics.writes_mixed > 0, "{algorithm}: {statistics:?}");
    }
}

#[test]
fn every_scenario_is_survived_in_both_rhythms() {
    let seeds = if std::env::var_os("BATON_CAMPAIGN").is_some() { 2_000 } else { 40 };
    for algorithm in Elector::all() {
        for scenario in Scenario::ALL {
            for lan in [false, true] {
                let wishes = SeedOptions { scenario, lan, ..SeedOptions::new(algorithm) };
                assert!(play(&wishes, seeds).statistics.leaderships > 0, "{wishes:?}");
            }
        }
    }
}
