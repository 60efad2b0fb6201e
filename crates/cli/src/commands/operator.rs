//! The operator's commands: `appoint`, `depose`, `pause`, `resume`, `approve`, `reject`.

use baton::election::document::Question;
use baton::election::operator::Act;
use baton::election::time::Span;
use baton::election::{AgentName, Answer, ContentHash, ElectionName};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::{Failure, Outcome, clean};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton appoint refactor-auth agent-b --reason 'knows the code'
  baton appoint refactor-auth agent-b --force      do not wait for the lease: behind fences only

Whoever else leads loses its token at once; the successor starts when that leader has stopped or its lease \
has ended. Where a git ref has two histories, this settles which one holds.")]
pub(crate) struct Appoint {
    /// What to lead
    election: ElectionName,
    /// Who shall lead
    agent: AgentName,
    /// How long the election is kept for it [default: until it is taken]
    #[arg(long = "for", value_name = "DURATION")]
    lasts: Option<Span>,
    /// Do not wait for the running lease; safe only behind fences
    #[arg(long)]
    force: bool,
    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton depose refactor-auth --reason 'goes in circles'

The token is refused by every guard at once; a successor starts when the deposed leader has stopped or its \
lease has ended.")]
pub(crate) struct Depose {
    /// What is led
    election: ElectionName,
    /// Do not wait for the running lease; safe only behind fences
    #[arg(long)]
    force: bool,
    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  baton pause refactor-auth --reason 'release freeze'")]
pub(crate) struct Pause {
    /// What is led
    election: ElectionName,
    /// Why, for those who ask
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  baton resume refactor-auth")]
pub(crate) struct Resume {
    /// What is paused
    election: ElectionName,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton approve refactor-auth                        what waits at this moment
  baton approve refactor-auth --checkpoint HASH      exactly what was looked at")]
pub(crate) struct Approve {
    /// What is led
    election: ElectionName,
    /// The hash of the checkpoint that was looked at [default: the one that waits]
    #[arg(long, value_name = "HASH")]
    checkpoint: Option<ContentHash>,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  baton reject refactor-auth --reason 'the tests were deleted'")]
pub(crate) struct Reject {
    /// What is led
    election: ElectionName,
    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

impl Appoint {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Appoint {
            agent: self.agent.clone(),
            lasts: self.lasts,
            force: self.force,
            reason: self.reason.clone(),
        };
        operate(global, &self.election, act, &format!("{} is kept for {}", self.election, self.agent)).await
    }
}

impl Depose {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Depose { force: self.force, reason: self.reason.clone() };
        operate(global, &self.election, act, &format!("the leader of {} is deposed", self.election)).await
    }
}

impl Pause {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Pause { reason: self.reason.clone() };
        operate(global, &self.election, act, &format!("{} is paused", self.election)).await
    }
}

impl Resume {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        operate(global, &self.election, Act::Resume, &format!("{} goes on", self.election)).await
    }
}

impl Reject {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Reject { reason: self.reason.clone() };
        operate(global, &self.election, act, &format!("the leader of {} is rejected", self.election)).await
    }
}

impl Approve {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let view = context.coordinator.view(&self.election).await;
        let view = view.map_err(|error| Failure::from_error(&error, Speaker::Operator))?;
        let document = view.document.as_ref();
        let waiting = match document.and_then(|document| document.approval.question.as_ref()) {
            Some(Question::Checkpoint { hash }) => Some(*hash),
            Some(Question::MoreTime) | None => None,
        };
        let checkpoint = self.checkpoint.or(waiting);
        if let Some(shown) = document.and_then(|document| document.checkpoint.as_ref())
            && checkpoint == Some(shown.hash)
        {
            context.output.talk(&format!(
                "checkpoint {} by {}: {}",
                shown.seq,
                shown.by,
                clean(&shown.summary)
            ));
        }
        let text = format!("the leader of {} may go on", self.election);
        operate(global, &self.election, Act::Approve { checkpoint }, &text).await
    }
}

/// Signs an act and carries it out.
pub(crate) async fn operate(global: &Global, election: &ElectionName, act: Act, text: &str) -> Outcome {
    let key = keys::load()?;
    let context = Context::open(global, Access::Write).await?;
    let known = context.coordinator.view(election).await.is_ok_and(|view| view.document.is_some());
    let done = context.coordinator.operate(election, &key, &act).await;
    context.remember();
    match done.map_err(|error| Failure::from_error(&error, Speaker::Operator))? {
        Answer::Done { epoch, ended, waits } => {
            let data = json!({
                "outcome": act.name(), "election": election, "epoch": epoch, "ended": ended,
                "waits_ms": waits.as_millis(), "made": !known,
            });
            let mut text = text.to_string();
            if let Some(agent) = &ended {
                text.push_str(&format!("; the token of {agent} is refused from now on"));
            }
            if !known {
                text.push_str("; no election had this name, so it was made");
            }
            if waits > Span::ZERO {
                text.push_str(&format!("; its lease may last {waits} more"));
            }
            context.output.say(&data, &text)?;
            Ok(Exit::Done)
        }
        other => unreachable!("an act is answered as one, not with {other:?}"),
    }
}
