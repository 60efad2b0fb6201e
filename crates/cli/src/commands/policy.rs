//! `baton policy`: see the rules of an election; as the operator, set them.

use baton::election::handover::HandoverRule;
use baton::election::operator::Act;
use baton::election::policy::{self, ApprovalMode, Select};
use baton::election::quorum::ActKind;
use baton::election::removal_rules::{Bars, Breakers, Performance};
use baton::election::time::Span;
use baton::election::{AgentName, ElectionName};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use super::acts::operate;
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::options::break_glass::BreakGlassWithReason;
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton policy refactor-auth                                        see it
  baton policy refactor-auth --select priority --nomination 2s      the highest priority leads
  baton policy refactor-auth --select capable --need rust           only agents with the capability rust
  baton policy refactor-auth --approval checkpoints                 an operator approves every checkpoint
  baton policy refactor-auth --stall 10m --budget-tokens 2000000    limits that end a leadership
  baton policy refactor-auth --handover acknowledge                 no writes before the hand-over is read
  baton policy refactor-auth --performance 3/5 --watcher reviewer   three bad verdicts of the last five
  baton policy refactor-auth --depends db                           no leader while its db fails
  baton policy refactor-auth --breaker 3/5m                         three failed tasks open the breaker
  baton policy refactor-auth --breaker-bars candidacy               an open breaker bars from leading
  baton policy refactor-auth --select vote --nomination 1m          operators vote on the candidates
  baton policy fleet --regions yes                                  led by a region's leader only
  baton policy refactor-auth --quorum 2 --quorum-act approve        two operators must approve

Settings that are not named stay as they are; `none` removes a limit. A policy can be set before anybody has led.")]
pub(crate) struct Policy {
    /// The election
    election: ElectionName,
    /// first, priority, capable, available, round-robin, random, designated or vote
    #[arg(long, value_name = "HOW")]
    select: Option<Select>,
    /// How long a lease lasts, 1s to 7d
    #[arg(long, value_name = "DURATION")]
    ttl: Option<Span>,
    /// The longest lease that a candidate may ask for
    #[arg(long, value_name = "DURATION|none")]
    max_ttl: Option<Limit<Span>>,
    /// How long candidates may enlist before one is chosen
    #[arg(long, value_name = "DURATION")]
    nomination: Option<Span>,
    /// The one agent of --select designated
    #[arg(long, value_name = "AGENT")]
    designated: Option<AgentName>,
    /// A capability that --select capable needs (again for more)
    #[arg(long = "need", value_name = "C")]
    needs: Vec<String>,
    /// When an operator must approve: none, checkpoints or time
    #[arg(long, value_name = "WHEN")]
    approval: Option<ApprovalMode>,
    /// How long an approval is valid
    #[arg(long, value_name = "DURATION")]
    approval_ttl: Option<Span>,
    /// Time as the leader
    #[arg(long, value_name = "DURATION|none")]
    budget_time: Option<Limit<Span>>,
    /// Model tokens
    #[arg(long, value_name = "N|none")]
    budget_tokens: Option<Limit<u64>>,
    /// Renewals
    #[arg(long, value_name = "N|none")]
    budget_renewals: Option<Limit<u64>>,
    /// Time without progress
    #[arg(long, value_name = "DURATION|none")]
    stall: Option<Limit<Span>>,
    /// So many bad verdicts of the last so many end a leadership, such as 3/5 [default: the first one does]
    #[arg(long, value_name = "BAD/OF|none")]
    performance: Option<Limit<Verdicts>>,
    /// How long after a bad performance its agent is barred from a free election, and the next leader cannot be ended so
    /// [default: 10m]
    #[arg(long, value_name = "DURATION")]
    cool_off: Option<Span>,
    /// After this many failed tasks in a row, assign the agent no task of their kind for this long, such as 3/5m
    #[arg(long, value_name = "FAILURES/DURATION|none")]
    breaker: Option<Limit<Failures>>,
    /// How many trial tasks the agent gets after that [default: 1]
    #[arg(long, value_name = "N")]
    breaker_probes: Option<u8>,
    /// What an open breaker bars from beside tasks of its kind: tasks (nothing more), candidacy (its agent is granted nothing) or
    /// leadership (and loses the lead); of what --need names, or of anything [default: tasks]
    #[arg(long, value_name = "WHAT")]
    breaker_bars: Option<Bars>,
    /// A dependency that a leader must not report as failing (repeatable; `none` for none)
    #[arg(long = "depends", value_name = "NAME")]
    depends: Vec<String>,
    /// An agent whose reports can end a leadership (again for more)
    #[arg(long = "watcher", value_name = "AGENT")]
    watchers: Vec<AgentName>,
    /// Until a leader has acknowledged the hand-over: open (no restriction) or acknowledge (guards refuse its token)
    #[arg(long, value_name = "RULE")]
    handover: Option<HandoverRule>,
    /// Whether only the leader of a region, an election directly below, may lead it
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    regions: Option<bool>,
    /// How many operators must sign an act
    #[arg(long, value_name = "N")]
    quorum: Option<u8>,
    /// An act that needs so many (repeatable) [default: all]; changes of the policy and of the operators always do
    #[arg(long = "quorum-act", value_name = "ACT")]
    quorum_acts: Vec<ActKind>,
    /// Whether one operator may act alone with --break-glass and a reason
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    allow_break_glass: Option<bool>,
    #[command(flatten)]
    break_glass: BreakGlassWithReason,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_string()),
    }
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit<T>(Option<T>);

