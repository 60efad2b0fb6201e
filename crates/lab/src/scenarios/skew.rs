//! Clocks run as far apart as they may, and change their minds; wall clocks jump.

use baton_election::Span;

use super::Draw;
use crate::fault::{DiskFate, Fault, Whom};

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(0, 100);
    while at < draw.frame.chaos {
        run_apart(draw, at);
        // Something must end leaderships, so that clocks matter.
        match draw.below(3) {
            0 => {
                let span = draw.rounds(50, 150);
                draw.add(at, Fault::Isolate { whom: Whom::Leader(0), outbound: true, inbound: true });
                draw.add(at.plus(span), Fault::Mend);
            }
            1 => {
                let down = draw.rounds(10, 200);
                let reboot = draw.one_in(2);
                draw.add(at, Fault::Crash { whom: Whom::Leader(0), disk: DiskFate::Kept, reboot, down });
            }
            _ => {
                let span = draw.rounds(60, 140);
                draw.add(at, Fault::Pause { whom: Whom::Leader(0), span });
            }
        }
        at = at.plus(draw.rounds(80, 300));
    }
}

/// One or two clocks change.
pub(super) fn run_apart(draw: &mut Draw<'_>, at: Span) {
    let places = u64::from(draw.frame.places) + u64::from(draw.frame.algorithm.has_store());
    for _ in 0..2 {
        let place = u8::try_from(draw.below(places)).unwrap_or(0);
        let drift_ppm = draw.drift();
        draw.add(at, Fault::Rate { whom: Whom::Place(place), drift_ppm });
    }
    let hour = 3_600_000;
    let by_ms = i64::try_from(draw.below(48 * hour)).unwrap_or(0) - 24 * 3_600_000;
    let whom = draw.whom();
    draw.add(at, Fault::WallJump { whom, by_ms });
}
