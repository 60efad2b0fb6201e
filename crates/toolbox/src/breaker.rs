//! Circuit breakers: an agent that fails again and again at what takes a capability is not told to do more of it for a while.
//!
//! One breaker is one record, of one agent and one capability. It is *closed* while all is well; so many failures in a row open it; while it is *open* nothing
//! is assigned that takes the capability. After the cool-off it is *half-open*: as many probes are let through as the policy says, the first success closes it and a failure opens it
//! anew. Probes of which nothing is heard are let through again after another cool-off, so that nobody is barred for ever by a task that was taken back.
//! Time is the record's age, as with quotas: no clock decides. Each failure is known by its task and attempt, so that one that is told twice counts
//! once. Does not guarantee that every failure counts: a task and its breakers are several records.
//!
//! Where the policy says so, who has an open one does not lead either. Only *open* bars from that, from the last failure until the cool-off is over: who is
//! half-open may lead, whether its probes are under way or not, since it has not failed again.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use baton_election::removal_rules::{Breakers, OpenBreaker};
use baton_election::time::WallTime;
use baton_election::{AgentName, ContentHash, ElectionName, ItemName, Refusal, Span};
use serde::{Deserialize, Serialize};

use crate::bounds::MAX_NOTE_BYTES;

/// What stands for the capability of tasks that need none.
pub const ANYTHING: &str = "*";
/// How many of the last failures are told from new ones.
const REMEMBERED: usize = 16;

/// How a breaker stands when it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Circuit {
    /// All is well.
    #[default]
    Closed,
    /// It has failed too often.
    Open,
    /// It is being tried again.
    Probing,
}

/// The state of a breaker at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// All is well.
    Closed,
    /// Nothing is assigned for so long.
    Open(Span),
    /// So many probes are let through.
    HalfOpen(u8),
}

/// A failure that was counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    /// At which task.
    pub task: ItemName,
    /// In which attempt at it.
    pub attempt: u64,
}

/// The breaker of an agent and a capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Breaker {
    /// Of which election.
    pub election: ElectionName,
    /// By what it is known: what agent and capability come to.
    pub name: ItemName,
    /// Whose.
    pub agent: AgentName,
    /// For what; `*` for tasks that need nothing.
    pub capability: String,
    /// How it stands, as it was written.
    pub circuit: Circuit,
    /// Failures in a row.
    pub failures: u64,
    /// How often its clock was restarted: when it opened, and when probes were let through.
    pub turns: u64,
    /// How many probes were let through since then.
    #[serde(default)]
    pub probes: u8,
    /// Of which generation of the policy's breakers; what is of an older one counts no more.
    #[serde(default)]
    pub generation: u64,
    /// The last failures, so that none counts twice.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// Why it failed last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When it was last written, for people.
    pub at: WallTime,
}

/// A write of a breaker, and whether its clock restarts with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerWrite {
    /// The breaker.
    pub next: Breaker,
    /// Its clock restarts.
    pub restarts: bool,
}

/// Whose breaker, for what, under which rules, and when.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Of which election.
    pub election: &'a ElectionName,
    /// Whose.
    pub agent: &'a AgentName,
    /// For what.
    pub capability: &'a str,
    /// The policy's.
    pub rules: &'a Breakers,
    /// A lower bound on the time since the breaker's clock was restarted.
    pub age: Span,
    /// The wall clock, for people.
    pub wall: WallTime,
}

/// By what the breaker of an agent and a capability is known.
pub fn name_of(agent: &AgentName, capability: &str) -> ItemName {
    let text = format!("{agent}\n{capability}");
    let hash = baton_election::hex::encode(&ContentHash::of(text.as_bytes()).0[..12]);
    let Ok(name) = ItemName::new(&format!("b-{hash}")) else { unreachable!("digits are a name") };
    name
}

impl Breaker {
    /// Its state, given the age of its clock.
    pub fn state(&self, rules: &Breakers, age: Span) -> BreakerState {
        if self.generation != rules.generation {
            return BreakerState::Closed;
        }
        let left = rules.cool_off.minus(age);
        match self.circuit {
            Circuit::Closed => BreakerState::Closed,
            Circuit::Open | Circuit::Probing if left == Span::ZERO => BreakerState::HalfOpen(rules.probes),
            Circuit::Open => BreakerState::Open(left),
            Circuit::Probing => match rules.probes.saturating_sub(self.probes) {
                0 => BreakerState::Open(left),
                more => BreakerState::HalfOpen(more),
            },
        }
    }
}

