//! What one election costs: messages after the death of a leader, by the size of the group.

use baton_election::Span;
use baton_peer::Timing;

use crate::{DiskFate, Elector, Fault, FaultTarget, Network, PlannedFault, Setup, run};

use super::Plan;

/// The sizes that are measured.
pub const SIZES: [u8; 6] = [3, 5, 9, 17, 33, 65];
/// The most seeds that are averaged: what a death costs differs little from one seed to the next.
const MOST_SEEDS: u64 = 30;

/// The cost of an election.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// What elected.
    pub algorithm: Elector,
    /// How many members, the dead one included.
    pub nodes: u8,
    /// Messages of the election alone, until the new leader may act; on a store requests, answers, and what it tells those who watch.
    pub messages: f64,
}

/// The costs of all algorithms of a plan, by size.
pub(super) fn costs(plan: &Plan) -> Vec<Cost> {
    let cost = |algorithm: Elector, nodes: u8| {
        let seeds = plan.seeds.clamp(1, MOST_SEEDS);
        let sum: f64 = (plan.from..plan.from + seeds).map(|seed| of_one(algorithm, nodes, seed)).sum();
        Cost { algorithm, nodes, messages: sum / super::count(seeds) }
    };
    plan.algorithms.iter().flat_map(|&algorithm| SIZES.map(|nodes| cost(algorithm, nodes))).collect()
}

/// The difference between two runs. In one the leader dies, in the other a follower; all else is the same.
fn of_one(algorithm: Elector, nodes: u8, seed: u64) -> f64 {
    // Patience from a wide range and quick messages: one member notices the death first and is done before the next one
    // does, as the textbooks count. Where several notice at once, each of their elections costs.
    let timing = Timing { timeout_max: Timing::AGENTS.timeout_min.scaled(20, 1), ..Timing::AGENTS };
    let quick = Network::calm(Span::nanos(100_000), Span::nanos(500_000));
    let quiet = Setup {
        seed,
        ttl: Timing::AGENTS.timeout_max,
        chaos: timing.timeout_max.scaled(9, 2),
        steady: Span::ZERO,
        network: quick,
        calm: quick,
        ..Setup::quiet(algorithm, nodes, timing)
    };
    // When even members that began by waiting for a longest patience follow; and the new one leads when the dead one comes back.
    let at = timing.timeout_max.scaled(5, 2);
    let costs = |target: FaultTarget| {
        let fault = Fault::Crash { target, disk: DiskFate::Kept, reboot: true, down: quiet.chaos };
        let setup = Setup { plan: vec![PlannedFault { at, fault }], ..quiet.clone() };
        super::count(run(&setup).statistics.elective)
    };
    costs(FaultTarget::Leader(0)) - costs(FaultTarget::Follower(0))
}
