//! `baton release`: stop being the leader.

use baton::election::ElectionName;
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton release refactor-auth --as agent-a --reason 'all tasks are done'

Release only after the work has stopped: the successor may start at once.")]
pub(crate) struct Release {
    /// What is led
    election: ElectionName,
    #[command(flatten)]
    who: Who,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Release {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Write).await?;
        let held = context.lease(&self.election, &self.who)?;
        held.refuse_while_cmd_runs()?;
        let released = context
            .coordinator
            .release(&self.election, held.epoch, held.credential, self.reason.clone())
            .await;
        context.remember();
        let document = released.map_err(|error| Failure::from_error(&error, Speaker::Holder))?;
        if held.kept.is_some() {
            context.state.drop_lease(&self.election, &held.agent);
        }
        let data = json!({
            "outcome": "released",
            "election": self.election,
            "agent": held.agent,
            "epoch": document.epoch,
        });
        context.output.say(&data, &format!("{} released {}", held.agent, self.election))?;
        Ok(Exit::Done)
    }
}