impl Breaker {
    /// The open breaker, for a candidate or a leader; none if it is closed or being tried.
    pub fn open(&self, rules: &Breakers, age: Span) -> Option<OpenBreaker> {
        let left = rules.cool_off.minus(age);
        let open = self.circuit == Circuit::Open && self.generation == rules.generation && left > Span::ZERO;
        open.then(|| OpenBreaker {
            capability: self.capability.clone(),
            failures: self.failures,
            reason: self.reason.clone(),
            left,
        })
    }
}

impl Scope<'_> {
    fn fresh(&self) -> Breaker {
        Breaker {
            election: self.election.clone(),
            name: name_of(self.agent, self.capability),
            agent: self.agent.clone(),
            capability: self.capability.to_string(),
            circuit: Circuit::Closed,
            failures: 0,
            turns: 0,
            probes: 0,
            generation: self.rules.generation,
            counted: Vec::new(),
            reason: String::new(),
            at: self.wall,
        }
    }

    /// What is known of it, as far as it counts; its clock goes on, whatever it counts.
    fn known(&self, found: Option<&Breaker>) -> Breaker {
        match found {
            Some(found) if found.generation == self.rules.generation => found.clone(),
            Some(found) => Breaker { turns: found.turns, ..self.fresh() },
            None => self.fresh(),
        }
    }

    /// Whether something may be assigned that takes the capability. A probe is written, so that not too many are let through.
    pub fn admit(&self, found: Option<&Breaker>) -> Result<Option<BreakerWrite>, Refusal> {
        let Some(found) = found else { return Ok(None) };
        match found.state(self.rules, self.age) {
            BreakerState::Closed => Ok(None),
            BreakerState::Open(left) => Err(Refusal::NotEligible {
                why: format!(
                    "the circuit breaker of {} for `{}` is open after {} failures in a row ({})",
                    self.agent, self.capability, found.failures, found.reason
                ),
                retry_in: Some(left),
            }),
            BreakerState::HalfOpen(_) => {
                let begins = found.circuit == Circuit::Open || self.age >= self.rules.cool_off;
                let probes = if begins { 1 } else { found.probes.saturating_add(1) };
                let turns = found.turns + u64::from(begins);
                let next =
                    Breaker { circuit: Circuit::Probing, probes, turns, at: self.wall, ..found.clone() };
                Ok(Some(BreakerWrite { next, restarts: begins }))
            }
        }
    }

    /// A task failed that takes the capability. None if that was counted before.
    pub fn failed(&self, found: Option<&Breaker>, failure: Counted, reason: &str) -> Option<BreakerWrite> {
        let mut next = self.known(found);
        if next.counted.contains(&failure) {
            return None;
        }
        if next.counted.len() >= REMEMBERED {
            next.counted.remove(0);
        }
        next.counted.push(failure);
        next.failures = next.failures.saturating_add(1);
        next.reason = shortened(reason);
        next.at = self.wall;
        let opens = match next.circuit {
            Circuit::Closed => next.failures >= u64::from(self.rules.failures),
            Circuit::Probing => true,
            // What was assigned before it opened fails, too: it opened already.
            Circuit::Open => false,
        };
        if opens {
            (next.circuit, next.probes, next.turns) = (Circuit::Open, 0, next.turns + 1);
        }
        Some(BreakerWrite { next, restarts: opens })
    }

    /// A task succeeded that takes the capability. None if there is nothing to change: also while it is open, since only a probe closes it.
    pub fn succeeded(&self, found: Option<&Breaker>) -> Option<BreakerWrite> {
        let found = found.filter(|found| found.generation == self.rules.generation)?;
        match found.circuit {
            Circuit::Closed if found.failures == 0 => None,
            Circuit::Open => None,
            Circuit::Closed | Circuit::Probing => {
                let next = Breaker {
                    circuit: Circuit::Closed,
                    failures: 0,
                    probes: 0,
                    at: self.wall,
                    ..found.clone()
                };
                Some(BreakerWrite { next, restarts: false })
            }
        }
    }
}

fn shortened(reason: &str) -> String {
    let mut reason = reason.to_string();
    while reason.len() > MAX_NOTE_BYTES / 4 {
        reason.pop();
    }
    reason
}

#[cfg(test)]
mod tests {
    use baton_election::removal_rules::Bars;

    use super::*;

    const RULES: Breakers =
        Breakers { failures: 3, cool_off: Span::secs(60), probes: 2, generation: 0, bars: Bars::Tasks };

    struct Bench {
        found: Option<Breaker>,
        rules: Breakers,
        age: Span,
        attempts: u64,
    }

    impl Bench {
        fn new() -> Bench {
            Bench { found: None, rules: RULES, age: Span::ZERO, attempts: 0 }
        }

