//! All algorithms under the same faults, side by side.
//!
//! For each scenario and seed there is one plan of faults and one network, and every algorithm meets it: with as many members,
//! and with a lease as long as the longest patience of a group, so that what differs is the algorithm.
//!
//! Assumes nothing. Guarantees that the same [`Plan`] gives the same numbers, on however many threads. Does **not** compare
//! all that matters: a store is one more end of the network, which the same cuts put on one side or the other, and which fails
//! by itself only in the mixed scenario; what a group keeps on its members' disks, a lease keeps in the store.

mod elections;
mod figures;
mod report;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use baton_election::Span;
use baton_peer::{Algorithm, Random, Timing};

use crate::{Broken, Elector, Network, PlanBounds, Scenario, Setup, Statistics, percentile, run};

pub use elections::{Cost, SIZES};

/// The algorithms in the order of the tables: from the textbooks' first to what Baton recommends.
pub fn electors() -> impl Iterator<Item = Elector> {
    let groups = Algorithm::ALL.into_iter().rev().map(Elector::Group);
    groups.chain([Elector::Lease, Elector::LeaseObserved])
}

/// How long things go wrong in a run.
const CHAOS: Span = Span::secs(600);
/// How many seeds a thread takes at a time.
const SHARE: u64 = 8;
/// The most seeds.
pub const MAX_SEEDS: u64 = 100_000;

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Which algorithms.
    pub algorithms: Vec<Elector>,
    /// Under what.
    pub scenarios: Vec<Scenario>,
    /// How many members each has.
    pub nodes: u8,
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
}

impl Plan {
    /// Everything, on so many seeds.
    pub fn all(seeds: u64) -> Plan {
        Plan { algorithms: electors().collect(), scenarios: Scenario::ALL.to_vec(), nodes: 5, from: 0, seeds }
    }
}

/// What was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What was compared.
    pub plan: Plan,
    /// For each scenario, in the order of the plan, each algorithm.
    pub cells: Vec<Cell>,
    /// What an election costs, by the size of the group.
    pub costs: Vec<Cost>,
}

/// One algorithm under one scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What elected.
    pub algorithm: Elector,
    /// Under what.
    pub scenario: Scenario,
    /// What all runs measured together.
    pub statistics: Statistics,
    /// From the loss of a leader until another's work began: half of all were shorter.
    pub failover_p50: Option<Span>,
    /// In 99 of 100 cases it was shorter.
    pub failover_p99: Option<Span>,
    /// The lowest seed that broke a promise, and which.
    pub broken: Option<(u64, Broken)>,
}

impl Cell {
    /// Per hour of simulated time.
    fn per_hour(&self, amount: f64) -> f64 {
        let hours = self.hours();
        if hours > 0.0 { amount / hours } else { 0.0 }
    }

    /// How much time was simulated.
    pub fn hours(&self) -> f64 {
        seconds(self.statistics.simulated) / 3_600.0
    }

    /// Seconds with two leaders or more that act, in each hour.
    pub fn two_leaders(&self) -> f64 {
        self.per_hour(seconds(self.statistics.two_leaders))
    }

    /// Seconds in which one leads beside others that stand still and were replaced, in each hour.
    pub fn beside_still(&self) -> f64 {
        self.per_hour(seconds(self.statistics.beside_still))
    }

    /// Seconds with none, in each hour.
    pub fn no_leader(&self) -> f64 {
        self.per_hour(seconds(self.statistics.no_leader))
    }

    /// Writes that the guarded resource refused for an old token, in each hour.
    pub fn refused(&self) -> f64 {
        self.per_hour(count(self.statistics.writes_refused))
    }

    /// Writes that it took although another had written with the same token, in each hour.
    pub fn mixed(&self) -> f64 {
        self.per_hour(count(self.statistics.writes_mixed))
    }
}

pub(crate) fn seconds(span: Span) -> f64 {
    std::time::Duration::from_nanos(span.as_nanos()).as_secs_f64()
}

fn count(number: u64) -> f64 {
    // Exact up to 2^53, which no run comes near.
    std::time::Duration::from_secs(number).as_secs_f64()
}