impl<T: std::str::FromStr> std::str::FromStr for Limit<T> {
    type Err = T::Err;
    fn from_str(text: &str) -> Result<Limit<T>, T::Err> {
        if text == "none" { Ok(Limit(None)) } else { text.parse().map(|value| Limit(Some(value))) }
    }
}

/// So many of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdicts {
    bad: u8,
    of: u8,
}

impl std::str::FromStr for Verdicts {
    type Err = String;
    fn from_str(text: &str) -> Result<Verdicts, String> {
        let numbers = text.split_once('/').and_then(|(bad, of)| Some((bad.parse().ok()?, of.parse().ok()?)));
        numbers
            .map(|(bad, of)| Verdicts { bad, of })
            .ok_or_else(|| "write how many bad ones of how many: 3/5".to_string())
    }
}

/// So many in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failures {
    failures: u8,
    cool_off: Span,
}

impl std::str::FromStr for Failures {
    type Err = String;
    fn from_str(text: &str) -> Result<Failures, String> {
        let parts =
            text.split_once('/').and_then(|(count, span)| Some((count.parse().ok()?, span.parse().ok()?)));
        parts
            .map(|(failures, cool_off)| Failures { failures, cool_off })
            .ok_or_else(|| "write after how many failures, and for how long: 3/5m".to_string())
    }
}

/// How long a cool-off is if nobody says.
const COOL_OFF: Span = Span::secs(600);

