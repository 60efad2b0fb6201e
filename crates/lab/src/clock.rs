//! A member's clocks, as functions of true time.
//!
//! The *boot clock* is what machines and leases count on: it runs at its own rate, which may change but differs from true
//! time by at most ρ, and it never goes back nor jumps while its machine is up; a reboot begins another one. The *wall clock*
//! is the boot clock plus an offset that may jump either way at any time: it is only shown to people, and a jump of it must
//! change nothing.

use baton_election::{Moment, WallTime};

/// Parts per million of one part in 2^40.
const SCALE: i128 = 1 << 40;

/// The clocks of one machine.
#[derive(Debug, Clone)]
pub(crate) struct HostClock {
    /// True time and boot time at the last change of the rate.
    anchor: (u64, u64),
    /// How much faster than true time, in 2^-40.
    drift: i64,
    /// Milliseconds from the boot clock to the wall clock.
    wall_ms: i64,
}

impl HostClock {
    /// A clock that shows `boot` at `now`, and runs faster than true time by that much.
    pub(crate) fn new(now: u64, boot: u64, drift_ppm: i32) -> HostClock {
        HostClock { anchor: (now, boot), drift: fixed(drift_ppm), wall_ms: 1_700_000_000_000 }
    }

    /// What the boot clock shows.
    pub(crate) fn at(&self, now: u64) -> Moment {
        Moment::from_nanos(self.nanos(now))
    }

    fn nanos(&self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.anchor.0);
        let gained = (i128::from(elapsed) * i128::from(self.drift)) >> 40;
        let gained = i64::try_from(gained).unwrap_or(i64::MAX);
        (self.anchor.1 + elapsed).saturating_add_signed(gained)
    }

    /// The first instant of true time at which the boot clock shows that moment or a later one.
    pub(crate) fn when(&self, moment: Moment) -> u64 {
        let wanted = moment.as_nanos();
        let Some(ahead) = wanted.checked_sub(self.anchor.1) else { return self.anchor.0 };
        if ahead > 1 << 60 {
            return u64::MAX;
        }
        let true_span = i128::from(ahead) * SCALE / (SCALE + i128::from(self.drift));
        let mut guess = self.anchor.0 + u64::try_from(true_span).unwrap_or(0);
        while guess > self.anchor.0 && self.nanos(guess - 1) >= wanted {
            guess -= 1;
        }
        while self.nanos(guess) < wanted {
            guess += 1;
        }
        guess
    }

    /// From here on the clock runs at another rate.
    pub(crate) fn set_rate(&mut self, now: u64, drift_ppm: i32) {
        self.anchor = (now, self.nanos(now));
        self.drift = fixed(drift_ppm);
    }

    /// What the wall clock shows.
    pub(crate) fn wall(&self, now: u64) -> WallTime {
        let boot_ms = self.nanos(now) / 1_000_000;
        WallTime::from_unix_millis(boot_ms.saturating_add_signed(self.wall_ms))
    }

    /// Moves the wall clock.
    pub(crate) fn jump_wall(&mut self, by_ms: i64) {
        self.wall_ms = self.wall_ms.saturating_add(by_ms);
    }
}

fn fixed(drift_ppm: i32) -> i64 {
    i64::try_from(i128::from(drift_ppm) * SCALE / 1_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_kept_and_inverted() {
        for ppm in [-10_000, -1, 0, 1, 10_000] {
            let mut clock = HostClock::new(1_000, 5_000_000, ppm);
            clock.set_rate(2_000_000_000, ppm);
            let second = clock.at(3_000_000_000).since(clock.at(2_000_000_000)).as_nanos();
            let exact = 1_000_000_000_i64 + i64::from(ppm) * 1_000;
            assert!(second.abs_diff(u64::try_from(exact).unwrap()) <= 1, "{ppm}: {second}");
            for nanos in [5_000_000_u64, 2_000_000_001, 3_333_333_333, 90_000_000_000_000] {
                let moment = Moment::from_nanos(nanos);
                let when = clock.when(moment);
                assert!(clock.at(when) >= moment, "{ppm} {nanos}");
                assert!(when == clock.anchor.0 || clock.at(when - 1) < moment, "{ppm} {nanos}");
            }
        }
    }

    #[test]
    fn the_wall_jumps_and_the_boot_clock_does_not() {
        let mut clock = HostClock::new(0, 7, 0);
        let before = clock.at(100);
        let wall = clock.wall(100);
        clock.jump_wall(-3_600_000);
        assert_eq!(clock.at(100), before);
        assert_eq!(wall.as_unix_millis() - clock.wall(100).as_unix_millis(), 3_600_000);
    }
}
