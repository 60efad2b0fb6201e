//! The operators' acts on an election: `appoint`, `depose`, `pause`, `resume`, `approve`, `reject`, `forget`.

use baton::Error;
use baton::election::document::Question;
use baton::election::operator::{Act, OperatorKey};
use baton::election::time::Span;
use baton::election::{AgentName, Answer, ContentHash, Document, ElectionName, Epoch, Refusal};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use super::cosign::confirm;
use super::pause_all::{self, PauseAllOrder};
use super::show;
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::options::break_glass::{BreakGlass, BreakGlassWithReason};
use crate::output::{Failure, Outcome};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton appoint refactor-auth agent-b --reason 'knows the code'
  baton appoint refactor-auth agent-b --force      do not wait for the lease: behind fences only

The token of any other leader is refused at once; the successor starts when that leader has stopped or its lease has ended. If a git ref has diverged into two histories, this decides between them.")]
pub(crate) struct Appoint {
    /// The election
    election: ElectionName,
    /// The agent
    agent: AgentName,
    /// How long to reserve the election for the agent [default: until it leads]
    #[arg(long = "for", value_name = "DURATION")]
    lasts: Option<Span>,
    /// Do not wait for the running lease; safe only behind fences
    #[arg(long)]
    force: bool,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    break_glass: BreakGlass,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton depose refactor-auth --reason 'goes in circles'

The token is refused by every guard at once; a successor starts when the deposed leader has stopped or its \
lease has ended.")]
pub(crate) struct Depose {
    /// The election
    election: ElectionName,
    /// Do not wait for the running lease; safe only behind fences
    #[arg(long)]
    force: bool,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    break_glass: BreakGlass,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton pause refactor-auth --reason 'release freeze'
  baton pause --all --reason 'something is wrong'      every election, also new ones")]
pub(crate) struct Pause {
    /// The election
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    election: Option<ElectionName>,
    /// All elections: end every leadership, and let nobody lead
    #[arg(long)]
    all: bool,
    /// The reason, shown to agents and in status
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    break_glass: BreakGlass,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton resume refactor-auth
  baton resume --all            ends a `pause --all`; elections paused one by one stay paused")]
pub(crate) struct Resume {
    /// The election
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    election: Option<ElectionName>,
    /// End a `pause --all`
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    break_glass: BreakGlassWithReason,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton approve refactor-auth                        show the waiting checkpoint, and ask
  baton approve refactor-auth --checkpoint HASH      approve exactly this checkpoint

`baton status` prints the command with the full hash. Without a terminal, --checkpoint is required. If the leader has written another checkpoint meanwhile, the approval of the old one is refused.")]
pub(crate) struct Approve {
    /// The election
    election: ElectionName,
    /// The full hash of the checkpoint that you have read [default: show the waiting checkpoint, and ask]
    #[arg(long, value_name = "HASH", value_parser = whole_hash)]
    checkpoint: Option<ContentHash>,
    #[command(flatten)]
    break_glass: BreakGlassWithReason,
}

/// Nothing shorter than a whole hash names a checkpoint: its author can find two that begin alike.
fn whole_hash(text: &str) -> Result<ContentHash, String> {
    text.parse().map_err(|_| {
        "a checkpoint is named by all 64 hexadecimal digits of its hash, as `baton status` prints them"
            .to_string()
    })
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  baton reject refactor-auth --reason 'the tests were deleted'")]
pub(crate) struct Reject {
    /// The election
    election: ElectionName,
    /// The reason, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    break_glass: BreakGlass,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton forget refactor-auth --reason 'merged'

The election leaves every list, with its policy, checkpoint and history. It is refused while a lease may run, and while the \
election is paused. The act stays in the audit log. Tokens continue: the next leader under this name gets a higher one, and fences keep their marks.")]
pub(crate) struct Forget {
    /// The election
    election: ElectionName,
    /// The reason, for the audit log
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    break_glass: BreakGlass,
}

impl Forget {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Forget { reason: self.reason.clone() };
        let text = format!("{} is forgotten", self.election);
        operate(global, &self.election, act, &text, self.break_glass.reason(&self.reason)).await
    }
}

impl Appoint {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Appoint {
            agent: self.agent.clone(),
            lasts: self.lasts,
            force: self.force,
            reason: self.reason.clone(),
        };
        let text = format!("{} is reserved for {}", self.election, self.agent);
        operate(global, &self.election, act, &text, self.break_glass.reason(&self.reason)).await
    }
}

impl Depose {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Depose { force: self.force, reason: self.reason.clone() };
        let text = format!("the leader of {} is deposed", self.election);
        operate(global, &self.election, act, &text, self.break_glass.reason(&self.reason)).await
    }
}

impl Pause {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let break_glass = self.break_glass.reason(&self.reason);
        let Some(election) = &self.election else {
            return PauseAllOrder { pause: Some(&self.reason), break_glass }.perform(global).await;
        };
        let act = Act::Pause { reason: self.reason.clone() };
        let text = format!("{election} is paused");
        operate(global, election, act, &text, break_glass).await
    }
}

impl Resume {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let break_glass = self.break_glass.reason();
        let Some(election) = &self.election else {
            return PauseAllOrder { pause: None, break_glass }.perform(global).await;
        };
        let text = format!("{election} is resumed");
        operate(global, election, Act::Resume, &text, break_glass).await
    }
}

impl Reject {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let act = Act::Reject { reason: self.reason.clone() };
        let text = format!("the leader of {} is rejected", self.election);
        operate(global, &self.election, act, &text, self.break_glass.reason(&self.reason)).await
    }
}