impl Policy {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let view = context.coordinator.view(&self.election).await;
        let view = view.map_err(|error| Failure::from_error(&error, Speaker::Operator))?;
        let leads = view.document.as_ref().and_then(|document| document.leader.as_ref());
        let leads = leads.map(|leader| leader.agent.clone());
        let current = view.document.map(|document| (*document.policy).clone());
        let wanted = self.changed(current.clone().unwrap_or_default())?;
        if Some(&wanted) == current.as_ref() || wanted == policy::Policy::default() && current.is_none() {
            let data = json!({"election": self.election, "policy": wanted});
            let text = serde_json::to_string_pretty(&wanted).unwrap_or_default();
            context.output.say(&data, &text)?;
            return Ok(Exit::Done);
        }
        let mut text = format!("the policy of {} is set", self.election);
        if let Some(agent) = leads.filter(|_| current.is_some_and(|current| current.limits != wanted.limits))
        {
            text.push_str(&format!("; {agent} keeps the limits that it began to lead with"));
        }
        let break_glass = self.break_glass.reason();
        // Some stores are open once at a time.
        drop(context);
        operate(global, &self.election, Act::SetPolicy { policy: wanted }, &text, break_glass).await
    }

    fn changed(&self, mut policy: policy::Policy) -> Result<policy::Policy, Failure> {
        fn set<T: Clone>(target: &mut T, wanted: Option<&T>) {
            if let Some(wanted) = wanted {
                *target = wanted.clone();
            }
        }
        set(&mut policy.select, self.select.as_ref());
        set(&mut policy.ttl, self.ttl.as_ref());
        set(&mut policy.max_ttl, self.max_ttl.as_ref().map(|limit| &limit.0));
        set(&mut policy.nomination, self.nomination.as_ref());
        set(&mut policy.approval, self.approval.as_ref());
        set(&mut policy.approval_ttl, self.approval_ttl.as_ref());
        set(&mut policy.limits.time, self.budget_time.as_ref().map(|limit| &limit.0));
        set(&mut policy.limits.tokens, self.budget_tokens.as_ref().map(|limit| &limit.0));
        set(&mut policy.limits.renewals, self.budget_renewals.as_ref().map(|limit| &limit.0));
        set(&mut policy.limits.stall, self.stall.as_ref().map(|limit| &limit.0));
        set(&mut policy.designated, self.designated.as_ref().map(|agent| Some(agent.clone())).as_ref());
        set(&mut policy.needs, (!self.needs.is_empty()).then_some(&self.needs));
        set(&mut policy.watchers, (!self.watchers.is_empty()).then_some(&self.watchers));
        set(&mut policy.handover, self.handover.as_ref());
        set(&mut policy.regions, self.regions.as_ref());
        set(&mut policy.operators.quorum, self.quorum.as_ref());
        set(&mut policy.operators.acts, (!self.quorum_acts.is_empty()).then_some(&self.quorum_acts));
        set(&mut policy.operators.break_glass, self.allow_break_glass.as_ref());
        if !self.depends.is_empty() {
            policy.depends = self.depends.iter().filter(|name| *name != "none").cloned().collect();
        }
        self.judge(&mut policy)?;
        self.bar(&mut policy)?;
        Ok(policy)
    }

    /// When agents that fail are told to do no more.
    fn bar(&self, policy: &mut policy::Policy) -> Result<(), Failure> {
        let before = policy.breakers.clone();
        let probes = self.breaker_probes.or(before.as_ref().map(|before| before.probes)).unwrap_or(1);
        let generation = before.as_ref().map_or(0, |before| before.generation);
        let bars = self.breaker_bars.or(before.as_ref().map(|before| before.bars)).unwrap_or_default();
        match (self.breaker, before) {
            (Some(Limit(Some(Failures { failures, cool_off }))), _) => {
                policy.breakers = Some(Breakers { failures, cool_off, probes, generation, bars });
            }
            (Some(Limit(None)), _) => policy.breakers = None,
            (None, Some(before)) => policy.breakers = Some(Breakers { probes, bars, ..before }),
            (None, None) if self.breaker_probes.is_some() || self.breaker_bars.is_some() => {
                return Err(Failure::usage(
                    "the policy has no circuit breakers",
                    "say after how many failures one opens, and for how long: --breaker 3/5m",
                ));
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// What verdicts on a leader's output come to.
    fn judge(&self, policy: &mut policy::Policy) -> Result<(), Failure> {
        let before = policy.performance.clone();
        let cool_off = self.cool_off.or(before.as_ref().map(|before| before.cool_off)).unwrap_or(COOL_OFF);
        match (self.performance, before) {
            (Some(Limit(Some(Verdicts { bad, of }))), _) => {
                policy.performance = Some(Performance { bad, of, cool_off });
            }
            (Some(Limit(None)), _) => policy.performance = None,
            (None, Some(before)) => policy.performance = Some(Performance { cool_off, ..before }),
            (None, None) if self.cool_off.is_some() => {
                return Err(Failure::usage(
                    "a cool-off of what? The policy counts no verdicts",
                    "say how many bad ones end a leadership: --performance 3/5",
                ));
            }
            (None, None) => {}
        }
        Ok(())
    }
}
