//! How often a leader is heard, and how long its silence is borne.

use core::fmt;

use baton_election::{Margins, Moment, Span};

use crate::Random;

/// The rhythm of a group. **All members must have the same**: a voter's patience is a promise that the leader counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timing {
    /// From one heartbeat of the leader to the next.
    pub heartbeat: Span,
    /// A voter that heard the leader votes for nobody else for so long. The leader's lease is counted from it.
    pub timeout_min: Span,
    /// Each member draws its own patience from `timeout_min` to this.
    pub timeout_max: Span,
    /// How much clocks may drift apart, and the safety margin at the end of a lease.
    pub margins: Margins,
}

impl Timing {
    /// For agents: heartbeats every 5 s, silence of 15 to 20 s.
    pub const AGENTS: Timing = Timing {
        heartbeat: Span::secs(5),
        timeout_min: Span::secs(15),
        timeout_max: Span::secs(20),
        margins: Margins::STANDARD,
    };

    /// For machines on one network: heartbeats every 50 ms, silence of 150 to 300 ms.
    pub const LAN: Timing = Timing {
        heartbeat: Span::millis(50),
        timeout_min: Span::millis(150),
        timeout_max: Span::millis(300),
        margins: Margins::STANDARD,
    };

    /// Refuses a rhythm in which one lost heartbeat ends a leadership, or in which all lose patience at once.
    pub fn check(&self) -> Result<(), InvalidTiming> {
        if self.heartbeat < Span::millis(1) {
            return Err(InvalidTiming::TooFast);
        }
        if self.margins.usable(self.timeout_min) < self.heartbeat.scaled(2, 1) {
            return Err(InvalidTiming::Impatient);
        }
        if self.timeout_max < self.timeout_min.scaled(5, 4) {
            return Err(InvalidTiming::AllAtOnce);
        }
        Ok(())
    }

    /// How long this member bears silence this time.
    pub fn patience(&self, random: &mut Random) -> Span {
        Span::nanos(random.between(self.timeout_min.as_nanos(), self.timeout_max.as_nanos()))
    }

    /// For how long a member that has just started neither votes nor stands: until every promise that it may have given has ended, and until nobody
    /// counts a vote any more that it may have given, even if its clock runs fast and theirs slow.
    pub fn quarantine(&self) -> Span {
        let drift = self.margins.drift_permille;
        self.timeout_max.scaled(1_000 + drift, 1_000_u64.saturating_sub(drift).max(1))
    }

    /// Until when a leader may act whose round of heartbeats, sent at that moment, a majority has answered.
    pub fn lease_until(&self, sent: Moment) -> Moment {
        self.margins.deadline(sent, self.timeout_min)
    }
}

/// A rhythm in which a group could not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidTiming {
    /// Less than a millisecond between two heartbeats.
    TooFast,
    /// The lease ends before a second heartbeat could be answered.
    Impatient,
    /// The timeouts lie so close together that all members stand for election at the same moment.
    AllAtOnce,
}

impl fmt::Display for InvalidTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidTiming::TooFast => "heartbeats must be at least 1ms apart",
            InvalidTiming::Impatient => {
                "the shortest timeout must be about two and a half heartbeats or more"
            }
            InvalidTiming::AllAtOnce => {
                "the longest timeout must be at least a quarter longer than the shortest"
            }
        })
    }
}

impl core::error::Error for InvalidTiming {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_are_sound() {
        assert_eq!(Timing::AGENTS.check(), Ok(()));
        assert_eq!(Timing::LAN.check(), Ok(()));
    }

    #[test]
    fn unsound_rhythms_are_refused() {
        let lan = Timing::LAN;
        assert_eq!(Timing { heartbeat: Span::nanos(10), ..lan }.check(), Err(InvalidTiming::TooFast));
        assert_eq!(Timing { heartbeat: Span::millis(70), ..lan }.check(), Err(InvalidTiming::Impatient));
        assert_eq!(Timing { timeout_max: Span::millis(160), ..lan }.check(), Err(InvalidTiming::AllAtOnce));
    }

    #[test]
    fn a_lease_ends_before_the_most_impatient_voter_even_if_clocks_drift() {
        let lan = Timing::LAN;
        let until = lan.lease_until(Moment::from_nanos(0)).since(Moment::from_nanos(0));
        // The leader's clock runs 1 % slow, the voter's 1 % fast.
        assert!(until.scaled(101, 99) < lan.timeout_min);
        assert!(until > lan.heartbeat.scaled(2, 1));
    }
}
