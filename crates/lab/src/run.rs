//! One run of any algorithm, and many on several threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use baton_election::Span;
use baton_peer::{Machine, MachineVisitor};

use crate::invariants::Broken;
use crate::lease::LeaseWorld;
use crate::seed::SeedOptions;
use crate::setup::{Elector, Outcome, Setup};
use crate::statistics::Statistics;
use crate::timeline::Timeline;
use crate::world::World;

/// Plays a setup to its end, or until a promise breaks.
pub fn run(setup: &Setup) -> Outcome {
    play(setup, None).0
}

/// The same, keeping what happened.
pub fn watch(setup: &Setup) -> (Outcome, Timeline) {
    play(setup, Some(Timeline::default()))
}

/// A run of a group, whatever its algorithm.
struct GroupRun<'s> {
    setup: &'s Setup,
    /// What happens is kept here, if it is kept.
    timeline: Option<Timeline>,
}

impl MachineVisitor for GroupRun<'_> {
    type Output = (Outcome, Timeline);

    fn visit<M: Machine>(self) -> (Outcome, Timeline) {
        World::<M>::play(self.setup, self.timeline)
    }
}

fn play(setup: &Setup, timeline: Option<Timeline>) -> (Outcome, Timeline) {
    match setup.algorithm {
        Elector::Group(algorithm) => algorithm.visit(GroupRun { setup, timeline }),
        Elector::Lease | Elector::LeaseObserved => LeaseWorld::play(setup, timeline),
    }
}

/// What became of many runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Campaign {
    /// What all runs measured together.
    pub statistics: Statistics,
    /// The lowest seed that broke a promise, and which.
    pub broken: Option<(u64, Broken)>,
}

/// How far a campaign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Seeds that were played.
    pub seeds: u64,
    /// The time that passed in them.
    pub simulated: Span,
}

/// The most threads of a campaign.
const MAX_THREADS: usize = 1_024;

/// Plays the setups of seeds `from` to `from + seeds - 1` on several threads, each seed on one of them. Ends early once a promise
/// broke: all lower seeds are played then, so that the seed told of is the lowest. `done` is told how far it is, now and then.
pub fn campaign(
    wishes: &SeedOptions,
    from: u64,
    seeds: u64,
    threads: NonZeroUsize,
    done: &(dyn Fn(Progress) + Sync),
) -> Campaign {
    /// How many seeds a thread takes at a time.
    const SHARE: u64 = 16;
    // More would find nothing to do, or only take each other's time.
    let shares = usize::try_from(seeds.div_ceil(SHARE)).unwrap_or(usize::MAX);
    let threads = threads.get().min(shares).min(MAX_THREADS);
    let (next, played, passed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let sum = Mutex::new(Campaign::default());
    let work = || {
        let mut mine = Statistics::default();
        while !stop.load(Ordering::Relaxed) {
            let first = next.fetch_add(SHARE, Ordering::Relaxed);
            if first >= seeds {
                break;
            }
            let (last, before) = ((first + SHARE).min(seeds), mine.simulated);
            for number in first..last {
                let seed = from.wrapping_add(number);
                let outcome = run(&wishes.setup(seed));
                mine.add(&outcome.statistics);
                if let Some(broken) = outcome.broken {
                    stop.store(true, Ordering::Relaxed);
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    if sum
                        .broken
                        .as_ref()
                        .is_none_or(|(lowest, _)| seed.wrapping_sub(from) < lowest.wrapping_sub(from))
                    {
                        sum.broken = Some((seed, broken));
                    }
                    break;
                }
            }
            let simulated = mine.simulated.minus(before).as_nanos();
            done(Progress {
                seeds: played.fetch_add(last - first, Ordering::Relaxed) + last - first,
                simulated: Span::nanos(passed.fetch_add(simulated, Ordering::Relaxed) + simulated),
            });
        }
        sum.lock().unwrap_or_else(PoisonError::into_inner).statistics.add(&mine);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}
