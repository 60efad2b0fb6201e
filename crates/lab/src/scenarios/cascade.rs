//! One leader after the other dies.

use baton_election::Span;

use super::Draw;
use crate::fault::{DiskFate, Fault, FaultTarget};

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(50, 200);
    while at < draw.bounds.chaos {
        let lasts = fall(draw, at);
        at = at.plus(lasts).plus(draw.rounds(50, 400));
    }
}

/// Leaders die as soon as they lead; returns how long that goes on.
pub(super) fn fall(draw: &mut Draw<'_>, from: Span) -> Span {
    let times = 1 + draw.below(u64::from(draw.bounds.places));
    let mut at = from;
    for _ in 0..times {
        let down = draw.rounds(10, 400);
        let reboot = draw.one_in(2);
        draw.add(at, Fault::Crash { target: FaultTarget::Leader(0), disk: DiskFate::Kept, reboot, down });
        at = at.plus(draw.rounds(20, 200));
    }
    at.minus(from)
}
