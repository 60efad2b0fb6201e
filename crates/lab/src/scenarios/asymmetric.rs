//! Links that work in one direction only, and members that reach only some of the others.

use baton_election::Span;

use super::Draw;
use crate::fault::{Fault, FaultTarget};
use crate::network::Links;

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(0, 200);
    while at < draw.bounds.chaos {
        let lasts = lean(draw, at);
        at = at.plus(lasts).plus(draw.rounds(20, 250));
    }
}

/// The links are not the same both ways for a while; returns how long.
pub(super) fn lean(draw: &mut Draw<'_>, at: Span) -> Span {
    let fault = match draw.below(5) {
        0 => Fault::Isolate { target: FaultTarget::Leader(0), outbound: true, inbound: false },
        1 => Fault::Isolate { target: FaultTarget::Leader(0), outbound: false, inbound: true },
        2 => Fault::Isolate { target: draw.target(), outbound: draw.one_in(2), inbound: true },
        3 => Fault::Cut(hub(draw)),
        _ => Fault::Cut(sieve(draw)),
    };
    draw.add(at, fault);
    let lasts = draw.rounds(50, 500);
    draw.add(at.plus(lasts), Fault::Mend);
    lasts
}

/// All reach one, and nobody else.
fn hub(draw: &mut Draw<'_>) -> Links {
    let middle = usize::from(draw.place());
    let mut links = Links::whole(draw.ends());
    for from in 0..links.places() {
        for to in 0..links.places() {
            links.set(from, to, from == middle || to == middle || from == to);
        }
    }
    links
}

/// Each direction is open by chance.
fn sieve(draw: &mut Draw<'_>) -> Links {
    let mut links = Links::whole(draw.ends());
    let open = 3 + draw.below(6);
    for from in 0..links.places() {
        for to in 0..links.places() {
            links.set(from, to, from == to || draw.below(10) < open);
        }
    }
    links
}
