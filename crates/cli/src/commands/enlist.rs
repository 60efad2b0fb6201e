//! `baton enlist`: register as a candidate where the policy compares them, or withdraw.

use baton::election::time::Span;
use baton::election::{AgentName, ElectionName};
use baton::mint_credential;
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{AgentOption, Context};
use crate::exit::Speaker;
use crate::options::bid::BidOptions;
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

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
    who: AgentOption,
    /// Withdraw the candidacy
    #[arg(long)]
    withdraw: bool,
    #[command(flatten)]
    bid_options: BidOptions,
}

impl StoreCommand for Enlist {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Candidate;

    fn check(&self) -> Result<(), Failure> {
        self.bid_options.bid(&self.election, self.who.agent()?).map(drop)
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let bid = self.bid_options.bid(&self.election, self.who.agent()?)?;
        if self.withdraw {
            return self.withdraw(context, &bid.agent).await;
        }
        let credential = match context.state.candidacy(&self.election, &bid.agent) {
            Some(credential) => credential,
            None => mint_credential()?,
        };
        context.state.keep_candidacy(&self.election, &bid.agent, &credential)?;
        let ttl = bid.ttl.unwrap_or(DEFAULT_CANDIDACY);
        let candidate =
            context.coordinator.candidates().enlist(&self.election, &bid, credential, ttl).await?;
        let data = json!({
            "outcome": "enlisted", "election": self.election, "agent": candidate.agent,
            "priority": candidate.priority, "capabilities": candidate.capabilities,
            "score": candidate.score, "load": candidate.load, "expires_in_ms": candidate.ttl.as_millis(),
        });
        // As long as the store lets it, which may be less than was asked for.
        let (agent, lasts) = (&candidate.agent, candidate.ttl);
        Ok(Screen::new(data, format!("{agent} is a candidate for {} for {lasts}", self.election)))
    }
}

impl Enlist {
    async fn withdraw(&self, context: &Context, agent: &AgentName) -> Result<Screen, Failure> {
        let stood = match context.state.candidacy(&self.election, agent) {
            None => false,
            Some(credential) => {
                let withdrawn =
                    context.coordinator.candidates().withdraw(&self.election, agent, credential).await;
                context.state.drop_candidacy(&self.election, agent);
                withdrawn?
            }
        };
        let outcome = if stood { "withdrawn" } else { "not-standing" };
        let data = json!({"outcome": outcome, "election": self.election, "agent": agent});
        let verb = if stood { "is no longer" } else { "was not" };
        Ok(Screen::new(data, format!("{agent} {verb} a candidate for {}", self.election)))
    }
}
