//! Named ways in which things go wrong: each file makes a plan of faults from a seed.

mod asymmetric;
mod cascade;
mod disk;
mod flapping;
mod herd;
mod mixed;
mod partition;
mod pause;
mod skew;

use std::fmt;
use std::str::FromStr;

use baton_election::Span;
use baton_peer::Random;

use crate::fault::{Fault, FaultTarget, PlannedFault};
use crate::setup::Elector;

/// The most faults of one plan.
const MAX_FAULTS: usize = 512;

/// A way in which things go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// The network splits into parts that cannot reach each other, and heals.
    Partition,
    /// Links come and go faster than anybody can adapt.
    Flapping,
    /// Links that work in one direction only, and members that reach only some of the others.
    Asymmetric,
    /// Processes stand still and go on.
    Pause,
    /// Clocks run as far apart as they may, and change their minds; wall clocks jump.
    Skew,
    /// One leader after the other dies.
    Cascade,
    /// All die, or stand still, and come back at once.
    Herd,
    /// Disks are slow, lose what they were writing, or all they had.
    Disk,
    /// All of the above, and hand-overs, changes of members, bad networks, failing stores.
    Mixed,
}

impl Scenario {
    /// In the order of the tables.
    pub const ALL: [Scenario; 9] = [
        Scenario::Partition,
        Scenario::Flapping,
        Scenario::Asymmetric,
        Scenario::Pause,
        Scenario::Skew,
        Scenario::Cascade,
        Scenario::Herd,
        Scenario::Disk,
        Scenario::Mixed,
    ];

    /// As it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Scenario::Partition => "partition",
            Scenario::Flapping => "flapping",
            Scenario::Asymmetric => "asymmetric",
            Scenario::Pause => "pause",
            Scenario::Skew => "skew",
            Scenario::Cascade => "cascade",
            Scenario::Herd => "herd",
            Scenario::Disk => "disk",
            Scenario::Mixed => "mixed",
        }
    }

    /// The plan of one run, in the order of time.
    pub fn plan(self, bounds: &PlanBounds, random: &mut Random) -> Vec<PlannedFault> {
        let mut draw = Draw { bounds, random, plan: Vec::new() };
        match self {
            Scenario::Partition => partition::plan(&mut draw),
            Scenario::Flapping => flapping::plan(&mut draw),
            Scenario::Asymmetric => asymmetric::plan(&mut draw),
            Scenario::Pause => pause::plan(&mut draw),
            Scenario::Skew => skew::plan(&mut draw),
            Scenario::Cascade => cascade::plan(&mut draw),
            Scenario::Herd => herd::plan(&mut draw),
            Scenario::Disk => disk::plan(&mut draw),
            Scenario::Mixed => mixed::plan(&mut draw),
        }
        let mut plan = draw.plan;
        plan.retain(|planned| planned.at < bounds.chaos);
        plan.sort_by_key(|planned| planned.at);
        plan
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Scenario, String> {
        Scenario::ALL.into_iter().find(|scenario| scenario.name() == text).ok_or_else(|| {
            let names = Scenario::ALL.map(Scenario::name).join(", ");
            format!("`{text}` is not a scenario; there are {names}")
        })
    }
}

/// What a plan must fit into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanBounds {
    /// What elects.
    pub algorithm: Elector,
    /// How many places there are for members.
    pub places: u8,
    /// The unit of time: the longest patience, or the lease.
    pub round: Span,
    /// How long things go wrong.
    pub chaos: Span,
    /// The most that a clock may drift, in millionths.
    pub drift_ppm: i32,
}

/// A plan in the making.
struct Draw<'a> {
    bounds: &'a PlanBounds,
    random: &'a mut Random,
    plan: Vec<PlannedFault>,
}

impl Draw<'_> {
    fn add(&mut self, at: Span, fault: Fault) {
        if self.plan.len() < MAX_FAULTS {
            self.plan.push(PlannedFault { at, fault });
        }
    }

    /// A length between two shares of a round, in hundredths.
    fn rounds(&mut self, low: u64, high: u64) -> Span {
        let (low, high) = (self.bounds.round.scaled(low, 100), self.bounds.round.scaled(high, 100));
        Span::nanos(self.random.between(low.as_nanos(), high.as_nanos()))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.random.below(many) == 0
    }

    fn place(&mut self) -> u8 {
        let places = u64::from(self.bounds.places);
        u8::try_from(self.random.below(places)).unwrap_or(0)
    }

    /// Where links begin and end: members, and the store if there is one.
    fn ends(&self) -> usize {
        usize::from(self.bounds.places) + usize::from(self.bounds.algorithm.has_store())
    }

    /// Leaders are struck more often than chance would have it.
    fn target(&mut self) -> FaultTarget {
        let place = self.place();
        match self.below(4) {
            0 | 1 => FaultTarget::Leader(place),
            2 => FaultTarget::Follower(place),
            _ => FaultTarget::Place(place),
        }
    }

    /// Every clock's extreme is drawn more often than what lies between.
    fn drift(&mut self) -> i32 {
        let most = self.bounds.drift_ppm;
        match self.below(4) {
            0 => most,
            1 => -most,
            2 => 0,
            _ => {
                let width = u64::try_from(2 * most).unwrap_or(0);
                i32::try_from(self.below(width + 1)).unwrap_or(0) - most
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_makes_a_plan_in_order_and_within_its_frame() {
        for algorithm in Elector::all() {
            let bounds = PlanBounds {
                algorithm,
                places: 6,
                round: Span::secs(20),
                chaos: Span::secs(400),
                drift_ppm: 10_000,
            };
            for scenario in Scenario::ALL {
                for seed in 0..20 {
                    let plan = scenario.plan(&bounds, &mut Random::seeded(seed));
                    assert!(!plan.is_empty() && plan.len() <= MAX_FAULTS, "{scenario}");
                    assert!(plan.is_sorted_by_key(|planned| planned.at), "{scenario}");
                    assert!(plan.iter().all(|planned| planned.at < bounds.chaos), "{scenario}");
                    assert_eq!(plan, scenario.plan(&bounds, &mut Random::seeded(seed)), "{scenario}");
                }
                assert_eq!(scenario.name().parse(), Ok(scenario));
            }
        }
    }
}
