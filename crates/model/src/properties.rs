//! What must never happen, and what must happen in some run.

use std::fmt;

use baton_election::TenureState;
use baton_election::document::Cause;
use stateright::Property;

use crate::config::{Bounds, BrokenRule, Config};
use crate::model::Election;
use crate::state::{Event, World};
use crate::store::led_by_another;

/// A promise: true in every world that can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The tokens of the writes that the resource took never go back.
    TokensNeverGoBack,
    /// At no instant of the store are there two valid leases.
    OneValidLease,
    /// No two agents are sure to lead at the same time.
    OneBeliever,
    /// Whoever is sure to lead has a valid lease, and the document names nobody else.
    HolderEndsFirst,
    /// A leadership that was lost does not come back.
    LostForGood,
    /// Epochs rise, and each is given to one incarnation.
    EpochsRise,
    /// From the instant that a leadership is ended, its token is refused.
    EndedIsRefused,
}

impl Promise {
    /// In the order of the reports.
    pub const ALL: [Promise; 7] = [
        Promise::TokensNeverGoBack,
        Promise::OneValidLease,
        Promise::OneBeliever,
        Promise::HolderEndsFirst,
        Promise::LostForGood,
        Promise::EpochsRise,
        Promise::EndedIsRefused,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Promise::TokensNeverGoBack => "accepted tokens never go back",
            Promise::OneValidLease => "never two valid leases",
            Promise::OneBeliever => "two agents never both believe",
            Promise::HolderEndsFirst => "the holder's view ends first",
            Promise::LostForGood => "once lost, always lost",
            Promise::EpochsRise => "epochs rise, each given once",
            Promise::EndedIsRefused => "an ended token is refused at once",
        }
    }

    fn holds(self) -> fn(&Election, &World) -> bool {
        match self {
            Promise::TokensNeverGoBack => |_, world| world.resource.written.is_sorted(),
            Promise::OneValidLease => |_, world| world.ledger.len() <= 1,
            Promise::OneBeliever => |_, world| !(world.believes(0) && world.believes(1)),
            Promise::HolderEndsFirst => |_, world| [0, 1].iter().all(|agent| view_holds(world, *agent)),
            Promise::LostForGood => |_, world| world.event != Some(Event::Revived),
            Promise::EpochsRise => |_, world| world.event != Some(Event::EpochBroken),
            Promise::EndedIsRefused => |_, world| world.event != Some(Event::EndedWriteTaken),
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn view_holds(world: &World, agent: usize) -> bool {
    if !world.believes(agent) {
        return true;
    }
    let life = world.agents[agent].life;
    world.ledger.holds(agent, life) && !led_by_another(&world.store.document, agent, life)
}

fn began_by(world: &World, cause: Cause) -> bool {
    world.store.document.last_transition.as_ref().is_some_and(|last| last.cause == cause)
}

/// The promises, and what must happen within these bounds.
pub(crate) fn all(config: &Config) -> Vec<Property<Election>> {
    let promises = Promise::ALL.map(|promise| Property::always(promise.name(), promise.holds()));
    promises.into_iter().chain(happenings(config)).collect()
}

/// What must happen in some run, as far as the bounds let it.
fn happenings(config: &Config) -> Vec<Property<Election>> {
    let Bounds { horizon, renewals, leaves, timeouts, give_ups, halts, writes, deposes, pauses, restarts } =
        config.bounds;
    let fails_over = horizon >= 6;
    let waits = deposes > 0 && config.fault != Some(BrokenRule::Force);
    let mut all = Vec::new();
    let mut add = |possible: bool, name, happens: fn(&Election, &World) -> bool| {
        if possible {
            all.push(Property::sometimes(name, happens));
        }
    };
    add(true, "an agent believes", |_, world| world.believes(0) || world.believes(1));
    add(true, "a swap conflicts", |_, world| world.event == Some(Event::Conflict));
    add(fails_over, "a fail-over", |_, world| began_by(world, Cause::Failover));
    add(fails_over, "a successor believes after a fail-over", |_, world| {
        began_by(world, Cause::Failover) && (world.believes(0) || world.believes(1))
    });
    add(leaves > 0, "a release and a successor", |_, world| began_by(world, Cause::Release));
    add(leaves > 0, "a pass and its successor", |_, world| began_by(world, Cause::Pass));
    add(waits, "a candidate waits for a deposed lease", |_, world| world.event == Some(Event::WaitsForEnded));
    add(deposes > 0, "a successor of a deposed leader", |_, world| began_by(world, Cause::Depose));
    add(waits && leaves > 0, "a deposed leader releases early", |_, world| {
        world.event == Some(Event::EndedReleased)
    });
    add(timeouts > 0, "a retry finds its own grant", |_, world| world.event == Some(Event::FoundOwnGrant));
    add(give_ups > 0, "an agent that gave up finds its grant", |_, world| {
        world.event == Some(Event::FoundOwnGrant)
    });
    add(renewals > 0 && timeouts + give_ups > 0, "a renewal confirms a grant that was found", |_, world| {
        world.event == Some(Event::Confirmed)
    });
    add(
        give_ups > 0 && halts > 0,
        "a request is granted after its sender gave up and was refused",
        |_, world| world.event == Some(Event::GrantedAfterRefusal),
    );
    add(renewals > 0, "a renewal is applied late", |_, world| world.event == Some(Event::RenewedLate));
    add(writes > 0, "a write is taken", |_, world| !world.resource.written.is_empty());
    add(writes > 0 && fails_over, "a stale write is refused", |_, world| {
        world.event == Some(Event::StaleWriteRefused)
    });
    add(writes > 1 && fails_over, "two leaders write in order", |_, world| {
        world.resource.written.windows(2).any(|pair| pair[0] < pair[1])
    });
    add(waits && writes > 0, "a deposed leader's write is refused before a successor", |_, world| {
        world.event == Some(Event::EndedWriteRefused)
    });
    add(pauses > 0 && fails_over, "a paused agent wakes too late", |_, world| {
        world.event == Some(Event::WokeTooLate)
    });
    add(restarts > 0 && fails_over, "a restarted agent succeeds itself", |_, world| {
        world.store.document.last_transition.as_ref().is_some_and(|last| last.from.as_ref() == Some(&last.to))
    });
    add(config.offers, "an offer is not yet a leadership", |_, world| {
        [0, 1].iter().any(|agent| world.standing(*agent) == Some(TenureState::Offered))
    });
    all
}
