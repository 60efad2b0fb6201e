//! From a seed to a setup: how many members, how they are connected, what goes wrong.

use baton_election::{Span, lease};
use baton_peer::{Random, Timing};

use crate::network::Network;
use crate::scenarios::{PlanBounds, Scenario};
use crate::setup::{Elector, Setup};

/// What is not left to the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeedOptions {
    /// What elects.
    pub algorithm: Elector,
    /// How things go wrong.
    pub scenario: Scenario,
    /// How many members; without it, the seed says.
    pub nodes: Option<u8>,
    /// The rhythm of machines on one network; otherwise that of agents.
    pub lan: bool,
}

impl SeedOptions {
    /// Everything is left to the seed.
    pub const fn new(algorithm: Elector) -> SeedOptions {
        SeedOptions { algorithm, scenario: Scenario::Mixed, nodes: None, lan: false }
    }

    /// The setup of a seed.
    pub fn setup(&self, seed: u64) -> Setup {
        let random = &mut Random::seeded(seed ^ 0x5eed_ba70_5eed_ba70);
        let timing = if self.lan { Timing::LAN } else { Timing::AGENTS };
        let algorithm = self.algorithm;
        let members = self.nodes.unwrap_or_else(|| some_members(algorithm, random));
        let mut setup = Setup { seed, ..Setup::quiet(algorithm, members, timing) };
        if algorithm.has_store() {
            setup.ttl = some_ttl(self.lan, random);
        }
        let votes = matches!(algorithm, Elector::Group(group) if group.terms_are_tokens());
        if votes && members >= 2 && random.below(5) == 0 {
            setup.witnesses = 1;
        }
        if votes && self.scenario == Scenario::Mixed && self.nodes.is_none() && random.below(4) == 0 {
            setup.spares = if random.below(2) == 0 { 1 } else { 2 };
        }
        if votes {
            setup.timing.heartbeat = some_heartbeat(&timing, random);
        }
        if !algorithm.has_store() && random.below(3) == 0 {
            setup.priorities = (0..setup.places()).map(|_| some_priority(random)).collect();
        }
        let round = if algorithm.has_store() { setup.ttl } else { timing.timeout_max };
        let drift_ppm = i32::try_from(timing.margins.drift_permille * 1_000).unwrap_or(0);
        setup.chaos = round.scaled(random.between(4, 24), 1);
        setup.network = Network::bad(round, random);
        setup.stumble = [(Span::ZERO, 0), (round.scaled(1, 20), 5), (round, 5)][pick(random, 3)];
        setup.disk = [round.scaled(1, 10_000), round.scaled(1, 1_000), round.scaled(1, 50)][pick(random, 3)];
        setup.founded = random.below(4) != 0;
        setup.any_disk_may_go = votes && self.scenario == Scenario::Disk && random.below(4) == 0;
        let ends = setup.places() + 1;
        setup.drift_ppm = (0..ends).map(|_| some_drift(drift_ppm, random)).collect();
        let bounds = PlanBounds {
            algorithm,
            places: u8::try_from(setup.places()).unwrap_or(u8::MAX),
            round,
            chaos: setup.chaos,
            drift_ppm,
        };
        setup.plan = self.scenario.plan(&bounds, random);
        setup
    }
}

fn some_members(algorithm: Elector, random: &mut Random) -> u8 {
    if algorithm.has_store() {
        return [2, 2, 3, 3, 4, 5, 8][pick(random, 7)];
    }
    [1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 6, 7][pick(random, 12)]
}

/// Mostly the preset's; also the slowest that a lease bears, and many to a timeout. Bully and Ring are not asked: they assume that an answer
/// takes less than a heartbeat, which no network of the laboratory would keep.
fn some_heartbeat(timing: &Timing, random: &mut Random) -> Span {
    let preset = timing.heartbeat;
    let slowest = timing.margins.usable(timing.timeout_min).scaled(1, 2);
    [preset, preset, preset, slowest, preset.scaled(1, 2), preset.scaled(1, 5), preset.scaled(1, 20)]
        [pick(random, 7)]
}

/// Few different ones, so that some are equal.
fn some_priority(random: &mut Random) -> u8 {
    [0, 0, 1, 2, 255][pick(random, 5)]
}

fn some_ttl(lan: bool, random: &mut Random) -> Span {
    if lan {
        return lease::MIN_TTL.scaled(random.between(10, 30), 10).whole_millis();
    }
    Span::secs(random.between(10, 40))
}

fn some_drift(most: i32, random: &mut Random) -> i32 {
    let width = u64::try_from(2 * most).unwrap_or(0);
    match random.below(3) {
        0 => most,
        1 => -most,
        _ => i32::try_from(random.below(width + 1)).unwrap_or(0) - most,
    }
}

pub(crate) fn pick(random: &mut Random, many: u64) -> usize {
    usize::try_from(random.below(many)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    #[test]
    fn a_seed_gives_one_setup_and_seeds_give_different_ones() {
        for algorithm in Elector::all() {
            let wishes = SeedOptions::new(algorithm);
            assert_eq!(wishes.setup(7), wishes.setup(7));
            let sizes: std::collections::BTreeSet<u8> =
                (0..200).map(|seed| wishes.setup(seed).members).collect();
            assert!(sizes.len() > 3, "{algorithm}: {sizes:?}");
            let plans =
                (0..50).filter(|seed| wishes.setup(*seed).plan != wishes.setup(seed + 50).plan).count();
            assert!(plans > 45, "{algorithm}");
        }
    }

    #[test]
    fn priorities_witnesses_and_rhythms_differ_from_seed_to_seed() {
        for algorithm in [Elector::RAFT, Elector::PAXOS] {
            let setups: Vec<Setup> = (0..200).map(|seed| SeedOptions::new(algorithm).setup(seed)).collect();
            let beats = setups.iter().map(|setup| setup.timing.heartbeat);
            assert!(beats.collect::<std::collections::BTreeSet<Span>>().len() >= 4, "{algorithm}");
            let preferred = |setup: &&Setup| setup.priorities.iter().any(|priority| *priority > 0);
            assert!((30..120).contains(&setups.iter().filter(preferred).count()), "{algorithm}");
            let alters = |setup: &&Setup| {
                let mut faults = setup.plan.iter().map(|planned| &planned.fault);
                faults.any(|fault| matches!(fault, Fault::Alter { priority: None, .. }))
            };
            assert!(setups.iter().filter(alters).count() > 10, "{algorithm}");
        }
        let preferred = |seed| !SeedOptions::new(Elector::BULLY).setup(seed).priorities.is_empty();
        assert!((0..200).filter(|seed| preferred(*seed)).count() > 30);
    }

    #[test]
    fn wishes_are_kept() {
        for seed in 0..50 {
            let wishes = SeedOptions { nodes: Some(5), lan: true, ..SeedOptions::new(Elector::RAFT) };
            let setup = wishes.setup(seed);
            assert_eq!((setup.members, setup.spares), (5, 0));
            let preset = Timing { heartbeat: Timing::LAN.heartbeat, ..setup.timing };
            assert_eq!((preset, setup.timing.check()), (Timing::LAN, Ok(())));
            assert!(setup.drift_ppm.iter().all(|ppm| ppm.abs() <= 10_000));
        }
    }
}
