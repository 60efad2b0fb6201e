//! `baton release`: stop being the leader.

use baton::Error;
use baton::election::ElectionName;
use baton::election::time::Span;
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{Context, Global, Held, Who};
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
        let asked =
            context.coordinator.release(&self.election, held.epoch, held.credential, self.reason.clone());
        let released = held.while_it_lasts(asked).await;
        context.remember();
        let released = released.ok_or_else(|| ended_unanswered(&context, &held))?;
        let document = released.map_err(|error| not_released(&error, &held))?;
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

/// Who cannot release need do nothing more: that is what a lease is for.
fn not_released(error: &Error, held: &Held) -> Failure {
    let mut failure = Failure::from_error(error, Speaker::Holder);
    let lease = held.kept.as_ref().map(|kept| Span::millis(kept.ttl_ms)).filter(|ttl| *ttl > Span::ZERO);
    if let (Error::Store(error), Some(ttl)) = (error, lease)
        && error.is_passing()
    {
        let hint = failure.hint.unwrap_or_default();
        failure.hint =
            Some(format!("if it stands, it runs out by itself {ttl} after its last renewal; {hint}"));
    }
    failure
}

fn ended_unanswered(context: &Context, held: &Held) -> Failure {
    let location = context.coordinator.store().location();
    Failure::new(
        Exit::Store,
        "unknown",
        format!("{location} did not answer before the lease of {} ended by itself", held.agent),
        "nothing is left to release; see what ails the store with `baton doctor`",
    )
}
