//! All of the others, and hand-overs, changes of members, bad networks, failing stores.

use baton_election::Span;

use super::{Draw, asymmetric, cascade, disk, flapping, herd, partition, pause, skew};
use crate::fault::Fault;
use crate::network::Network;

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(0, 150);
    while at < draw.bounds.chaos {
        strike(draw, at);
        at = at.plus(draw.rounds(5, 200));
    }
}

fn strike(draw: &mut Draw<'_>, at: Span) {
    match draw.below(14) {
        0 | 1 => drop(partition::split(draw, at)),
        2 => drop(asymmetric::lean(draw, at)),
        3 => drop(flapping::flap(draw, at)),
        4 | 5 => pause::stand_still(draw, at),
        6 => skew::run_apart(draw, at),
        7 => drop(cascade::fall(draw, at)),
        8 => herd::stampede(draw, at),
        9 => disk::fail(draw, at),
        10 => {
            let to = draw.place();
            let to = (!draw.one_in(3)).then_some(to);
            draw.add(at, Fault::HandOver { to });
        }
        11 => {
            let network = Network::bad(draw.bounds.round, draw.random);
            draw.add(at, Fault::Network(network));
        }
        12 => {
            // Several in a row: each must wait until a majority has the one before.
            let times = 1 + draw.below(4);
            let mut at = at;
            for _ in 0..times {
                let fault = change(draw);
                draw.add(at, fault);
                at = at.plus(draw.rounds(0, 20));
            }
        }
        _ => {
            let span = draw.rounds(5, 200);
            let fault = match draw.below(3) {
                0 => Fault::StoreDown { span },
                1 => Fault::StoreRestart,
                _ => Fault::Depose,
            };
            draw.add(at, fault);
        }
    }
}

/// The list of members changes in one place.
fn change(draw: &mut Draw<'_>) -> Fault {
    let place = draw.place();
    match draw.below(6) {
        0 => Fault::Alter { place, priority: None },
        1 => Fault::Alter { place, priority: Some(u8::try_from(draw.below(4)).unwrap_or(0)) },
        _ => Fault::Members { place },
    }
}
