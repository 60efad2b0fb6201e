//! The operator's commands: `appoint`, `depose`, `pause`, `resume`, `approve`, `reject`.

use baton::Error;
use baton::election::document::{Checkpoint, Question};
use baton::election::operator::{Act, OperatorKey};
use baton::election::time::Span;
use baton::election::{AgentName, Answer, ContentHash, ElectionName, Epoch, Refusal};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use super::everything;
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::{Failure, Outcome, clean};

/// How much of a checkpoint's state is shown to who approves it, in characters.
const MAX_STATE: usize = 2_000;

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
    #[command(flatten)]
    alone: Alone,
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
    #[command(flatten)]
    alone: Alone,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton pause refactor-auth --reason 'release freeze'
  baton pause --all --reason 'something is wrong'      every election, and those that would begin")]
pub(crate) struct Pause {
    /// What is led
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    election: Option<ElectionName>,
    /// Everything: whoever leads anything, stops, and nobody may lead anything
    #[arg(long)]
    all: bool,
    /// Why, for those who ask
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    alone: Alone,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton resume refactor-auth
  baton resume --all            what `pause --all` paused; what was paused by itself before stays so")]
pub(crate) struct Resume {
    /// What is paused
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    election: Option<ElectionName>,
    /// Everything that was paused at once
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    alone: AloneBecause,
}

/// Where a policy asks for several operators.
#[derive(Args, Debug)]
pub(crate) struct Alone {
    /// Do not wait for the other operators that the policy asks for: with --reason, kept for ever
    #[arg(long)]
    break_glass: bool,
}

impl Alone {
    /// The reason to act alone, if that is wanted.
    pub(crate) fn reason<'a>(&self, reason: &'a str) -> Option<&'a str> {
        self.break_glass.then_some(reason)
    }
}

/// The same, of an act that takes no reason otherwise.
#[derive(Args, Debug)]
pub(crate) struct AloneBecause {
    /// Why it cannot wait for the others, with --break-glass
    #[arg(
        long,
        value_name = "TEXT",
        requires = "break_glass",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    #[command(flatten)]
    alone: Alone,
}

impl AloneBecause {
    /// The reason to act alone, if that is wanted.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.alone.reason(&self.reason)
    }
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
    #[command(flatten)]
    alone: AloneBecause,
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
    #[command(flatten)]
    alone: Alone,
}

impl Appoint {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Appoint {
            agent: self.agent.clone(),
            lasts: self.lasts,
            force: self.force,
            reason: self.reason.clone(),
        };
        let text = format!("{} is kept for {}", self.election, self.agent);
        operate(global, &self.election, act, &text, self.alone.reason(&self.reason)).await
    }
}

impl Depose {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Depose { force: self.force, reason: self.reason.clone() };
        let text = format!("the leader of {} is deposed", self.election);
        operate(global, &self.election, act, &text, self.alone.reason(&self.reason)).await
    }
}

impl Pause {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let alone = self.alone.reason(&self.reason);
        let Some(election) = &self.election else {
            return everything::pause(global, &self.reason, alone).await;
        };
        let act = Act::Pause { reason: self.reason.clone() };
        let text = format!("{election} is paused");
        operate(global, election, act, &text, alone).await
    }
}

impl Resume {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let alone = self.alone.reason();
        let Some(election) = &self.election else { return everything::resume(global, alone).await };
        let text = format!("{election} goes on");
        operate(global, election, Act::Resume, &text, alone).await
    }
}

impl Reject {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Reject { reason: self.reason.clone() };
        let text = format!("the leader of {} is rejected", self.election);
        operate(global, &self.election, act, &text, self.alone.reason(&self.reason)).await
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
            context.output.talk(&in_words(shown));
        }
        let text = format!("the leader of {} may go on", self.election);
        let alone = self.alone.reason();
        // Some stores are open once at a time.
        drop(context);
        operate(global, &self.election, Act::Approve { checkpoint }, &text, alone).await
    }
}

/// What is approved: its hash, its summary, and its state as far as a person reads it.
fn in_words(checkpoint: &Checkpoint) -> String {
    let Checkpoint { seq, by, hash, summary, .. } = checkpoint;
    let mut text = format!("checkpoint {seq} by {by}, {hash:.12}: {}", clean(summary));
    if checkpoint.state != "null" {
        let state = clean(&checkpoint.state);
        let shown: String = state.chars().take(MAX_STATE).collect();
        let rest = state.chars().count() - shown.chars().count();
        let more = match rest {
            0 => String::new(),
            rest => format!("… and {rest} characters more: baton handover --look"),
        };
        text.push_str(&format!("\nstate: {shown}{more}"));
    }
    if let Some(reference) = &checkpoint.reference {
        text.push_str(&format!("\nat {} (sha256 {})", clean(&reference.location), reference.sha256));
    }
    text
}

/// Signs an act and carries it out.
pub(crate) async fn operate(
    global: &Global,
    election: &ElectionName,
    act: Act,
    text: &str,
    alone: Option<&str>,
) -> Outcome {
    let key = keys::load()?;
    let context = Context::open(global, Access::Write).await?;
    let known = context.coordinator.view(election).await.is_ok_and(|view| view.document.is_some());
    let done = context.coordinator.operate_urgently(election, &key, &act, alone).await;
    context.remember();
    match done.map_err(|error| failure(&error, &key))? {
        Answer::Signed { epoch, have, need } => waiting(&context, election, act.name(), epoch, (have, need)),
        Answer::Done { epoch, ended, waits } => {
            let data = json!({
                "outcome": act.name(), "election": election, "epoch": epoch, "ended": ended,
                "waits_ms": waits.as_millis(), "made": !known,
            });
            let mut text = text.to_string();
            if matches!(act, Act::Approve { .. }) {
                text.push_str(&format!(" with token {epoch}"));
            }
            if let Some(agent) = &ended {
                text.push_str(&format!("; the token of {agent} is refused from now on"));
            }
            if !known {
                text.push_str("; no election had this name, so it was made");
            }
            if waits > Span::ZERO {
                let whose = if ended.is_some() { "its lease" } else { "the lease of who led last" };
                text.push_str(&format!("; {whose} may last {waits} more"));
            }
            context.output.say(&data, &text)?;
            Ok(Exit::Done)
        }
        other => unreachable!("an act is answered as one, not with {other:?}"),
    }
}

/// Tells that an act waits for more operators.
pub(crate) fn waiting(
    context: &Context,
    election: &ElectionName,
    act: &str,
    epoch: Epoch,
    (have, need): (u64, u64),
) -> Outcome {
    let data = json!({
        "outcome": "signed", "act": act, "election": election, "epoch": epoch, "have": have, "need": need,
    });
    context.output.say(&data, &format!("{act} of {election}: {have} of {need} operators have signed"))?;
    context.output.talk(&format!("it is not done yet; another operator runs: baton cosign {election}"));
    Ok(Exit::Operator)
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
