//! The policy of an election: who is preferred, how long a lease lasts, what ends a leadership.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::handover::HandoverRule;
use crate::lease::{MAX_TTL, MIN_TTL};
use crate::name::AgentName;
use crate::quorum::Quorum;
use crate::refusal::Refusal;
use crate::removal_rules::{Breakers, Performance, check_dependency};
use crate::time::Span;

/// How many watchers or needed capabilities a policy may name.
pub const MAX_POLICY_LIST: usize = 64;

/// The longest limit of time.
pub const MAX_LIMIT: Span = Span::secs(3_650 * 24 * 3_600);

/// The longest capability, in bytes.
pub const MAX_CAPABILITY_BYTES: usize = 64;

/// How one of several candidates is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// Whoever swaps first; nobody enlists.
    #[default]
    First,
    /// The highest priority.
    Priority,
    /// Has every capability that the policy needs, then the highest score.
    Capable,
    /// The least loaded.
    Available,
    /// The next agent after the last leader, in the order of their names.
    RoundRobin,
    /// By lot, drawn from the document, so that everybody draws the same.
    Random,
    /// The one agent that the policy names.
    Designated,
    /// The one that most operators voted for; then the highest priority.
    Vote,
}

impl Select {
    /// All of them, with their names.
    pub const ALL: [(Select, &'static str); 8] = [
        (Select::First, "first"),
        (Select::Priority, "priority"),
        (Select::Capable, "capable"),
        (Select::Available, "available"),
        (Select::RoundRobin, "round-robin"),
        (Select::Random, "random"),
        (Select::Designated, "designated"),
        (Select::Vote, "vote"),
    ];

    /// Whether candidates must enlist, so that they can be compared.
    pub fn compares(self) -> bool {
        match self {
            Select::First | Select::Designated => false,
            Select::Priority
            | Select::Capable
            | Select::Available
            | Select::RoundRobin
            | Select::Random
            | Select::Vote => true,
        }
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Select::ALL.iter().find(|(select, _)| select == self).map_or("?", |(_, name)| name))
    }
}

impl FromStr for Select {
    type Err = String;
    fn from_str(text: &str) -> Result<Select, String> {
        Select::ALL.iter().find(|(_, name)| *name == text).map(|(select, _)| *select).ok_or_else(|| {
            let names = Select::ALL.map(|(_, name)| name);
            format!("`{text}` is not a way to select; use one of {}", names.join(", "))
        })
    }
}

/// When a person must approve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// Never.
    #[default]
    None,
    /// After every checkpoint: the token is refused until an operator approves, which starts a new epoch.
    Checkpoints,
    /// Whenever the leader has led for `approval_ttl` since the grant or the last approval.
    Time,
}

impl fmt::Display for ApprovalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ApprovalMode::None => "none",
            ApprovalMode::Checkpoints => "checkpoints",
            ApprovalMode::Time => "time",
        })
    }
}

impl FromStr for ApprovalMode {
    type Err = String;
    fn from_str(text: &str) -> Result<ApprovalMode, String> {
        match text {
            "none" => Ok(ApprovalMode::None),
            "checkpoints" => Ok(ApprovalMode::Checkpoints),
            "time" => Ok(ApprovalMode::Time),
            _ => Err(format!("`{text}` is not a mode of approval; use none, checkpoints or time")),
        }
    }
}

/// What a leadership may use up before it ends. All of it is counted at renewals, never by a wall clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Time as the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// Model tokens, as the leader reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Renewals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewals: Option<u64>,
    /// Time without progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Span>,
}

impl Limits {
    /// Refuses limits that would end every leadership, or that cannot be written.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.stall.is_some_and(|stall| stall < Span::secs(1)) {
            return Err(Refusal::invalid(
                "a stall limit of under 1s would end every leadership",
                "use 1m or more",
            ));
        }
        [self.time, self.stall].into_iter().flatten().try_for_each(|limit| check_span("limit", limit))
    }

    /// The tighter of both in every respect.
    #[must_use]
    pub fn tightened(&self, other: &Limits) -> Limits {
        fn tighter<T: Ord + Copy>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (one, None) | (None, one) => one,
            }
        }
        Limits {
            time: tighter(self.time, other.time),
            tokens: tighter(self.tokens, other.tokens),
            renewals: tighter(self.renewals, other.renewals),
            stall: tighter(self.stall, other.stall),
        }
    }
}

