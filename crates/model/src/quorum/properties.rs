//! What must never happen, and what must happen in some run.

use stateright::Property;

use super::world::{Clocks, Explored, Quorum, Scope, World};

/// The names of the promises.
pub mod promise {
    /// The term is a token: whoever else is told to lead is told another one.
    pub const ONE_LEADER_A_TERM: &str = "a term has one leader";
    /// Never two valid leases.
    pub const ONE_LEASE: &str = "never two valid leases";
    /// A leadership begins once.
    pub const LOST_FOR_GOOD: &str = "once lost, always lost";
    /// What a member knows of terms never goes back, even if it crashes.
    pub const TERMS_RISE: &str = "terms never go back";
    /// A witness never leads.
    pub const WITNESSES_FOLLOW: &str = "a witness never leads";
}

fn again<M: Explored>(world: &World<M>, is_same: fn(&(u64, usize), &(u64, usize)) -> bool) -> bool {
    let leads: Vec<(u64, usize)> = world.leads.iter().map(|(term, who)| (term.0, *who)).collect();
    leads.iter().enumerate().any(|(at, one)| leads[at + 1..].iter().any(|other| is_same(one, other)))
}

/// The promises, and what must happen within these bounds.
pub(super) fn all<M: Explored>(small: &Scope) -> Vec<Property<Quorum<M>>> {
    let mut all: Vec<Property<Quorum<M>>> = vec![
        Property::always(promise::ONE_LEADER_A_TERM, |_, world: &World<M>| {
            !again(world, |one, other| one.0 == other.0 && one.1 != other.1)
        }),
        Property::always(promise::LOST_FOR_GOOD, |_, world: &World<M>| {
            !again(world, |one, other| one == other)
        }),
        Property::always(promise::TERMS_RISE, |_, world: &World<M>| !world.went_back),
        Property::always(promise::WITNESSES_FOLLOW, |model: &Quorum<M>, world: &World<M>| {
            world.leading().all(|index| !model.small.members[index].witness)
        }),
    ];
    if small.clocks == Clocks::Shared {
        all.push(Property::always(promise::ONE_LEASE, |_, world: &World<M>| world.leading().count() <= 1));
    }
    all.extend(happenings(small));
    all
}

fn happenings<M: Explored>(small: &Scope) -> Vec<Property<Quorum<M>>> {
    let mut all: Vec<Property<Quorum<M>>> = Vec::new();
    let mut add = |possible: bool, name, happens: fn(&Quorum<M>, &World<M>) -> bool| {
        if possible {
            all.push(Property::sometimes(name, happens));
        }
    };
    add(true, "somebody leads", |_, world| world.leading().next().is_some());
    add(small.terms > 1, "one leads after another", |_, world| {
        world.leads.windows(2).any(|pair| pair[0].1 != pair[1].1)
    });
    add(small.terms > 1, "terms rise without a leader", |_, world| {
        world.leads.is_empty() && world.nodes.iter().any(|node| node.machine.view(node.now).term.0 > 1)
    });
    add(small.restarts > 0, "a member that crashed follows", |_, world| {
        world.nodes.iter().any(|node| node.restarts > 0 && node.machine.view(node.now).leader.is_some())
    });
    add(small.restarts > 0, "a leader crashes and another leads", |_, world| {
        world.nodes.iter().enumerate().any(|(index, node)| {
            node.restarts > 0
                && world.leads.first().is_some_and(|(_, who)| *who == index)
                && world.leads.get(1).is_some_and(|(_, who)| *who != index)
        })
    });
    add(small.doubles > 0, "a message arrives twice and somebody leads", |_, world| {
        world.doubles > 0 && !world.leads.is_empty()
    });
    add(small.members.iter().any(|member| member.witness), "either member leads", |_, world| {
        [0, 1].iter().all(|index| world.leads.iter().any(|(_, who)| who == index))
    });
    all
}