/// The setup of an algorithm under a scenario: all algorithms get the same plan and the same network.
pub fn setup(algorithm: Elector, scenario: Scenario, nodes: u8, seed: u64) -> Setup {
    let timing = Timing::AGENTS;
    let round = timing.timeout_max;
    let random = &mut Random::seeded(seed ^ 0xc0_4e1a_7e5e_ed00);
    let mut setup = Setup { seed, ttl: round, chaos: CHAOS, ..Setup::quiet(algorithm, nodes, timing) };
    setup.network = Network::bad(round, random);
    let drift_ppm = i32::try_from(timing.margins.drift_permille * 1_000).unwrap_or(0);
    let width = u64::try_from(2 * drift_ppm).unwrap_or(0);
    let drift = |random: &mut Random| i32::try_from(random.below(width + 1)).unwrap_or(0) - drift_ppm;
    setup.drift_ppm = (0..=nodes).map(|_| drift(random)).collect();
    // A plan for a lease has one end more, the store, which groups do not notice: so all meet the same plan to the letter.
    let bounds = PlanBounds { algorithm: Elector::Lease, places: nodes, round, chaos: CHAOS, drift_ppm };
    setup.plan = scenario.plan(&bounds, &mut Random::seeded(seed));
    setup
}

/// A part of the work: one algorithm under one scenario, for some seeds.
struct Job {
    cell: usize,
    from: u64,
    seeds: u64,
}

/// Compares. `done` is told how many runs are done, now and then.
pub fn compare(plan: &Plan, threads: NonZeroUsize, done: &(dyn Fn(u64) + Sync)) -> Comparison {
    let pairs: Vec<(Scenario, Elector)> = plan
        .scenarios
        .iter()
        .flat_map(|&scenario| plan.algorithms.iter().map(move |&algorithm| (scenario, algorithm)))
        .collect();
    let jobs: Vec<Job> = (0..pairs.len())
        .flat_map(|cell| {
            let starts = (0..plan.seeds).step_by(usize::try_from(SHARE).unwrap_or(1));
            starts.map(move |start| Job {
                cell,
                from: plan.from + start,
                seeds: SHARE.min(plan.seeds - start),
            })
        })
        .collect();
    let sums: Vec<Mutex<Sum>> = pairs.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    let played = Mutex::new(0);
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (scenario, algorithm) = pairs[job.cell];
            let sum = play(algorithm, scenario, plan.nodes, job);
            sums[job.cell].lock().unwrap_or_else(PoisonError::into_inner).add(sum);
            let mut played = played.lock().unwrap_or_else(PoisonError::into_inner);
            *played += job.seeds;
            done(*played);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get() {
            scope.spawn(work);
        }
        work();
    });
    let cells = pairs.iter().zip(sums).map(|(&(scenario, algorithm), sum)| {
        let Sum { mut statistics, broken } = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
        let failover_p50 = percentile(&mut statistics.failovers, 500);
        let failover_p99 = percentile(&mut statistics.failovers, 990);
        Cell { algorithm, scenario, statistics, failover_p50, failover_p99, broken }
    });
    Comparison { plan: plan.clone(), cells: cells.collect(), costs: elections::costs(plan) }
}

#[derive(Default)]
struct Sum {
    statistics: Statistics,
    broken: Option<(u64, Broken)>,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.statistics.add(&other.statistics);
        let lower = |new: &(u64, Broken)| self.broken.as_ref().is_none_or(|(seed, _)| new.0 < *seed);
        if other.broken.as_ref().is_some_and(lower) {
            self.broken = other.broken;
        }
    }
}

fn play(algorithm: Elector, scenario: Scenario, nodes: u8, job: &Job) -> Sum {
    let mut sum = Sum::default();
    for seed in job.from..job.from + job.seeds {
        let mut outcome = run(&setup(algorithm, scenario, nodes, seed));
        // Lists that nothing is made of would grow with the seeds.
        outcome.statistics.gaps.clear();
        outcome.statistics.healed_in.clear();
        let broken = outcome.broken.map(|broken| (seed, broken));
        sum.add(Sum { statistics: outcome.statistics, broken });
    }
    sum
}
