//! A leader hands over to whom it prefers, also long after the healing; a run whose end falls into that is no failure.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;
use baton_lab::{DiskFate, Elector, Fault, FaultTarget, PlannedFault, Setup, run};
use baton_peer::Timing;

#[test]
fn a_run_may_end_in_the_middle_of_a_hand_over_by_priority() {
    let dies = Fault::Crash {
        target: FaultTarget::Place(0),
        disk: DiskFate::Kept,
        reboot: true,
        down: Span::secs(100),
    };
    let quiet = Setup {
        priorities: vec![9, 1, 1],
        plan: vec![PlannedFault { at: Span::secs(60), fault: dies }],
        chaos: Span::secs(100),
        ..Setup::quiet(Elector::RAFT, 3, Timing::AGENTS)
    };
    let mut most = 0;
    for step in 0..800 {
        let steady = Span::secs(60).plus(Span::millis(400 * step));
        let setup = Setup { steady, ..quiet.clone() };
        let outcome = run(&setup);
        assert_eq!(outcome.broken, None, "{} after the healing", setup.steady);
        most = most.max(outcome.statistics.leaderships);
    }
    assert!(most >= 2, "it never handed over: {most}");
}
