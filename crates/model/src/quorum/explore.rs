//! Runs a world and says what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use stateright::{Checker, CheckerBuilder, Expectation, HasDiscoveries, Model};

use super::world::{Explored, Quorum, Small};

/// What one exploration found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The world's name.
    pub name: &'static str,
    /// Different states seen.
    pub states: usize,
    /// The longest run.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
    /// What must happen: whether it did.
    pub happened: BTreeMap<&'static str, bool>,
    /// Broken promises, each with a run that breaks it.
    pub broken: BTreeMap<&'static str, Vec<String>>,
}

/// Explores all of a world.
pub fn exhaust<M: Explored>(small: Small) -> Found {
    explore::<M, _>(small, |checker| checker.finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join())
}

/// Explores, short runs first, until that promise is broken.
pub fn find<M: Explored>(small: Small, promise: &'static str) -> Found {
    let broken = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    explore::<M, _>(small, |checker| checker.finish_when(broken).spawn_bfs().join())
}

fn explore<M: Explored, C: Checker<Quorum<M>>>(
    small: Small,
    search: impl FnOnce(CheckerBuilder<Quorum<M>>) -> C,
) -> Found {
    let (name, began) = (small.name, Instant::now());
    let model = Quorum::<M>::new(small);
    let properties: Vec<_> = model.properties().iter().map(|p| (p.name, p.expectation.clone())).collect();
    let checker = search(model.checker());
    let (mut happened, mut broken) = (BTreeMap::new(), BTreeMap::new());
    for (name, expectation) in properties {
        let found = checker.discovery(name);
        match expectation {
            Expectation::Sometimes => {
                happened.insert(name, found.is_some());
            }
            Expectation::Always | Expectation::Eventually => {
                if let Some(path) = found {
                    broken.insert(name, path.into_actions().iter().map(ToString::to_string).collect());
                }
            }
        }
    }
    Found {
        name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        time: began.elapsed(),
        happened,
        broken,
    }
}

impl Found {
    /// What had to happen and never did.
    pub fn missing(&self) -> Vec<&'static str> {
        self.happened.iter().filter(|(_, happened)| !**happened).map(|(name, _)| *name).collect()
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (states, depth, time) = (self.states, self.depth, self.time.as_secs_f64());
        writeln!(f, "{:<44} {states:>9} states, depth {depth:>3}, {time:>6.1} s", self.name)?;
        for (name, happened) in &self.happened {
            writeln!(f, "    {} {name}", if *happened { "seen " } else { "NEVER" })?;
        }
        for (promise, run) in &self.broken {
            writeln!(f, "    BROKEN: {promise}: {}", run.join(" › "))?;
        }
        Ok(())
    }
}
