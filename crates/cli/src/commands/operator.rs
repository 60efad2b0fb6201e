//! The operator's commands: `appoint`, `depose`, `pause`, `resume`, `approve`, `reject`.

use baton::Error;
use baton::election::document::Question;
use baton::election::operator::{Act, OperatorKey};
use baton::election::time::Span;
use baton::election::{AgentName, Answer, ContentHash, ElectionName, Refusal};
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
  baton approve refactor-auth --checkpoint 4b9884    exactly what was looked at; six digits will do")]
pub(crate) struct Approve {
    /// What is led
    election: ElectionName,
    /// The hash of the checkpoint that was looked at, or its first six digits or more [default: the one that waits]
    #[arg(long, value_name = "HASH")]
    checkpoint: Option<HashStart>,
}

/// The beginning of a hash, or all of it.
#[derive(Clone, Debug)]
struct HashStart(String);

impl HashStart {
    /// As few digits as name one checkpoint of an election well enough.
    const MIN_DIGITS: usize = 6;

    /// The one hash that begins so; one that is given whole need not be known.
    fn complete(&self, known: impl IntoIterator<Item = ContentHash>) -> Option<ContentHash> {
        if let Ok(whole) = self.0.parse() {
            return Some(whole);
        }
        let mut fitting = known.into_iter().filter(|hash| hash.to_string().starts_with(&self.0));
        let first = fitting.next()?;
        fitting.all(|other| other == first).then_some(first)
    }
}

impl std::str::FromStr for HashStart {
    type Err = String;
    fn from_str(text: &str) -> Result<HashStart, String> {
        let digits = text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        if digits && (HashStart::MIN_DIGITS..=64).contains(&text.len()) {
            return Ok(HashStart(text.to_string()));
        }
        Err("a checkpoint's hash has 64 hexadecimal digits; its first six will do".to_string())
    }
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
        let left = document.and_then(|document| document.checkpoint.as_ref()).map(|left| left.hash);
        let checkpoint = match &self.checkpoint {
            None => waiting,
            Some(start) => Some(start.complete(waiting.into_iter().chain(left)).ok_or_else(|| {
                Failure::usage(
                    format!("no checkpoint of `{}` has a hash that begins with {}", self.election, start.0),
                    "look at it again: baton status",
                )
            })?),
        };
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
    match done.map_err(|error| failure(&error, &key))? {
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

/// Why an operator's act was refused. Whose key is not known here learns how it gets known.
pub(crate) fn failure(error: &Error, key: &OperatorKey) -> Failure {
    let mut failure = Failure::from_error(error, Speaker::Operator);
    if let Error::Refused(Refusal::WrongKey { .. }) = error {
        let public = key.public();
        failure.hint = Some(format!(
            "let an operator run `baton operator add {public}`; where there is none yet, `baton init` makes this user the first"
        ));
    }
    failure
}
