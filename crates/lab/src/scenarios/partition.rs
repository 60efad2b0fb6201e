//! The network splits into parts that cannot reach each other, and heals.

use baton_election::Span;

use super::Draw;
use crate::fault::Fault;
use crate::network::Links;

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(0, 200);
    while at < draw.bounds.chaos {
        let lasts = split(draw, at);
        at = at.plus(lasts).plus(draw.rounds(20, 250));
    }
}

/// One split; returns how long it lasts.
pub(super) fn split(draw: &mut Draw<'_>, at: Span) -> Span {
    let sides = if draw.one_in(4) { 3 } else { 2 };
    let links: Vec<u8> = (0..draw.ends()).map(|_| u8::try_from(draw.below(sides)).unwrap_or(0)).collect();
    draw.add(at, Fault::Cut(Links::split(&links)));
    let lasts = draw.rounds(20, 400);
    draw.add(at.plus(lasts), Fault::Mend);
    lasts
}
