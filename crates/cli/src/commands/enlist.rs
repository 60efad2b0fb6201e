//! `baton enlist`: register as a candidate where the policy compares them, or withdraw.

use baton::election::{AgentName, ElectionName};
use baton::election::time::Span;
use baton::mint_credential;
use baton::store::Access;
use clap::Args;
use serde_json::json;

use super::acquire::Terms;
use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

/// How long a candidacy counts if nobody says otherwise.
const DEFAULT_CANDIDACY: Span = Span::secs(30);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton enlist refactor-auth --as agent-b --priority 5 --capability rust --load 2
  baton enlist refactor-auth --as agent-b --withdraw

A candidacy expires after --ttl unless the agent enlists again. baton run and baton acquire enlist by themselves.")]
pub(crate) struct Enlist {
    /// The election
    election: ElectionName,
    #[command(flatten)]
    who: Who,
    /// Withdraw the candidacy
    #[arg(long)]
    withdraw: bool,
    #[command(flatten)]
    terms: Terms,
}

impl Enlist {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let bid = self.terms.bid(&self.election, self.who.agent()?)?;
        let context = Context::open(global, Access::Write).await?;
        if self.withdraw {
            return self.withdraw(&context, &bid.agent).await;
        }
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Candidate);
        let credential = match context.state.candidacy(&self.election, &bid.agent) {
            Some(credential) => credential,
            None => mint_credential().map_err(fail)?,
        };
        context.state.keep_candidacy(&self.election, &bid.agent, &credential)?;
        let ttl = bid.ttl.unwrap_or(DEFAULT_CANDIDACY);
        let enlisted = context.coordinator.enlist(&self.election, &bid, credential, ttl).await;
        context.remember();
        let candidate = enlisted.map_err(fail)?;
        let data = json!({
            "outcome": "enlisted", "election": self.election, "agent": candidate.agent,
            "priority": candidate.priority, "capabilities": candidate.capabilities,
            "score": candidate.score, "load": candidate.load, "expires_in_ms": candidate.ttl.as_millis(),
        });
        // As long as the store lets it, which may be less than was asked for.
        let (agent, lasts) = (&candidate.agent, candidate.ttl);
        context.output.say(&data, &format!("{agent} is a candidate for {} for {lasts}", self.election))?;
        Ok(Exit::Done)
    }

    async fn withdraw(&self, context: &Context, agent: &AgentName) -> Outcome {
        let stood = match context.state.candidacy(&self.election, agent) {
            None => false,
            Some(credential) => {
                let withdrawn = context.coordinator.withdraw(&self.election, agent, credential).await;
                context.state.drop_candidacy(&self.election, agent);
                withdrawn.map_err(|error| Failure::from_error(&error, Speaker::Holder))?
            }
        };
        let outcome = if stood { "withdrawn" } else { "not-standing" };
        let data = json!({"outcome": outcome, "election": self.election, "agent": agent});
        let verb = if stood { "is no longer" } else { "was not" };
        context.output.say(&data, &format!("{agent} {verb} a candidate for {}", self.election))?;
        Ok(Exit::Done)
    }
}
