//! The arithmetic of a lease, for clocks that drift.
//!
//! Assumes that no clock's rate differs from true time by more than ρ = 1 %. Guarantees that a holder that stops at
//! its [deadline](Margins::deadline) has stopped before any observer, whose clock drifts as far the other way, has waited for the
//! length of the lease. Does not cover a clock outside of that bound, a machine that is suspended between a check
//! and an act, or work that goes on after its deadline: for those there are fences.

use crate::time::{Moment, Span};

/// The shortest lease.
pub const MIN_TTL: Span = Span::secs(1);
/// The longest lease.
pub const MAX_TTL: Span = Span::secs(7 * 24 * 3_600);
/// The longest time in which an offer can be claimed.
pub const MAX_OFFER: Span = Span::secs(5);
/// The shortest.
pub const MIN_OFFER: Span = Span::millis(250);

/// How far clocks may drift, and what is kept in reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Margins {
    /// ρ, in thousandths.
    pub drift_permille: u64,
    /// The largest guard.
    pub guard_cap: Span,
}

impl Margins {
    /// What Baton uses: ρ = 1 %, a guard of at most 200 ms.
    pub const STANDARD: Margins = Margins { drift_permille: 10, guard_cap: Span::millis(200) };

    /// The holder's deadline: `asked_at + ttl·(1−ρ)/(1+ρ) − guard`, on the holder's own clock.
    ///
    /// `asked_at` was taken before the first attempt of the request that was granted; retries keep it.
    pub fn deadline(&self, asked_at: Moment, ttl: Span) -> Moment {
        asked_at + self.usable(ttl)
    }

    /// How much of a lease its holder may use.
    pub fn usable(&self, ttl: Span) -> Span {
        assert!(self.drift_permille < 1_000);
        let guard = self.guard_cap.min(ttl.scaled(1, 10));
        ttl.scaled(1_000 - self.drift_permille, 1_000 + self.drift_permille).minus(guard)
    }
}

/// How long an offer of a lease of `ttl` can be claimed: several who do not answer, one after the other, shall not leave the
/// election vacant for longer than a lease. In whole milliseconds, as ages are judged.
pub fn offer(ttl: Span) -> Span {
    ttl.scaled(1, 8).whole_millis().max(MIN_OFFER).min(MAX_OFFER)
}

/// When to renew, after the last renewal was asked for: early enough for two more tries.
pub fn renewal_interval(ttl: Span) -> Span {
    ttl.scaled(1, 3)
}

/// The time that a command gets between SIGTERM and SIGKILL if nobody says otherwise.
pub fn default_grace(ttl: Span) -> Span {
    Span::secs(5).min(ttl.scaled(1, 4))
}

/// The longest grace that leaves enough of the lease to work in.
pub fn max_grace(ttl: Span) -> Span {
    ttl.scaled(1, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_is_the_design_s() {
        let asked = Moment::from_nanos(5);
        let usable = Margins::STANDARD.usable(Span::secs(30));
        assert_eq!(usable, Span::secs(30).scaled(990, 1_010).minus(Span::millis(200)));
        assert_eq!(Margins::STANDARD.deadline(asked, Span::secs(30)), asked + usable);
        assert_eq!(
            Margins::STANDARD.usable(Span::secs(1)),
            Span::secs(1).scaled(990, 1_010).minus(Span::millis(100))
        );
    }

    #[test]
    fn a_slow_holder_stops_before_a_fast_observer_has_waited() {
        for ttl in [1_000, 1_001, 2_000, 30_000, 604_800_000].map(Span::millis) {
            let true_time_of_holder = Margins::STANDARD.usable(ttl).scaled(1_000, 990);
            let true_time_of_observer = ttl.scaled(1_000, 1_010);
            assert!(true_time_of_holder < true_time_of_observer, "{ttl}");
        }
    }

    #[test]
    fn graces_and_offers_are_bounded() {
        assert_eq!(default_grace(Span::secs(30)), Span::secs(5));
        assert_eq!(default_grace(Span::secs(1)), Span::millis(250));
        assert!(default_grace(Span::secs(2)) < max_grace(Span::secs(2)));
        assert_eq!(offer(MIN_TTL), MIN_OFFER);
        assert_eq!(offer(Span::secs(8)), Span::secs(1));
        assert_eq!(offer(Span::millis(2_500)), Span::millis(312));
        assert_eq!(offer(Span::secs(60)), MAX_OFFER);
    }
}
