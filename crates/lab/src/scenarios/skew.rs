//! Clocks run as far apart as they may, and change their minds; wall clocks jump.

use baton_election::Span;

use super::Draw;
use crate::fault::{DiskFate, Fault, FaultTarget};

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(0, 100);
    while at < draw.bounds.chaos {
        run_apart(draw, at);
        // Something must end leaderships, so that clocks matter.
        match draw.below(3) {
            0 => {
                let span = draw.rounds(50, 150);
                draw.add(
                    at,
                    Fault::Isolate { target: FaultTarget::Leader(0), outbound: true, inbound: true },
                );
                draw.add(at.plus(span), Fault::Mend);
            }
            1 => {
                let down = draw.rounds(10, 200);
                let reboot = draw.one_in(2);
                draw.add(
                    at,
                    Fault::Crash { target: FaultTarget::Leader(0), disk: DiskFate::Kept, reboot, down },
                );
            }
            _ => {
                let span = draw.rounds(60, 140);
                draw.add(at, Fault::Pause { target: FaultTarget::Leader(0), span });
            }
        }
        at = at.plus(draw.rounds(80, 300));
    }
}

/// One or two clocks change.
pub(super) fn run_apart(draw: &mut Draw<'_>, at: Span) {
    let places = u64::from(draw.bounds.places) + u64::from(draw.bounds.algorithm.has_store());
    for _ in 0..2 {
        let place = u8::try_from(draw.below(places)).unwrap_or(0);
        let drift_ppm = draw.drift();
        draw.add(at, Fault::Rate { target: FaultTarget::Place(place), drift_ppm });
    }
    let hour = 3_600_000;
    let by_ms = i64::try_from(draw.below(48 * hour)).unwrap_or(0) - 24 * 3_600_000;
    let target = draw.target();
    draw.add(at, Fault::WallJump { target, by_ms });
}
