//! `baton withdraw`: stand no longer.

use baton::election::ElectionName;
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  baton withdraw refactor-auth --as agent-b")]
pub(crate) struct Withdraw {
    /// The election
    election: ElectionName,
    #[command(flatten)]
    who: Who,
}

impl Withdraw {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let agent = self.who.agent()?;
        let context = Context::open(global, Access::Write).await?;
        let stood = match context.state.candidacy(&self.election, &agent) {
            None => false,
            Some(credential) => {
                let withdrawn = context.coordinator.withdraw(&self.election, &agent, credential).await;
                context.state.drop_candidacy(&self.election, &agent);
                withdrawn.map_err(|error| Failure::from_error(&error, Speaker::Holder))?
            }
        };
        let outcome = if stood { "withdrawn" } else { "not-standing" };
        let data = json!({"outcome": outcome, "election": self.election, "agent": agent});
        let verb = if stood { "stands no longer" } else { "did not stand" };
        context.output.say(&data, &format!("{agent} {verb} for {}", self.election))?;
        Ok(Exit::Done)
    }
}
