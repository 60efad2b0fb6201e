//! What a leader must have and show to be of use, as far as a policy says so: verdicts on its output, and what it depends on.
//!
//! Guarantees that poor performance ends a leadership only by as many bad verdicts as the policy says, and, if its predecessor was ended for the same, only
//! after the cool-off as the leader: so that judges who like nobody do not make leadership flap. Time is counted as every limit is, at renewals.

use alloc::collections::BTreeMap;
use alloc::format;

use serde::{Deserialize, Serialize};

use crate::document::{Cause, Document, Leader};
use crate::name::AgentName;
use crate::policy::{MAX_CAPABILITY_BYTES, MAX_LIMIT};
use crate::refusal::Refusal;
use crate::time::Span;

/// The most verdicts that are looked back at.
pub const MAX_VERDICTS: u8 = 32;

/// From which verdicts on a leadership ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Performance {
    /// So many bad ones,
    pub bad: u8,
    /// of the last so many.
    pub of: u8,
    /// For how long whoever was ended so is barred from an election that is free, and how long its successor leads at least before it can be ended
    /// so, too.
    pub cool_off: Span,
}

impl Performance {
    /// Refuses what could never be, or would end every leadership.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.bad == 0 || self.bad > self.of || self.of > MAX_VERDICTS {
            return Err(Refusal::invalid(
                format!("{} bad verdicts of the last {} cannot be counted", self.bad, self.of),
                format!("ask for at least 1, of at most {MAX_VERDICTS}, such as 3/5"),
            ));
        }
        check_cool_off(self.cool_off)
    }
}

/// When an agent that fails at what takes a capability is told to do no more of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Breakers {
    /// After so many failures in a row,
    pub failures: u8,
    /// for so long;
    pub cool_off: Span,
    /// then so many more are tried.
    pub probes: u8,
    /// Rises when an operator resets all breakers of the election.
    #[serde(default, skip_serializing_if = "is_first")]
    pub generation: u64,
}

fn is_first(generation: &u64) -> bool {
    *generation == 0
}

impl Breakers {
    /// Refuses what would bar everybody, or nobody.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.failures == 0 || self.probes == 0 {
            return Err(Refusal::invalid(
                "a circuit breaker opens after at least one failure, and lets at least one probe through",
                "such as 3 failures and 1 probe",
            ));
        }
        check_cool_off(self.cool_off)
    }
}

fn check_cool_off(cool_off: Span) -> Result<(), Refusal> {
    if cool_off < Span::secs(1) || cool_off > MAX_LIMIT || cool_off != cool_off.whole_millis() {
        return Err(Refusal::invalid(
            format!("a cool-off of {cool_off}; it is at least 1s, in whole milliseconds"),
            "minutes are usual",
        ));
    }
    Ok(())
}

/// What was said of a leader's output, since it was granted the leadership.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdicts {
    /// How many verdicts there were.
    pub given: u64,
    /// Which of the last 32 were bad: the lowest bit is the last one.
    pub bad: u32,
    /// How many each judge gave that may still judge. Each numbers its own, so that one that is told again is known, whoever else speaks
    /// meanwhile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by: BTreeMap<AgentName, u64>,
}

impl Verdicts {
    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        *self == Verdicts::default()
    }

    /// How many of the last so many were bad.
    pub fn bad_of(&self, last: u8) -> u32 {
        let mask = if last >= MAX_VERDICTS { u32::MAX } else { (1 << last) - 1 };
        (self.bad & mask).count_ones()
    }

    /// How many this judge gave.
    pub fn given_by(&self, judge: &AgentName) -> u64 {
        self.by.get(judge).copied().unwrap_or(0)
    }

    /// With one more.
    #[must_use]
    pub fn and(mut self, judge: &AgentName, bad: bool) -> Verdicts {
        self.given = self.given.saturating_add(1);
        self.bad = (self.bad << 1) | u32::from(bad);
        let own = self.by.entry(judge.clone()).or_insert(0);
        *own = own.saturating_add(1);
        self
    }
}

/// Whether the verdicts on a leader end its leadership. Its time as the leader includes that since its last renewal.
pub(crate) fn judged(document: &Document, leader: &Leader, age: Span) -> bool {
    let Some(performance) = &document.policy.performance else { return false };
    let follows_one = document.last_transition.as_ref().is_some_and(|last| last.cause == Cause::Validation);
    let led = leader.held.plus(age);
    leader.verdicts.bad_of(performance.of) >= u32::from(performance.bad)
        && (!follows_one || led >= performance.cool_off)
}

/// Refuses what is no name of something that an agent depends on.
pub fn check_dependency(name: &str) -> Result<(), Refusal> {
    let printable = name.chars().all(|c| c.is_ascii_graphic());
    if name.is_empty() || name.len() > MAX_CAPABILITY_BYTES || !printable {
        return Err(Refusal::invalid(
            format!("`{}` is no name of a dependency", name.escape_debug()),
            "use 1 to 64 visible ASCII characters, such as db or api:search",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_verdicts_count() {
        let (mut verdicts, judge) = (Verdicts::default(), AgentName::new("w").unwrap());
        for bad in [true, true, false, true, false] {
            verdicts = verdicts.and(&judge, bad);
        }
        assert_eq!(
            (verdicts.given, verdicts.bad_of(5), verdicts.bad_of(3), verdicts.bad_of(1)),
            (5, 3, 1, 0)
        );
        for _ in 0..40 {
            verdicts = verdicts.and(&judge, true);
        }
        assert_eq!((verdicts.given, verdicts.given_by(&judge)), (45, 45));
        assert_eq!((verdicts.given, verdicts.bad_of(MAX_VERDICTS), verdicts.bad_of(255)), (45, 32, 32));
    }

    #[test]
    fn a_rule_that_cannot_be_kept_is_refused() {
        let rule = |bad, of, cool_off| Performance { bad, of, cool_off }.check().is_ok();
        assert!(rule(1, 1, Span::secs(1)) && rule(3, 5, Span::secs(600)) && rule(32, 32, Span::secs(1)));
        assert!(
            !rule(0, 5, Span::secs(600)) && !rule(6, 5, Span::secs(600)) && !rule(1, 33, Span::secs(600))
        );
        assert!(!rule(1, 1, Span::ZERO) && !rule(1, 1, Span::nanos(1_500_000_001)));
        assert!(!rule(1, 1, MAX_LIMIT.plus(Span::secs(1))));
    }
}