        fn with<T>(&self, act: impl FnOnce(&Scope<'_>) -> T) -> T {
            let (election, agent) = (ElectionName::new("e").unwrap(), AgentName::new("w").unwrap());
            act(&Scope {
                election: &election,
                agent: &agent,
                capability: "rust",
                rules: &self.rules,
                age: self.age,
                wall: WallTime::default(),
            })
        }

        fn write(&mut self, written: Option<BreakerWrite>) {
            if let Some(BreakerWrite { next, restarts }) = written {
                assert_eq!(restarts, self.found.as_ref().map_or(0, |found| found.turns) != next.turns);
                if restarts {
                    self.age = Span::ZERO;
                }
                self.found = Some(next);
            }
        }

        fn fail(&mut self) {
            self.attempts += 1;
            let failure = Counted { task: ItemName::new("t").unwrap(), attempt: self.attempts };
            let written = self.with(|scope| scope.failed(self.found.as_ref(), failure, "no"));
            assert!(written.is_some());
            self.write(written);
        }

        fn succeed(&mut self) {
            let written = self.with(|scope| scope.succeeded(self.found.as_ref()));
            self.write(written);
        }

        fn admits(&mut self) -> bool {
            match self.with(|scope| scope.admit(self.found.as_ref())) {
                Ok(written) => {
                    self.write(written);
                    true
                }
                Err(Refusal::NotEligible { retry_in: Some(left), .. }) => {
                    assert!(left > Span::ZERO && left <= self.rules.cool_off);
                    false
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn it_opens_after_so_many_failures_in_a_row_and_not_before() {
        let mut bench = Bench::new();
        for _ in 0..4 {
            bench.fail();
            bench.fail();
            assert!(bench.admits());
            bench.succeed();
        }
        for _ in 0..3 {
            assert!(bench.admits());
            bench.fail();
        }
        assert!(!bench.admits());
        bench.succeed();
        assert!(!bench.admits(), "what was begun before it opened does not close it");
    }

    #[test]
    fn after_the_cool_off_probes_are_let_through_and_one_success_closes_it() {
        let mut bench = Bench::new();
        (0..3).for_each(|_| bench.fail());
        bench.age = Span::secs(59);
        assert!(!bench.admits());
        bench.age = Span::secs(60);
        assert!(bench.admits() && bench.admits());
        assert!(!bench.admits(), "two probes are enough");
        bench.succeed();
        assert!(bench.admits() && bench.admits() && bench.admits());
        assert_eq!(bench.found.as_ref().unwrap().failures, 0);
    }

    #[test]
    fn a_probe_that_fails_opens_it_anew_and_one_that_vanishes_bars_nobody() {
        let mut bench = Bench::new();
        (0..3).for_each(|_| bench.fail());
        bench.age = Span::secs(60);
        assert!(bench.admits());
        bench.fail();
        assert!(!bench.admits());
        bench.age = Span::secs(60);
        assert!(bench.admits() && bench.admits() && !bench.admits());
        bench.age = Span::secs(60);
        assert!(bench.admits(), "nothing was heard of the probes");
    }

    #[test]
    fn a_failure_that_is_told_twice_counts_once() {
        let mut bench = Bench::new();
        bench.fail();
        let again = Counted { task: ItemName::new("t").unwrap(), attempt: 1 };
        assert_eq!(bench.with(|scope| scope.failed(bench.found.as_ref(), again, "no")), None);
        for _ in 0..100 {
            bench.fail();
        }
        assert!(bench.found.as_ref().unwrap().counted.len() <= REMEMBERED);
    }

    #[test]
    fn it_speaks_against_a_leader_from_the_last_failure_until_the_cool_off_is_over() {
        let mut bench = Bench::new();
        let left = |bench: &Bench| {
            let open = bench.found.as_ref().and_then(|found| found.open(&bench.rules, bench.age));
            open.map(|open| open.left)
        };
        (0..2).for_each(|_| bench.fail());
        assert_eq!(left(&bench), None);
        bench.fail();
        bench.age = Span::secs(59);
        assert_eq!(left(&bench), Some(Span::secs(1)));
        bench.age = Span::secs(60);
        assert_eq!(left(&bench), None, "half-open");
        assert!(bench.admits() && bench.admits() && !bench.admits());
        assert_eq!(left(&bench), None, "its probes are under way");
        bench.fail();
        assert_eq!(left(&bench), Some(Span::secs(60)), "a probe failed");
        bench.rules.generation = 1;
        assert_eq!(left(&bench), None, "an operator reset it");
    }

    #[test]
    fn a_new_generation_begins_anew() {
        let mut bench = Bench::new();
        (0..3).for_each(|_| bench.fail());
        assert!(!bench.admits());
        bench.rules.generation = 1;
        assert!(bench.admits());
        bench.fail();
        assert!(bench.admits(), "one failure of three");
        assert_eq!(bench.found.as_ref().unwrap().failures, 1);
    }
}
