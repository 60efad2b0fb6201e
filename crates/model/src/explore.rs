//! Runs a configuration and says what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, CheckerBuilder, Expectation, HasDiscoveries, Model, Path};

use crate::config::Config;
use crate::model::Election;
use crate::properties::Promise;

/// What one exploration found.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// The configuration's name.
    pub name: &'static str,
    /// Different worlds seen.
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

/// Explores every world of a configuration, depth first, which takes little memory. Where nothing is meant to be broken,
/// the first broken promise ends it.
pub fn run(config: Config) -> Exploration {
    let finish = if config.fault.is_none() { HasDiscoveries::AnyFailures } else { HasDiscoveries::All };
    explore_election(config, |checker| checker.finish_when(finish).spawn_dfs().join())
}

/// Explores, short runs first, until this promise is broken.
pub fn find_violation(config: Config, promise: Promise) -> Exploration {
    let broken = HasDiscoveries::AnyOf(BTreeSet::from([promise.name()]));
    explore_election(config, |checker| checker.finish_when(broken).spawn_bfs().join())
}

fn explore_election<C: Checker<Election>>(
    config: Config,
    search: impl FnOnce(CheckerBuilder<Election>) -> C,
) -> Exploration {
    explore(config.name, Election::new(config), search, |_, path| {
        let mut run = vec![path.last_state().clocks.to_string()];
        run.extend(path.into_actions().iter().map(ToString::to_string));
        run
    })
}

/// Searches a model; a run that breaks a promise is told by `retell`.
pub(crate) fn explore<M, C>(
    name: &'static str,
    model: M,
    search: impl FnOnce(CheckerBuilder<M>) -> C,
    retell: impl Fn(&M, Path<M::State, M::Action>) -> Vec<String>,
) -> Exploration
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + PartialEq + Hash + Send + Sync,
    M::Action: Clone + PartialEq,
    C: Checker<M>,
{
    let began = Instant::now();
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
                    broken.insert(name, retell(checker.model(), path));
                }
            }
        }
    }
    Exploration {
        name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        time: began.elapsed(),
        happened,
        broken,
    }
}

impl Exploration {
    /// What had to happen and never did.
    pub fn missing(&self) -> Vec<&'static str> {
        self.happened.iter().filter(|(_, happened)| !**happened).map(|(name, _)| *name).collect()
    }
}

impl fmt::Display for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.happened.values().filter(|happened| **happened).count();
        writeln!(
            f,
            "{:<34} {:>10} states, depth {:>3}, {:>6.1} s; {seen} of {} happenings; {} promises broken",
            self.name,
            self.states,
            self.depth,
            self.time.as_secs_f64(),
            self.happened.len(),
            self.broken.len()
        )?;
        for (name, happened) in &self.happened {
            writeln!(f, "    {} {name}", if *happened { "seen " } else { "NEVER" })?;
        }
        for (promise, run) in &self.broken {
            writeln!(f, "    BROKEN: {promise}: {}", run.join(" › "))?;
        }
        Ok(())
    }
}