impl Approve {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let view = context.coordinator.view(&self.election).await?;
        let checkpoint = self.seen(&context, view.document.as_ref())?;
        let text = format!("the leader of {} may continue", self.election);
        let break_glass = self.break_glass.reason();
        // Some stores are open once at a time.
        drop(context);
        operate(global, &self.election, Act::Approve { checkpoint }, &text, break_glass).await
    }

    /// The checkpoint that the operator has seen: the one that it names, or the one that is shown here and that it says yes to.
    fn seen(&self, context: &Context, document: Option<&Document>) -> Result<Option<ContentHash>, Failure> {
        let question = document.and_then(|document| document.approval.question.as_ref());
        let asked = match (self.checkpoint, question) {
            (Some(named), _) => named,
            (None, Some(Question::Checkpoint { hash })) => *hash,
            (None, Some(Question::MoreTime) | None) => return Ok(None),
        };
        let left = document.and_then(|document| document.checkpoint.as_ref());
        let shown = left.filter(|left| left.hash == asked);
        if let Some(shown) = shown {
            context.output.talk(&show::checkpoint(shown).join("\n"));
        }
        if self.checkpoint.is_none() {
            let unseen = |why: &str| {
                let hint =
                    format!("look at it, then run: baton approve {} --checkpoint {asked}", self.election);
                Failure::usage(why, hint)
            };
            if shown.is_none() {
                return Err(unseen("the checkpoint that waits for approval is not in the record"));
            }
            confirm(context, "approve it?", || {
                unseen("nobody is there to be asked whether to approve this checkpoint")
            })?;
        }
        Ok(Some(asked))
    }
}

/// Signs an act and carries it out.
pub(crate) async fn operate(
    global: &Global,
    election: &ElectionName,
    act: Act,
    text: &str,
    break_glass: Option<&str>,
) -> Outcome {
    Operation { key: keys::load()?, election, act, text, break_glass }.perform(global).await
}

/// An act that is to be signed.
struct Operation<'a> {
    key: OperatorKey,
    election: &'a ElectionName,
    act: Act,
    text: &'a str,
    break_glass: Option<&'a str>,
}

impl StoreCommand for Operation<'_> {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Operator;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let Operation { key, election, act, text, break_glass } = self;
        let known = context.coordinator.view(election).await.is_ok_and(|view| view.document.is_some());
        let done = context.coordinator.operate_urgently(election, key, act, *break_glass).await;
        if let (Act::Resume, Err(Error::Refused(Refusal::Invalid { .. }))) = (act, &done)
            && pause_all::is_paused(context).await
        {
            let (text, hint) = (pause_all::still_paused(election, "not"), "resume all: baton resume --all");
            return Err(Failure::new(Exit::Operator, "paused", text, hint));
        }
        let (epoch, ended, waits) = match done.map_err(|error| failure(&error, key))? {
            Answer::Signed { epoch, have, need } => {
                return Ok(waiting(election, act.name(), epoch, (have, need)));
            }
            Answer::Done { epoch, ended, waits } => (epoch, ended, waits),
            other => unreachable!("an act is answered as one, not with {other:?}"),
        };
        let mut data = json!({
            "outcome": act.name(), "election": election, "token": epoch, "ended": ended,
            "waits_ms": waits.as_millis(), "made": !known,
        });
        if *act == Act::Resume && pause_all::is_paused(context).await {
            data["everything_paused"] = json!(true);
            let text = pause_all::still_paused(election, "no longer");
            return Ok(Screen::new(data, text).exit(Exit::Operator));
        }
        let mut text = (*text).to_string();
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
            let whose = if ended.is_some() { "its" } else { "the last leader's" };
            text.push_str(&format!("; {whose} lease runs for up to {waits} more"));
        }
        Ok(Screen::new(data, text))
    }
}

/// That an act waits for more operators.
pub(crate) fn waiting(election: &ElectionName, act: &str, epoch: Epoch, (have, need): (u64, u64)) -> Screen {
    let data = json!({
        "outcome": "signed", "act": act, "election": election, "token": epoch, "have": have, "need": need,
    });
    Screen::new(data, format!("{act} of {election}: {have} of {need} operators have signed"))
        .note(format!("it is not done yet; another operator runs: baton cosign {election}"))
        .exit(Exit::Operator)
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
