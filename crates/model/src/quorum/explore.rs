//! Runs a world and says what was found.

use std::collections::BTreeSet;

use stateright::{Checker, CheckerBuilder, HasDiscoveries};

use super::world::{Explored, Quorum, Scope};
use crate::Exploration;

/// Explores all of a world.
pub fn exhaust<M: Explored>(small: Scope) -> Exploration {
    explore::<M, _>(small, |checker| checker.finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join())
}

/// Explores, short runs first, until that promise is broken.
pub fn find<M: Explored>(small: Scope, promise: &'static str) -> Exploration {
    let broken = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    explore::<M, _>(small, |checker| checker.finish_when(broken).spawn_bfs().join())
}

fn explore<M: Explored, C: Checker<Quorum<M>>>(
    small: Scope,
    search: impl FnOnce(CheckerBuilder<Quorum<M>>) -> C,
) -> Exploration {
    crate::explore::explore(small.name, Quorum::<M>::new(small), search, |_, path| {
        path.into_actions().iter().map(ToString::to_string).collect()
    })
}
