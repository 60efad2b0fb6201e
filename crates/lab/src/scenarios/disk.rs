//! Disks are slow, lose what they were writing, or all they had.

use baton_election::Span;

use super::Draw;
use crate::fault::{DiskFate, Fault, FaultTarget};

pub(super) fn plan(draw: &mut Draw<'_>) {
    let mut at = draw.rounds(0, 100);
    while at < draw.bounds.chaos {
        fail(draw, at);
        // Elections make disks work.
        if draw.one_in(2) {
            let span = draw.rounds(60, 200);
            draw.add(at, Fault::Pause { target: FaultTarget::Leader(0), span });
        }
        at = at.plus(draw.rounds(20, 250));
    }
}

/// A disk is slow, or dies.
pub(super) fn fail(draw: &mut Draw<'_>, at: Span) {
    let target = draw.target();
    let disk = if draw.one_in(2) { DiskFate::Lost } else { DiskFate::Kept };
    let reboot = draw.one_in(2);
    if draw.one_in(2) {
        let (span, each) = (draw.rounds(50, 500), draw.rounds(1, 120));
        draw.add(at, Fault::SlowDisk { target, span, each });
        let at = at.plus(draw.rounds(0, 200));
        let down = draw.rounds(2, 100);
        let target = draw.target();
        draw.add(at, Fault::Crash { target, disk, reboot, down });
    } else {
        let down = draw.rounds(2, 300);
        draw.add(at, Fault::Crash { target, disk, reboot, down });
    }
}
