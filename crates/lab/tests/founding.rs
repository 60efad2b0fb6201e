//! A group whose founding is half done when the faults end: whoever is named in it begins, so a leader is demanded.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;
use baton_lab::{Elector, Setup, run};
use baton_peer::Timing;

#[test]
fn a_leader_is_demanded_wherever_in_a_founding_the_faults_end() {
    for algorithm in [Elector::RAFT, Elector::PAXOS] {
        for step in 0..300 {
            let quiet = Setup::quiet(algorithm, 3, Timing::AGENTS);
            let chaos = Span::millis(19_000 + 50 * step);
            // A slow disk, so that one has kept its founding long before the next.
            let setup = Setup { founded: false, chaos, disk: Span::secs(3), seed: step, ..quiet };
            let outcome = run(&setup);
            assert_eq!(outcome.broken, None, "{algorithm}, healed after {chaos}");
            assert_eq!(outcome.statistics.undemanded, 0, "{algorithm}, healed after {chaos}");
        }
    }
}
