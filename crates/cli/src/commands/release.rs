//! `baton release`: stop being the leader, perhaps in favour of a named successor.

use std::time::Duration;

use baton::Error;
use baton::api::sessions::NotifyReport;
use baton::election::command::{self, Ending};
use baton::election::time::Span;
use baton::election::{AgentName, Document, ElectionName};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{AgentOption, Context, HeldLease};
use crate::exit::{Exit, Speaker};
use crate::options::notify::{self, NotifyOptions};
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton release refactor-auth --as agent-a --done --reason 'all tests pass'
  baton release refactor-auth --as agent-a --to agent-b            to a named successor
  baton release refactor-auth --as agent-a --notify-timeout 5s     wait for the followers

Release only after the work has stopped: the successor may start at once. With --to, Baton reserves the election for the successor for one lease; after that, the policy decides.")]
pub(crate) struct Release {
    /// The election
    election: ElectionName,
    #[command(flatten)]
    who: AgentOption,
    /// The successor, for whom the election is reserved
    #[arg(long, value_name = "AGENT", conflicts_with = "done")]
    to: Option<AgentName>,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The work is done: the election becomes idle, and needs no leader
    #[arg(long)]
    done: bool,
    #[command(flatten)]
    notify: NotifyOptions,
}

impl StoreCommand for Release {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Holder;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let held = context.lease(&self.election, &self.who)?;
        held.refuse_while_cmd_runs()?;
        let wait = self.notify.wait(&context.coordinator)?;
        let released = self.release(context, &held, wait).await;
        let released = released.ok_or_else(|| ended_unanswered(context, &held))?;
        let (document, notified) = released.map_err(|error| not_released(&error, &held))?;
        context.forget(&self.election, &held);
        let mut data = json!({
            "outcome": if self.to.is_some() { "passed" } else { "released" },
            "election": self.election,
            "agent": held.agent,
            "token": document.as_ref().map_or(held.epoch, |document| document.epoch),
        });
        let mut text = format!("{} released {}", held.agent, self.election);
        if let Some(to) = &self.to {
            let reserved = document.as_ref().and_then(|document| document.reserved_for.as_ref());
            let kept = reserved.and_then(|kept| kept.lasts);
            data["to"] = json!(to);
            data["kept_for_ms"] = json!(kept.map(Span::as_millis));
            let lasts = kept.map_or(String::new(), |kept| format!(" for {kept}"));
            text = format!("{text}; it is reserved for {to}{lasts}");
        }
        if let Some(notified) = &notified {
            data["notified"] = notify::data(notified);
            text = format!("{text}; {}", notify::text(notified));
        }
        Ok(Screen::new(data, text))
    }
}

impl Release {
    /// None if the lease ended by itself before the store answered.
    async fn release(
        &self,
        context: &Context,
        held: &HeldLease,
        wait: Option<Duration>,
    ) -> Option<Result<(Option<Document>, Option<NotifyReport>), Error>> {
        let (coordinator, election) = (&context.coordinator, &self.election);
        let (epoch, credential, reason) = (held.epoch, held.credential, self.reason.clone());
        let told = |(document, notified)| (document, Some(notified));
        let alone = |document| (document, None);
        if let Some(to) = &self.to {
            return Some(match wait {
                None => coordinator.pass(election, epoch, credential, to, reason).await.map(alone),
                Some(wait) => {
                    coordinator.pass_telling(election, epoch, credential, to, reason, wait).await.map(told)
                }
            });
        }
        let ending = if self.done { Ending::Finished } else { Ending::Stopped };
        let release = command::Release { epoch, credential, reason, ending };
        match wait {
            None => {
                let released = held.while_it_lasts(coordinator.leave(election, release)).await?;
                Some(released.map(alone))
            }
            // The lease is given back at once; only the answer takes longer.
            Some(wait) => Some(coordinator.leave_telling(election, release, wait).await.map(told)),
        }
    }
}

/// An agent that cannot release need do nothing more: its lease expires.
fn not_released(error: &Error, held: &HeldLease) -> Failure {
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

fn ended_unanswered(context: &Context, held: &HeldLease) -> Failure {
    let location = context.coordinator.backend().location();
    Failure::new(
        Exit::Store,
        "unknown",
        format!("{location} did not answer before the lease of {} ended by itself", held.agent),
        "nothing is left to release; see what ails the store with `baton doctor`",
    )
}
