//! All die, or stand still, and come back at once.

use baton_election::Span;

use super::Draw;
use crate::fault::{DiskFate, Fault, FaultTarget};

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(50, 300);
    while at < draw.bounds.chaos {
        stampede(draw, at);
        at = at.plus(draw.rounds(150, 500));
    }
}

/// All are gone, and are back at the same moment, or nearly so.
pub(super) fn stampede(draw: &mut Draw<'_>, at: Span) {
    let gone = draw.rounds(5, 250);
    let (crash, reboot) = (draw.one_in(2), draw.one_in(2));
    for place in 0..draw.bounds.places {
        let (after, early) = (draw.rounds(0, 3), draw.rounds(0, 3));
        let target = FaultTarget::Place(place);
        let span = gone.plus(early);
        draw.add(
            at.plus(after),
            if crash {
                Fault::Crash { target, disk: DiskFate::Kept, reboot, down: span }
            } else {
                Fault::Pause { target, span }
            },
        );
    }
}
