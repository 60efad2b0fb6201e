//! A member joins while another has forgotten: the group must get over it.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;
use baton_lab::{Algorithm, DiskFate, Fault, Planned, Setup, What, Whom, run, watch};
use baton_peer::Timing;

fn setup(algorithm: Algorithm, seed: u64) -> Setup {
    let crash =
        Fault::Crash { whom: Whom::Follower(1), disk: DiskFate::Lost, reboot: true, down: Span::secs(1) };
    let at = |second, fault| Planned { at: Span::secs(second), fault };
    Setup {
        seed,
        spares: 1,
        plan: vec![at(60, crash), at(78, Fault::Members { place: 3 })],
        ..Setup::quiet(algorithm, 3, Timing::AGENTS)
    }
}

#[test]
fn a_member_that_joins_while_another_has_forgotten_does_not_leave_the_group_without_a_leader() {
    for algorithm in [Algorithm::Raft, Algorithm::Paxos] {
        for seed in 0..20 {
            let outcome = run(&setup(algorithm, seed));
            assert_eq!(outcome.broken, None, "{algorithm}, seed {seed}");
        }
    }
}

#[test]
fn the_leader_says_why_it_refuses() {
    for algorithm in [Algorithm::Raft, Algorithm::Paxos] {
        let (_, timeline) = watch(&setup(algorithm, 0));
        let refused =
            |what: &What| matches!(what, What::Told(text) if text.contains("too few of these members"));
        assert!(timeline.entries.iter().any(|entry| refused(&entry.what)), "{algorithm}");
    }
}
