//! What a leader must have and show to be of use, as far as a policy says so: verdicts on its output, what it depends on, and circuit breakers
//! that are not open.
//!
//! Guarantees that poor performance ends a leadership only by as many bad verdicts as the policy says, and, if its predecessor was ended for the same, only
//! after the cool-off as the leader: so that judges who like nobody do not make leadership flap. The same of an open breaker. Time is counted as
//! every limit is, at renewals.
//!
//! Breakers are records beside the document. Assumes that who commits the decision has looked at them just before; what is not looked at is refused.
//! Does not guarantee that nobody leads whose breaker opened between the look and the commit: two records are not swapped at once.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::document::{Cause, Document, Leader};
use crate::name::AgentName;
use crate::policy::{MAX_CAPABILITY_BYTES, MAX_LIMIT, Policy};
use crate::refusal::{NOT_LOOKED_AT, OPEN_BREAKER, Refusal};
use crate::time::Span;

/// The most verdicts that are looked back at.
pub const MAX_VERDICTS: u8 = 32;
/// After what time who was refused since nobody had looked at its breakers asks again.
const LOOK_AGAIN: Span = Span::millis(100);

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
    /// What an open one bars its agent from.
    #[serde(default, skip_serializing_if = "Bars::is_usual")]
    pub bars: Bars,
}

fn is_first(generation: &u64) -> bool {
    *generation == 0
}

/// What an open circuit breaker bars its agent from, beside tasks of its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Bars {
    /// Nothing more.
    #[default]
    Tasks,
    /// Becoming the leader.
    Candidacy,
    /// That, and staying it.
    Leadership,
}

impl Bars {
    /// Whether it is what every election has that nobody gave another.
    pub fn is_usual(&self) -> bool {
        *self == Bars::Tasks
    }
}

impl fmt::Display for Bars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Bars::Tasks => "tasks",
            Bars::Candidacy => "candidacy",
            Bars::Leadership => "leadership",
        })
    }
}

impl FromStr for Bars {
    type Err = String;
    fn from_str(text: &str) -> Result<Bars, String> {
        match text {
            "tasks" => Ok(Bars::Tasks),
            "candidacy" => Ok(Bars::Candidacy),
            "leadership" => Ok(Bars::Leadership),
            _ => Err(format!("`{text}` is nothing that a breaker bars; use tasks, candidacy or leadership")),
        }
    }
}

/// A circuit breaker that is open, as who commits the decision has just seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBreaker {
    /// For what.
    pub capability: String,
    /// After how many failures in a row.
    pub failures: u64,
    /// The last of them, in words.
    pub reason: String,
    /// For how much longer.
    pub left: Span,
}

impl fmt::Display for OpenBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpenBreaker { capability, failures, reason, .. } = self;
        write!(f, "{OPEN_BREAKER} `{capability}` is open after {failures} failures in a row ({reason})")
    }
}

impl Policy {
    /// Whether the policy looks at a candidate's circuit breakers.
    pub fn looks_at_breakers(&self) -> bool {
        self.breakers.as_ref().is_some_and(|breakers| !breakers.bars.is_usual())
    }

    /// Which of an agent's open breakers bars it from leading, the longest if there are several: of what the policy needs of a leader, or of
    /// anything if it needs nothing.
    pub fn barring<'a>(&self, open: &'a [OpenBreaker]) -> Option<&'a OpenBreaker> {
        let counts = |open: &&OpenBreaker| self.needs.is_empty() || self.needs.contains(&open.capability);
        open.iter().filter(|_| self.looks_at_breakers()).filter(counts).max_by_key(|open| open.left)
    }
}

