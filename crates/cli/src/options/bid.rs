//! What an agent offers and asks for.

use std::collections::BTreeSet;

use baton::Bid;
use baton::election::policy::{self, Limits};
use baton::election::time::Span;
use baton::election::{AgentName, ElectionName, command};
use clap::Args;

use crate::output::Failure;

/// What an agent offers and asks for.
#[derive(Args, Clone, Debug)]
pub(crate) struct BidOptions {
    /// How long the lease lasts after each renewal, 1s to 7d [default: the policy's, 30s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) ttl: Option<Span>,
    /// A description of the task, for people
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// A URL at which other agents reach this one while it leads
    #[arg(long, value_name = "URL")]
    pub(crate) contact: Option<String>,
    /// For the policy `priority`: higher goes first
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    pub(crate) priority: i64,
    /// For the policy `capable`: what this agent can do
    #[arg(long = "capability", value_name = "C")]
    pub(crate) capability: Vec<String>,
    /// For the policy `capable`: how well it can do it
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    pub(crate) score: i64,
    /// For the policy `available`: how much it has to do already
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) load: u64,
    /// End after so much time as the leader
    #[arg(long, value_name = "DURATION")]
    pub(crate) budget_time: Option<Span>,
    /// End after so many model tokens (reported with baton renew --spent N)
    #[arg(long, value_name = "N")]
    pub(crate) budget_tokens: Option<u64>,
    /// End after so many renewals
    #[arg(long, value_name = "N")]
    pub(crate) budget_renewals: Option<u64>,
    /// End after so much time without progress
    #[arg(long, value_name = "DURATION")]
    pub(crate) stall: Option<Span>,
}

impl BidOptions {
    /// What it bids. Nonsense is refused here, before anybody waits in line with it.
    pub(crate) fn bid(&self, election: &ElectionName, agent: AgentName) -> Result<Bid, Failure> {
        if election.as_str() == baton::SERVERS {
            // An agent that led it would keep every server of the store from answering.
            return Err(Failure::usage(
                format!("the servers themselves are elected in `{election}`"),
                "choose another name",
            ));
        }
        let bid = self.unchecked(agent);
        let checked = bid.ttl.map_or(Ok(()), policy::check_ttl).and_then(|()| bid.limits.check());
        let checked =
            checked.and_then(|()| bid.capabilities.iter().try_for_each(|c| policy::check_capability(c)));
        let checked = checked.and_then(|()| bid.contact.as_deref().map_or(Ok(()), command::check_contact));
        checked?;
        Ok(bid)
    }

    fn unchecked(&self, agent: AgentName) -> Bid {
        Bid {
            agent,
            ttl: self.ttl,
            task: self.task.clone(),
            contact: self.contact.clone(),
            priority: self.priority,
            capabilities: self.capability.iter().cloned().collect(),
            score: self.score,
            load: self.load,
            region: None,
            failing: BTreeSet::new(),
            limits: Limits {
                time: self.budget_time,
                tokens: self.budget_tokens,
                renewals: self.budget_renewals,
                stall: self.stall,
            },
        }
    }
}
