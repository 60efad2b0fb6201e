//! `baton release`: stop being the leader.

use std::time::Duration;

use baton::Error;
use baton::api::sessions::Notified;
use baton::election::command::{self, Ending};
use baton::election::time::Span;
use baton::election::{Document, ElectionName};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use super::telling::{self, Telling};
use crate::context::{Context, Global, Held, Who};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton release refactor-auth --as agent-a --done --reason 'all tests pass'
  baton release refactor-auth --as agent-a --notify-timeout 5s     wait for the followers

Release only after the work has stopped: the successor may start at once.")]
pub(crate) struct Release {
    /// The election
    election: ElectionName,
    #[command(flatten)]
    who: Who,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The work is done: the election becomes idle, and needs no leader
    #[arg(long)]
    done: bool,
    #[command(flatten)]
    telling: Telling,
}

impl Release {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Write).await?;
        let held = context.lease(&self.election, &self.who)?;
        held.refuse_while_cmd_runs()?;
        let wait = self.telling.wait(&context.coordinator)?;
        let released = self.release(&context, &held, wait).await;
        context.remember();
        let released = released.ok_or_else(|| ended_unanswered(&context, &held))?;
        let (document, notified) = released.map_err(|error| not_released(&error, &held))?;
        context.forget(&self.election, &held);
        let mut data = json!({
            "outcome": "released",
            "election": self.election,
            "agent": held.agent,
            "epoch": document.as_ref().map_or(held.epoch, |document| document.epoch),
        });
        let mut text = format!("{} released {}", held.agent, self.election);
        if let Some(notified) = &notified {
            data["notified"] = telling::data(notified);
            text = format!("{text}; {}", telling::text(notified));
        }
        context.output.say(&data, &text)?;
        Ok(Exit::Done)
    }

    /// None if the lease ended by itself before the store answered.
    async fn release(
        &self,
        context: &Context,
        held: &Held,
        wait: Option<Duration>,
    ) -> Option<Result<(Option<Document>, Option<Notified>), Error>> {
        let (coordinator, election) = (&context.coordinator, &self.election);
        let (epoch, credential, reason) = (held.epoch, held.credential, self.reason.clone());
        let ending = if self.done { Ending::Finished } else { Ending::Stopped };
        let release = command::Release { epoch, credential, reason, ending };
        let Some(wait) = wait else {
            let released = held.while_it_lasts(coordinator.leave(election, release)).await?;
            return Some(released.map(|document| (document, None)));
        };
        // The lease is given back at once; only the answer takes longer.
        let released = coordinator.leave_telling(election, release, wait).await;
        Some(released.map(|(document, notified)| (document, Some(notified))))
    }
}

/// An agent that cannot release need do nothing more: its lease expires.
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
    let location = context.coordinator.backend().location();
    Failure::new(
        Exit::Store,
        "unknown",
        format!("{location} did not answer before the lease of {} ended by itself", held.agent),
        "nothing is left to release; see what ails the store with `baton doctor`",
    )
}
