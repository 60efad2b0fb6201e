//! Links come and go faster than anybody can adapt.

use baton_election::Span;

use super::Draw;
use crate::fault::{Fault, FaultTarget};
use crate::network::Links;

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(0, 100);
    while at < draw.bounds.chaos {
        let lasts = flap(draw, at);
        at = at.plus(lasts).plus(draw.rounds(50, 300));
    }
}

/// Some links flap for a while; returns how long.
pub(super) fn flap(draw: &mut Draw<'_>, from: Span) -> Span {
    let ends = draw.ends();
    let one = draw.place();
    let times = 4 + draw.below(20);
    let mut at = from;
    for _ in 0..times {
        let fault = match draw.below(3) {
            0 => Fault::Isolate { target: FaultTarget::Place(one), outbound: true, inbound: true },
            1 => Fault::Isolate { target: draw.target(), outbound: true, inbound: draw.one_in(2) },
            _ => {
                let mut links = Links::whole(ends);
                for from in 0..ends {
                    for to in 0..ends {
                        links.set(from, to, from == to || !draw.one_in(3));
                    }
                }
                Fault::Cut(links)
            }
        };
        draw.add(at, fault);
        at = at.plus(draw.rounds(2, 60));
        draw.add(at, Fault::Mend);
        at = at.plus(draw.rounds(2, 60));
    }
    at.minus(from)
}
