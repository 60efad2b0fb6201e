//! The server's clock, which notices when the server itself stood still.
//!
//! While it stands still, renewals wait unread. So every stall, and every start, gives each lease its full length anew: a
//! lease's age counts from its last beat or from the last stall, whichever is later.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_election::time::{Moment, Span};
use baton_store::boot;

/// Who does not look at the clock for longer than this has stood still.
const STALL: Span = Span::secs(1);
/// How often the clock is looked at if nothing else happens.
const TICK: Duration = Duration::from_millis(200);

/// The clock of one server.
pub(super) struct Pacemaker {
    looked_at: AtomicU64,
    /// No lease is older than this.
    fresh_since: AtomicU64,
    stalls: AtomicU64,
}

impl Pacemaker {
    /// A clock that starts now.
    pub(super) fn start() -> Pacemaker {
        let now = boot::now().as_nanos();
        Pacemaker {
            looked_at: AtomicU64::new(now),
            fresh_since: AtomicU64::new(now),
            stalls: AtomicU64::new(0),
        }
    }

    /// The time. Whoever asks for it first after a stall notices.
    pub(super) fn now(&self) -> Moment {
        let now = boot::now();
        self.look(now);
        now
    }

    fn look(&self, now: Moment) {
        let before = Moment::from_nanos(self.looked_at.load(Ordering::Acquire));
        if now.since(before) > STALL {
            self.fresh_since.fetch_max(now.as_nanos(), Ordering::AcqRel);
        }
    }

    /// Only the task that ticks moves the hand, since others may be served while it is not. What was missed is noted first.
    fn move_to(&self, now: Moment) {
        let before = Moment::from_nanos(self.looked_at.load(Ordering::Acquire));
        if now.since(before) > STALL {
            self.stalls.fetch_add(1, Ordering::Relaxed);
        }
        self.look(now);
        self.looked_at.fetch_max(now.as_nanos(), Ordering::AcqRel);
    }

    /// How often the server stood still.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// A lower bound on the time since a beat that was stamped by this clock.
    pub(super) fn age(&self, stamp: Moment, now: Moment) -> Span {
        let fresh_since = Moment::from_nanos(self.fresh_since.load(Ordering::Acquire));
        now.since(stamp.max(fresh_since))
    }

    /// Looks at the clock for ever.
    pub(super) async fn tick(&self) {
        loop {
            tokio::time::sleep(TICK).await;
            self.move_to(boot::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_gives_leases_their_full_length() {
        let clock = Pacemaker::start();
        let start = boot::now();
        clock.move_to(start + Span::millis(900));
        assert_eq!(clock.age(start, start + Span::millis(900)), Span::millis(900));
        let late = start + Span::millis(2_000);
        clock.look(late);
        clock.move_to(late);
        assert_eq!(clock.age(start, late), Span::ZERO, "it stood still for 1.1 s");
        assert_eq!(clock.stalls(), 1);
        assert_eq!(clock.age(start, late + Span::millis(500)), Span::millis(500));
        assert_eq!(clock.age(late + Span::millis(100), late + Span::millis(500)), Span::millis(400));
    }

    #[test]
    fn nothing_is_older_than_the_start() {
        let long_ago = Moment::from_nanos(0);
        let clock = Pacemaker::start();
        assert!(clock.age(long_ago, clock.now()) < Span::secs(1));
    }
}
