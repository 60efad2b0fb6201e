//! How busy the server is, and how often it wants to be told that sessions live.
//!
//! It measures how late it is itself: a task that wants to run every quarter of a second, and does not. The later, the rarer the
//! heartbeats that it asks for, up to a third of the usual; but never rarer than the leases that ride on them allow.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baton_election::lease::renewal_interval;
use baton_election::time::Span;

use super::Sessions;

/// How often an agent shows that it lives, if nothing speaks against it.
const USUAL: Span = Span::secs(5);
/// Up to how much later, at random, so that not all come at once.
const JITTER: Span = Span::secs(1);
/// After how many that were missed a session is forgotten.
pub(super) const MISSED: u64 = 3;
/// How much rarer at most.
const STRETCH: u64 = 3;
/// The longest that a session can be silent.
pub(super) const LONGEST: Span = Span::secs(3 * (3 * 5 + 1));
/// To be late by less is usual.
const LATE: Duration = Duration::from_millis(20);
/// To be late by more is to be as busy as one can be.
const VERY_LATE: Duration = Duration::from_millis(200);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(250);

/// How late the server was lately.
#[derive(Default)]
pub(super) struct Load {
    late_us: AtomicU64,
}

/// When the next heartbeat is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeartbeatInterval {
    pub(super) after: Span,
    pub(super) jitter: Span,
}

impl HeartbeatInterval {
    /// How long a session may be silent that was told this.
    pub(super) fn lasts(self) -> Span {
        self.after.plus(self.jitter).scaled(MISSED, 1)
    }
}

impl Load {
    /// When the next heartbeat of a session is wanted on which leases ride, the shortest of them this long.
    pub(super) fn wanted(&self, shortest: Option<Span>) -> HeartbeatInterval {
        wanted(Duration::from_micros(self.late_us.load(Ordering::Relaxed)), shortest)
    }

    /// What is past counts ever less.
    fn was_late(&self, by: Duration) {
        let before = self.late_us.load(Ordering::Relaxed);
        let now = u64::try_from(by.as_micros()).unwrap_or(u64::MAX).min(10_000_000);
        self.late_us.store((before * 3 + now) / 4, Ordering::Relaxed);
    }
}

fn wanted(late: Duration, shortest: Option<Span>) -> HeartbeatInterval {
    let over = late.clamp(LATE, VERY_LATE) - LATE;
    let more = u64::try_from(over.as_micros()).unwrap_or(0) * (STRETCH - 1);
    let whole = u64::try_from((VERY_LATE - LATE).as_micros()).unwrap_or(1);
    let after = USUAL.scaled(whole + more, whole);
    match shortest.map(renewal_interval) {
        None => HeartbeatInterval { after, jitter: JITTER },
        Some(third) => {
            let jitter = JITTER.min(third.scaled(1, 5));
            HeartbeatInterval { after: after.min(third.minus(jitter)), jitter }
        }
    }
}

/// Looks for ever how late it is.
pub(super) async fn measure(sessions: Weak<Sessions>) {
    loop {
        let begun = Instant::now();
        tokio::time::sleep(LOOK).await;
        let Some(sessions) = sessions.upgrade() else { return };
        sessions.load.was_late(begun.elapsed().saturating_sub(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_leisure_wants_what_is_usual() {
        let wanted = wanted(Duration::from_millis(5), None);
        assert_eq!(wanted, HeartbeatInterval { after: USUAL, jitter: JITTER });
    }

    #[test]
    fn a_busy_one_wants_fewer_as_far_as_the_leases_allow() {
        assert_eq!(wanted(Duration::from_secs(9), None).after, Span::secs(15));
        assert_eq!(wanted(Duration::from_millis(110), None).after, Span::secs(10));
        for ttl in [1, 2, 10, 15, 30, 60].map(Span::secs) {
            for late in [0, 100, 1_000].map(Duration::from_millis) {
                let wanted = wanted(late, Some(ttl));
                assert!(wanted.after.plus(wanted.jitter) <= renewal_interval(ttl), "{ttl} {late:?}");
                assert!(wanted.after > Span::millis(200), "{ttl} {late:?}: {wanted:?}");
                assert!(wanted.lasts() <= LONGEST);
            }
        }
    }

    #[test]
    fn lateness_fades() {
        let load = Load::default();
        for _ in 0..30 {
            load.was_late(Duration::from_secs(1));
        }
        assert_eq!(load.wanted(None).after, Span::secs(15));
        for _ in 0..60 {
            load.was_late(Duration::ZERO);
        }
        assert_eq!(load.wanted(None).after, USUAL);
    }
}
