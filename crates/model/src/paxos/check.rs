//! What must never happen, what must happen in some run, and the search.

use std::collections::BTreeSet;

use stateright::{Checker, CheckerBuilder, HasDiscoveries, Path, Property};

use super::catalogue::{Clocks, Scope};
use super::world::{Event, Group, World};
use crate::Exploration;

pub(crate) const ONE_LEADER: &str = "one leader per token";
pub(crate) const PROMISES: &str = "a promise never goes back";
pub(crate) const CHOSEN: &str = "what is chosen stays chosen";
pub(crate) const REVIVED: &str = "once lost, always lost";
pub(crate) const LEASES: &str = "two never believe at once";
pub(crate) const RISING: &str = "tokens lead in their order";

type Holds = fn(&Group, &World) -> bool;

/// The promises of a scene, and what must happen within its bounds.
pub(crate) fn properties(scene: &Scope) -> Vec<Property<Group>> {
    let always: fn(_, Holds) -> _ = Property::<Group>::always;
    let sometimes: fn(_, Holds) -> _ = Property::<Group>::sometimes;
    let mut all = vec![
        always(ONE_LEADER, |_, world| !world.ledger.wrong.token),
        always(PROMISES, |_, world| !world.ledger.wrong.promise),
        always(CHOSEN, |_, world| !world.ledger.wrong.chosen),
        always(REVIVED, |_, world| !world.ledger.wrong.revived),
        sometimes("a member leads", |_, world| !world.ledger.led.is_empty()),
        sometimes("a request is refused", |_, world| world.event == Event::Refused),
        sometimes("two instances are chosen", |group, world| {
            world.ledger.chosen(group.members()).count() > 1
        }),
    ];
    if scene.bounds.ticks > 0 {
        all.push(sometimes("two members lead, one after the other", |_, world| world.ledger.led.len() > 1));
        all.push(sometimes("a leader completes what another began", |_, world| world.ledger.has_completed()));
    }
    if scene.outbid {
        all.push(sometimes("a leader raises its ballot", |_, world| world.ledger.has_raised()));
    }
    match scene.clocks {
        Clocks::Free if scene.bounds.ticks > 0 => {
            all.push(sometimes("with free clocks two believe", Group::two_believe));
        }
        Clocks::Free => {}
        Clocks::Drifting(_) => {
            all.push(always(LEASES, |group, world| !group.two_believe(world)));
            all.push(always(RISING, |_, world| world.ledger.led.is_sorted()));
            all.push(sometimes("a lease ends", |_, world| world.event == Event::Lost));
        }
    }
    if scene.bounds.restarts > 0 {
        all.push(sometimes("a restarted member answers", |_, world| {
            world.event == Event::AnsweredAfterRestart
        }));
    }
    all
}

/// Explores every world of a scene, depth first.
pub fn run(scene: Scope) -> Exploration {
    explore(scene, |checker| checker.finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join())
}

/// Explores, short runs first, until this promise is broken.
pub fn find_violation(scene: Scope, promise: &'static str) -> Exploration {
    let broken = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    explore(scene, |checker| checker.finish_when(broken).spawn_bfs().join())
}

fn explore<C: Checker<Group>>(scene: Scope, search: impl FnOnce(CheckerBuilder<Group>) -> C) -> Exploration {
    crate::explore::explore(scene.name, Group::new(scene), search, retell)
}

fn retell(group: &Group, path: Path<World, super::Step>) -> Vec<String> {
    let steps = path.into_vec().into_iter();
    steps.filter_map(|(world, step)| step.map(|step| group.say(&world, step))).collect()
}
