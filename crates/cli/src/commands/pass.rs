//! `baton pass`: stop being the leader, in favour of a named successor.

use baton::election::{AgentName, ElectionName};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use super::telling::{self, Telling};
use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton pass refactor-auth agent-b --as agent-a --reason 'out of context'

Baton reserves the election for the successor for one lease; after that, the policy decides. Pass only after the work has stopped.")]
pub(crate) struct Pass {
    /// The election
    election: ElectionName,
    /// The successor
    to: AgentName,
    #[command(flatten)]
    who: Who,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    telling: Telling,
}

impl Pass {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Write).await?;
        let held = context.lease(&self.election, &self.who)?;
        held.refuse_while_cmd_runs()?;
        let wait = self.telling.wait(&context.coordinator)?;
        let (coordinator, reason, to) = (&context.coordinator, self.reason.clone(), &self.to);
        let (epoch, credential) = (held.epoch, held.credential);
        let passed = match wait {
            None => coordinator.pass(&self.election, epoch, credential, to, reason).await.map(|d| (d, None)),
            Some(wait) => {
                let passed = coordinator.pass_telling(&self.election, epoch, credential, to, reason, wait);
                passed.await.map(|(document, notified)| (document, Some(notified)))
            }
        };
        context.remember();
        let (document, notified) = passed.map_err(|error| Failure::from_error(&error, Speaker::Holder))?;
        context.forget(&self.election, &held);
        let reserved = document.as_ref().and_then(|document| document.reserved_for.as_ref());
        let kept_ms = reserved.and_then(|kept| kept.lasts);
        let mut data = json!({
            "outcome": "passed",
            "election": self.election,
            "agent": held.agent,
            "to": self.to,
            "epoch": document.as_ref().map_or(held.epoch, |document| document.epoch),
            "kept_for_ms": kept_ms.map(baton::election::Span::as_millis),
        });
        let kept = kept_ms.map_or(String::new(), |kept| format!(", for whom it is kept for {kept}"));
        let mut text = format!("{} passed {} to {}{kept}", held.agent, self.election, self.to);
        if let Some(notified) = &notified {
            data["notified"] = telling::data(notified);
            text = format!("{text}; {}", telling::text(notified));
        }
        context.output.say(&data, &text)?;
        Ok(Exit::Done)
    }
}
