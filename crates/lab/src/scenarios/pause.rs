//! Processes stand still and go on.

use baton_election::Span;

use super::Draw;
use crate::fault::{Fault, FaultTarget};

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(0, 150);
    while at < draw.bounds.chaos {
        stand_still(draw, at);
        at = at.plus(draw.rounds(20, 250));
    }
}

/// One stands still, or several at once.
pub(super) fn stand_still(draw: &mut Draw<'_>, at: Span) {
    let target = draw.target();
    // Often about as long as a lease, when it matters.
    let span = if draw.one_in(2) { draw.rounds(60, 140) } else { draw.rounds(1, 300) };
    draw.add(at, Fault::Pause { target, span });
    if draw.one_in(4) {
        let (place, span) = (draw.place(), draw.rounds(1, 300));
        let at = at.plus(draw.rounds(0, 20));
        draw.add(at, Fault::Pause { target: FaultTarget::Place(place), span });
    }
}
