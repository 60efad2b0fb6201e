//! `baton policy`: see the rules of an election; as the operator, set them.

use baton::election::operator::Act;
use baton::election::policy::{self, ApprovalMode, Select};
use baton::election::time::Span;
use baton::election::{AgentName, ElectionName};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use super::operator::operate;
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton policy refactor-auth                                        see it
  baton policy refactor-auth --select priority --nomination 2s      the highest priority leads
  baton policy refactor-auth --select capable --need rust           only who can do rust
  baton policy refactor-auth --approval checkpoints                 a person approves every checkpoint
  baton policy refactor-auth --stall 10m --budget-tokens 2000000    useful or out

What is not named stays as it is; `none` takes a limit away. It may be set before anybody has led.")]
pub(crate) struct Policy {
    /// Which election
    election: ElectionName,
    /// first, priority, capable, available, round-robin, random or designated
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
    /// When a person must approve: none, checkpoints or time
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
    /// An agent whose reports can end a leadership (again for more)
    #[arg(long = "watcher", value_name = "AGENT")]
    watchers: Vec<AgentName>,
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

impl Policy {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let view = context.coordinator.view(&self.election).await;
        let view = view.map_err(|error| Failure::from_error(&error, Speaker::Operator))?;
        let current = view.document.map(|document| (*document.policy).clone());
        let wanted = self.changed(current.clone().unwrap_or_default());
        if Some(&wanted) == current.as_ref() || wanted == policy::Policy::default() && current.is_none() {
            let data = json!({"election": self.election, "policy": wanted});
            let text = serde_json::to_string_pretty(&wanted).unwrap_or_default();
            context.output.say(&data, &text)?;
            return Ok(Exit::Done);
        }
        let text = format!("the policy of {} is set", self.election);
        operate(global, &self.election, Act::SetPolicy { policy: wanted }, &text).await
    }

    fn changed(&self, mut policy: policy::Policy) -> policy::Policy {
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
        policy
    }
}
