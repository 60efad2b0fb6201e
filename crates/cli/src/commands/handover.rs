//! `baton handover`: see what the predecessor left, and take it on.

use baton::Renewal;
use baton::election::ElectionName;
use baton::store::Access;
use clap::Args;
use serde_json::{Value, json};

use super::renew::renew;
use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, clean};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton handover refactor-auth --as agent-b          the leader sees it and takes it on
  baton handover refactor-auth --look                anybody may look")]
pub(crate) struct Handover {
    /// What is led
    election: ElectionName,
    #[command(flatten)]
    who: Who,
    /// Only look, do not take it on
    #[arg(long)]
    look: bool,
}

impl Handover {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let access = if self.look { Access::Read } else { Access::Write };
        let context = Context::open(global, access).await?;
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Holder);
        let held = if self.look { None } else { Some(context.lease(&self.election, &self.who)?) };
        let view = context.coordinator.view(&self.election).await.map_err(fail)?;
        let Some(document) = view.document else {
            let unknown = baton::election::Refusal::UnknownElection { election: self.election.to_string() };
            return Err(fail(unknown.into()));
        };
        let Some(checkpoint) = document.checkpoint.as_deref() else {
            if let Some(held) = &held {
                // To look is a sign of life, also where there is nothing.
                renew(&context, &self.election, held, &Renewal::new(held.epoch, held.credential)).await?;
            }
            let data = json!({"outcome": "nothing", "election": self.election, "checkpoint": null});
            context.output.say(&data, &format!("nothing was left for the leader of {}", self.election))?;
            return Ok(Exit::Done);
        };
        let mut acknowledged = checkpoint.acknowledged_by.is_some();
        if let Some(held) = &held {
            let coordinator = &context.coordinator;
            let done = coordinator.acknowledge(&self.election, held.epoch, held.credential, checkpoint).await;
            context.remember();
            done.map_err(fail)?;
            acknowledged = true;
        }
        let state: Value = serde_json::from_str(&checkpoint.state).unwrap_or(Value::Null);
        let data = json!({
            "outcome": if self.look { "seen" } else { "acknowledged" },
            "election": self.election,
            "checkpoint": {
                "seq": checkpoint.seq, "epoch": checkpoint.epoch, "by": checkpoint.by, "at": checkpoint.at,
                "summary": checkpoint.summary, "state": state, "reference": checkpoint.reference,
                "hash": checkpoint.hash,
            },
            "acknowledged": acknowledged,
        });
        let mut lines = vec![format!(
            "checkpoint {} by {} in epoch {} at {}",
            checkpoint.seq, checkpoint.by, checkpoint.epoch, checkpoint.at
        )];
        lines.extend((!checkpoint.summary.is_empty()).then(|| clean(&checkpoint.summary)));
        if let Some(reference) = &checkpoint.reference {
            lines.push(format!("at {} (sha256 {})", clean(&reference.location), reference.sha256));
        }
        lines
            .extend((state != Value::Null).then(|| serde_json::to_string_pretty(&state).unwrap_or_default()));
        context.output.say(&data, &lines.join("\n"))?;
        Ok(Exit::Done)
    }
}