/// Refuses who wants to lead and has an open breaker, where the policy says so.
pub(crate) fn admit(policy: &Policy, open: Option<&[OpenBreaker]>) -> Result<(), Refusal> {
    if !policy.looks_at_breakers() {
        return Ok(());
    }
    let Some(open) = open else {
        return Err(Refusal::NotEligible { why: NOT_LOOKED_AT.to_string(), retry_in: Some(LOOK_AGAIN) });
    };
    match policy.barring(open) {
        Some(open) => Err(Refusal::NotEligible { why: open.to_string(), retry_in: Some(open.left) }),
        None => Ok(()),
    }
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
    /// The last checkpoint that each of them judged, by its number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judged: BTreeMap<AgentName, u64>,
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

    /// Whether this judge gave its verdict on a checkpoint, or on a later one.
    pub fn is_judged(&self, judge: &AgentName, checkpoint: u64) -> bool {
        self.judged.get(judge).is_some_and(|last| checkpoint <= *last)
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

/// Whether the verdicts on a leader end its leadership.
pub(crate) fn judged(document: &Document, leader: &Leader, age: Span) -> bool {
    let Some(performance) = &document.policy.performance else { return false };
    leader.verdicts.bad_of(performance.of) >= u32::from(performance.bad)
        && !is_spared(document, leader, age, Cause::Validation, performance.cool_off)
}

/// Which open breaker of the leader ends its leadership, if one does.
pub(crate) fn broken<'a>(
    document: &Document,
    leader: &Leader,
    age: Span,
    open: &'a [OpenBreaker],
) -> Option<&'a OpenBreaker> {
    let breakers = document.policy.breakers.as_ref().filter(|breakers| breakers.bars == Bars::Leadership)?;
    let open = document.policy.barring(open)?;
    (!is_spared(document, leader, age, Cause::Breaker, breakers.cool_off)).then_some(open)
}

/// Whether a leader cannot be ended for this yet, since its predecessor was and it has not led for the cool-off. Its time as the leader includes
/// that since its last renewal.
fn is_spared(document: &Document, leader: &Leader, age: Span, cause: Cause, cool_off: Span) -> bool {
    let follows_one = document.last_transition.as_ref().is_some_and(|last| last.cause == cause);
    follows_one && leader.held.plus(age) < cool_off
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
    fn an_open_breaker_bars_as_the_policy_says() {
        let open = |capability: &str, seconds| OpenBreaker {
            capability: capability.to_string(),
            failures: 3,
            reason: "no compiler".to_string(),
            left: Span::secs(seconds),
        };
        let policy = |bars, needs: &[&str]| Policy {
            breakers: Some(Breakers {
                failures: 3,
                cool_off: Span::secs(60),
                probes: 1,
                generation: 0,
                bars,
            }),
            needs: needs.iter().map(ToString::to_string).collect(),
            ..Policy::default()
        };
        let two = [open("rust", 20), open("*", 40)];
        for bars in [Bars::Candidacy, Bars::Leadership] {
            assert_eq!(admit(&policy(bars, &[]), Some(&[])), Ok(()));
            let refused = admit(&policy(bars, &[]), Some(&two)).unwrap_err();
            assert_eq!(
                refused,
                Refusal::NotEligible { why: two[1].to_string(), retry_in: Some(Span::secs(40)) },
                "the one that lasts longest"
            );
            assert!(refused.hint().contains("baton breaker"), "{}", refused.hint());
            assert_eq!(policy(bars, &["rust"]).barring(&two), Some(&two[0]), "what a leader needs");
            assert_eq!(admit(&policy(bars, &["go"]), Some(&two)), Ok(()));
            assert!(admit(&policy(bars, &[]), None).unwrap_err().asks_for_breakers());
        }
        assert_eq!(admit(&policy(Bars::Tasks, &[]), Some(&two)), Ok(()));
        assert_eq!(admit(&policy(Bars::Tasks, &[]), None), Ok(()), "nobody looks where nothing comes of it");
        assert_eq!(admit(&Policy::default(), Some(&two)), Ok(()));
        for bars in [Bars::Tasks, Bars::Candidacy, Bars::Leadership] {
            assert_eq!(bars.to_string().parse(), Ok(bars));
        }
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