/// The rules of one election. Operators set them; agents live by them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How one of several candidates is chosen.
    pub select: Select,
    /// How long a lease lasts, for candidates that do not ask for another length.
    pub ttl: Span,
    /// The longest lease that a candidate may ask for. Limits count at renewals, and a leader of long leases may renew late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ttl: Option<Span>,
    /// When a person must approve.
    pub approval: ApprovalMode,
    /// How long an approval is valid.
    pub approval_ttl: Span,
    /// How long candidates may enlist before one of them is chosen.
    pub nomination: Span,
    /// The one agent of [`Select::Designated`].
    pub designated: Option<AgentName>,
    /// What [`Select::Capable`] asks of a candidate.
    pub needs: Vec<String>,
    /// What every leadership may use up.
    #[serde(deserialize_with = "crate::wire::object")]
    pub limits: Limits,
    /// Agents, other than the leader itself, whose reports can end a leadership.
    pub watchers: Vec<AgentName>,
    /// What a leader may do before it has acknowledged what its predecessor left.
    #[serde(skip_serializing_if = "HandoverRule::is_usual")]
    pub handover: HandoverRule,
    /// Only who leads a region of it, an election right below it, may lead it.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub regions: bool,
    /// From which verdicts on its output on a leadership ends. Without it, the first bad one ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance: Option<Performance>,
    /// What a leader depends on: who says that one of these fails may not lead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<String>,
    /// When an agent that fails at tasks is told to do no more of their kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breakers: Option<Breakers>,
    /// How many operators it takes, and for what.
    #[serde(skip_serializing_if = "Quorum::is_usual", deserialize_with = "crate::wire::object")]
    pub operators: Quorum,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            select: Select::First,
            ttl: Span::secs(30),
            max_ttl: None,
            approval: ApprovalMode::None,
            approval_ttl: Span::secs(3_600),
            nomination: Span::ZERO,
            designated: None,
            needs: Vec::new(),
            limits: Limits::default(),
            watchers: Vec::new(),
            handover: HandoverRule::Open,
            regions: false,
            performance: None,
            depends: Vec::new(),
            breakers: None,
            operators: Quorum::default(),
        }
    }
}

impl Policy {
    /// Refuses a policy that contradicts itself or breaks a bound.
    pub fn check(&self) -> Result<(), Refusal> {
        check_ttl(self.ttl)?;
        if let Some(max) = self.max_ttl {
            check_ttl(max)?;
            if self.ttl > max {
                return Err(Refusal::invalid(
                    format!("the policy's own lease of {} is longer than the {max} that it allows", self.ttl),
                    "shorten the one or lengthen the other: --ttl, --max-ttl",
                ));
            }
        }
        if self.select == Select::Designated && self.designated.is_none() {
            return Err(Refusal::invalid(
                "the policy selects `designated` but names nobody",
                "name the agent: --designated AGENT",
            ));
        }
        if self.approval == ApprovalMode::Time && self.approval_ttl < Span::secs(1) {
            return Err(Refusal::invalid(
                "an approval of under 1s cannot be given in time",
                "use 1m or more",
            ));
        }
        if self.nomination > MAX_TTL {
            return Err(Refusal::invalid("the nomination window is over 7d", "seconds are usual"));
        }
        check_span("nomination window", self.nomination)?;
        check_span("validity of an approval", self.approval_ttl)?;
        self.limits.check()?;
        self.operators.check()?;
        self.performance.as_ref().map_or(Ok(()), Performance::check)?;
        self.breakers.as_ref().map_or(Ok(()), Breakers::check)?;
        if [self.needs.len(), self.watchers.len(), self.depends.len()]
            .iter()
            .any(|len| *len > MAX_POLICY_LIST)
        {
            return Err(Refusal::invalid(
                format!(
                    "a policy names at most {MAX_POLICY_LIST} capabilities, {MAX_POLICY_LIST} watchers and {MAX_POLICY_LIST} dependencies"
                ),
                "shorten the list",
            ));
        }
        self.depends.iter().try_for_each(|name| check_dependency(name))?;
        self.needs.iter().try_for_each(|capability| check_capability(capability))
    }
}

/// Refuses a length of time that would not be the same after it was written.
fn check_span(what: &str, span: Span) -> Result<(), Refusal> {
    if span > MAX_LIMIT || span != span.whole_millis() {
        return Err(Refusal::invalid(
            format!("the {what} is {span}; it is at most {MAX_LIMIT}, in whole milliseconds"),
            "leave it out for no limit",
        ));
    }
    Ok(())
}

/// Refuses a lease length outside of 1 s to 7 days, or with a fraction of a millisecond.
pub fn check_ttl(ttl: Span) -> Result<(), Refusal> {
    check_span("lease", ttl)?;
    if ttl < MIN_TTL {
        return Err(Refusal::invalid(
            format!("a lease of {ttl} is too short; the shortest is {MIN_TTL}"),
            "30s suits most agents",
        ));
    }
    if ttl > MAX_TTL {
        return Err(Refusal::invalid(
            format!("a lease of {ttl} is too long; the longest is {MAX_TTL}"),
            "a lease is renewed while its holder lives; 30s suits most agents",
        ));
    }
    Ok(())
}

/// Refuses an empty, overlong or unprintable capability.
pub fn check_capability(capability: &str) -> Result<(), Refusal> {
    let printable = capability.chars().all(|c| c.is_ascii_graphic());
    if capability.is_empty() || capability.len() > MAX_CAPABILITY_BYTES || !printable {
        return Err(Refusal::invalid(
            format!("`{}` is not a capability", capability.escape_debug()),
            "use 1 to 64 visible ASCII characters, such as rust or lang:rust".to_string(),
        ));
    }
    Ok(())
}
