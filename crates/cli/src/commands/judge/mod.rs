//! `baton judge`: have a command or a webhook judge every checkpoint of whoever leads, as one of the policy's watchers.
//!
//! Assumes that the policy names this agent as a watcher. Guarantees that each checkpoint of a leadership that is seen while it leads is judged at most once
//! by this process, that where the policy counts verdicts only one of this agent on it counts, also if the judge is started anew, and that a judge that cannot say anything (it did not answer, it was killed) gives no verdict; a webhook is then asked again. Does not
//! guarantee to see every checkpoint: of several in a short time the last is judged.

#[cfg(feature = "server")]
mod webhook;

use std::process::Stdio;
use std::time::Duration;

use baton::election::command::{Finding, MAX_TEXT_BYTES, Report};
use baton::election::document::Checkpoint;
use baton::election::time::Span;
use baton::election::{AgentName, Answer, ContentHash, ElectionName, Epoch, Refusal};
use baton::store::{Access, Key, boot};
use baton::{Error, View};
use clap::Args;
use futures_util::StreamExt;
use serde_json::json;
use tokio::process::Command;

use super::run::signals::Signals;
use crate::context::{AgentOption, Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, clean};
use crate::state_folder::write_private;
use crate::warden_process::{RunFolder, look_for_program};

/// The time between two looks, even if nothing is told.
const LOOK_AGAIN: Span = Span::secs(5);
/// How long CMD may take, unless something else is said.
const TIMEOUT: Span = Span::secs(600);
/// How long a store that does not answer is left alone.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton policy refactor-auth --watcher reviewer --performance 3/5 --cool-off 10m
  baton judge refactor-auth --as reviewer -- make check
  baton judge refactor-auth --as reviewer --webhook https://ci.example/ --webhook-secret-file secret

CMD gets the checkpoint as JSON on its stdin and in BATON_CHECKPOINT_FILE, and finds BATON_ELECTION, BATON_LEADER and BATON_TOKEN. Exit \
code 0 is a good verdict, 1 to 99 a bad one, whose reason is the last line that CMD wrote; anything else is no verdict. A webhook gets \
the same, with a key, and answers {\"key\": THE SAME, \"verdict\": \"pass\" or \"fail\", \"reason\": TEXT}; any other answer is no verdict, and it \
is asked again. Without --performance in the policy the first bad verdict ends the leadership.")]
pub(crate) struct Judge {
    /// The election
    election: ElectionName,
    #[command(flatten)]
    who: AgentOption,
    /// The most time for CMD or an answer; after that there is no verdict [default: 10m; 30s for a webhook]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// End after so many verdicts
    #[arg(long, value_name = "N")]
    verdicts: Option<u64>,
    #[cfg(feature = "server")]
    #[command(flatten)]
    hook: webhook::WebhookOptions,
    /// The command that judges a checkpoint
    #[arg(last = true, value_name = "CMD")]
    #[cfg_attr(feature = "server", arg(required_unless_present = "webhook"))]
    #[cfg_attr(not(feature = "server"), arg(required = true))]
    command: Vec<String>,
}

/// What judges.
enum Validator {
    Command,
    #[cfg(feature = "server")]
    Webhook(Box<webhook::Webhook>),
}

/// What there is to judge.
struct JudgedCheckpoint {
    leader: AgentName,
    token: Epoch,
    checkpoint: Checkpoint,
}

/// What was said of it, and why.
enum Verdict {
    Good(String),
    Bad(String),
    /// Nothing could be said.
    None(String),
    /// The same, and it is asked again after this time.
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "only a webhook is asked again"))]
    Later(String, Span),
}

/// What is said of a checkpoint.
#[derive(Default)]
struct VerdictReport<'a> {
    verdict: &'a str,
    why: &'a str,
    /// Whose leadership it ended.
    ended: Option<&'a AgentName>,
    /// After what time it is asked again.
    again: Option<Span>,
}

/// What became of a checkpoint.
#[derive(PartialEq, Eq)]
enum RoundOutcome {
    /// A verdict on it was given.
    Given,
    /// There is none.
    Dropped,
    /// It is to be looked at again.
    Again,
}

impl Judge {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let mut means = self.means()?;
        look_for_program(&self.command)?;
        let context = Context::open(global, Access::Write).await?;
        let by = self.who.agent()?;
        let mut signals = Signals::listen()?;
        context.output.talk(&format!("baton: {by} judges what the leader of {} leaves", self.election));
        let (mut judged, mut given) = (None, 0);
        let mut changes = None;
        loop {
            if changes.is_none() {
                changes =
                    context.coordinator.backend().watch(&Key::Election(self.election.clone())).await.ok();
            }
            let view = self.look(&context).await?;
            let subject = view.as_ref().filter(|view| !is_judged(view, &by)).and_then(subject);
            if let Some(subject) = subject.filter(|subject| judged != Some(subject.mark())) {
                let round = tokio::select! {
                    round = self.judge(&context, &by, &mut means, &subject) => round?,
                    _ = signals.next() => return Ok(Exit::Done),
                };
                if round != RoundOutcome::Again {
                    judged = Some(subject.mark());
                }
                given += u64::from(round == RoundOutcome::Given);
                context.remember();
                if self.verdicts.is_some_and(|most| given >= most) {
                    return Ok(Exit::Done);
                }
                continue;
            }
            let told = async {
                match &mut changes {
                    Some(changes) => changes.next().await.is_some(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                going_on = told => if !going_on { changes = None },
                slept = boot::sleep(LOOK_AGAIN) => slept?,
                _ = signals.next() => return Ok(Exit::Done),
            }
        }
    }

    fn means(&self) -> Result<Validator, Failure> {
        #[cfg(feature = "server")]
        if let Some(webhook) = self.hook.webhook(self.timeout)? {
            return Ok(Validator::Webhook(Box::new(webhook)));
        }
        Ok(Validator::Command)
    }

    /// The election as it stands; none if the store does not answer.
    async fn look(&self, context: &Context) -> Result<Option<View>, Failure> {
        match context.coordinator.view(&self.election).await {
            Ok(view) => Ok(Some(view)),
            Err(Error::Store(error)) if error.is_passing() => Ok(None),
            Err(error) => Err(Failure::from_error(&error, Speaker::Guard)),
        }
    }

    /// Has a checkpoint judged, and tells the verdict.
    async fn judge(
        &self,
        context: &Context,
        by: &AgentName,
        means: &mut Validator,
        subject: &JudgedCheckpoint,
    ) -> Result<RoundOutcome, Failure> {
        let verdict = match means {
            Validator::Command => self.run(subject).await?,
            #[cfg(feature = "server")]
            Validator::Webhook(webhook) => webhook.judge(&self.election, subject).await,
        };
        let (finding, detail) = match verdict {
            Verdict::Good(why) => (Finding::Sound, why),
            Verdict::Bad(why) => (Finding::Validation, why),
            Verdict::None(why) => {
                self.say(
                    context,
                    subject,
                    &VerdictReport { verdict: "none", why: &why, ..VerdictReport::default() },
                );
                return Ok(RoundOutcome::Dropped);
            }
            Verdict::Later(why, pause) => {
                let again = Some(pause);
                self.say(
                    context,
                    subject,
                    &VerdictReport { verdict: "none", why: &why, again, ..VerdictReport::default() },
                );
                boot::sleep(pause).await?;
                return Ok(RoundOutcome::Again);
            }
        };
        // An answer of others counts only for what still stands.
        let standing = !matches!(means, Validator::Command);
        self.tell(context, by, subject, (finding, &detail), standing).await
    }

    /// Has CMD judge a checkpoint.
    async fn run(&self, subject: &JudgedCheckpoint) -> Result<Verdict, Failure> {
        let folder = RunFolder::make()?;
        let (file, text) = (folder.file("checkpoint"), format!("{:#}\n", json!(subject.checkpoint)));
        write_private(&file, text.as_bytes())?;
        let (program, arguments) = match &self.command[..] {
            [program, arguments @ ..] => (program, arguments),
            [] => return Err(Failure::usage("there is no CMD to judge with", "write it after --")),
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("BATON_ELECTION", self.election.as_str())
            .env("BATON_LEADER", subject.leader.as_str())
            .env("BATON_TOKEN", subject.token.to_string())
            .env("BATON_CHECKPOINT_FILE", &file)
            .stdin(std::fs::File::open(&file)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| {
            Failure::new(Exit::Usage, "judge", format!("cannot run {program}: {error}"), "see what CMD is")
        })?;
        let timeout = self.timeout.unwrap_or(TIMEOUT);
        let most = Duration::from_millis(timeout.as_millis());
        let Ok(done) = tokio::time::timeout(most, child.wait_with_output()).await else {
            return Ok(Verdict::None(format!("it did not answer within {timeout}")));
        };
        let done = done?;
        Ok(match done.status.code() {
            Some(0) => Verdict::Good(String::new()),
            Some(code @ 1..=99) => Verdict::Bad(last_line(&done.stdout, &done.stderr, code)),
            Some(_) | None => Verdict::None(format!("it ended with {}", done.status)),
        })
    }

    /// Reports the verdict; one that must be on what stands is dropped otherwise.
    async fn tell(
        &self,
        context: &Context,
        by: &AgentName,
        subject: &JudgedCheckpoint,
        (finding, detail): (Finding, &str),
        standing: bool,
    ) -> Result<RoundOutcome, Failure> {
        let stale = |why: &str| {
            self.say(context, subject, &VerdictReport { verdict: "stale", why, ..VerdictReport::default() });
        };
        // However often it is told, it counts once.
        let mut number = None;
        loop {
            if standing {
                match self.look(context).await? {
                    Some(view) if self::subject(&view).is_some_and(|now| now.mark() == subject.mark()) => {}
                    Some(_) => {
                        stale("it was replaced, or its leadership is over");
                        return Ok(RoundOutcome::Again);
                    }
                    None => {
                        tokio::time::sleep(AGAIN).await;
                        continue;
                    }
                }
            }
            match self.report(context, by, subject, (finding, detail), &mut number).await {
                Ok(Answer::Done { ended, .. }) => {
                    let verdict = if finding == Finding::Sound { "good" } else { "bad" };
                    let ended = ended.as_ref();
                    self.say(context, subject, &VerdictReport { verdict, why: detail, ended, again: None });
                    return Ok(RoundOutcome::Given);
                }
                Ok(other) => unreachable!("a report is answered as one, not with {other:?}"),
                // It is about a leadership that is over.
                Err(Error::Refused(Refusal::Stale { why, .. })) => {
                    stale(&why);
                    return Ok(RoundOutcome::Dropped);
                }
                Err(Error::Store(error)) if error.is_passing() => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(Failure::from_error(&error, Speaker::Guard)),
            }
        }
    }

    /// Reports it under the number that was due when it was first told.
    async fn report(
        &self,
        context: &Context,
        by: &AgentName,
        subject: &JudgedCheckpoint,
        (finding, detail): (Finding, &str),
        number: &mut Option<u64>,
    ) -> Result<Answer, Error> {
        let (coordinator, epoch) = (&context.coordinator, subject.token);
        if number.is_none() {
            *number = coordinator.due_verdict(&self.election, epoch, by).await?;
        }
        let (by, detail) = (by.clone(), detail.to_string());
        let (number, checkpoint) = (*number, Some(subject.checkpoint.seq));
        let report = Report { epoch, finding, detail, by, credential: None, number, checkpoint, open: None };
        coordinator.report_numbered(&self.election, report).await
    }

    fn say(&self, context: &Context, subject: &JudgedCheckpoint, said: &VerdictReport<'_>) {
        let VerdictReport { verdict, why, ended, again } = said;
        let data = json!({
            "event": "verdict", "verdict": verdict, "election": self.election, "leader": subject.leader,
            "token": subject.token, "seq": subject.checkpoint.seq, "why": why, "ended": ended,
            "retry_in_ms": again.map(Span::as_millis),
        });
        if context.output.json {
            return context.output.event(&data);
        }
        let colon = if why.is_empty() { "" } else { ": " };
        let end = ended.map_or(String::new(), |agent| format!("; the leadership of {agent} has ended"));
        let again = again.map_or(String::new(), |pause| format!("; it is asked again in {pause}"));
        let text = format!(
            "checkpoint {} of {}: {verdict}{colon}{why}{end}{again}",
            subject.checkpoint.seq, subject.leader
        );
        context.output.talk(&clean(&text));
    }
}

impl JudgedCheckpoint {
    /// What tells it from everything else that is judged.
    fn mark(&self) -> (Epoch, u64, ContentHash) {
        (self.token, self.checkpoint.seq, self.checkpoint.hash)
    }
}

/// The checkpoint that whoever leads has written.
fn subject(view: &View) -> Option<JudgedCheckpoint> {
    let leader = view.leader()?;
    let checkpoint = view.document.as_ref()?.checkpoint.as_ref()?;
    let its_own = checkpoint.epoch >= leader.granted && checkpoint.by == leader.agent;
    its_own.then(|| JudgedCheckpoint {
        leader: leader.agent.clone(),
        token: leader.epoch,
        checkpoint: (**checkpoint).clone(),
    })
}

/// Whether this judge has given its verdict on the last checkpoint, perhaps before it was started anew.
fn is_judged(view: &View, by: &AgentName) -> bool {
    let checkpoint = view.document.as_ref().and_then(|document| document.checkpoint.as_ref());
    let verdicts = view.leader().map(|leader| &leader.verdicts);
    verdicts.zip(checkpoint).is_some_and(|(verdicts, left)| verdicts.is_judged(by, left.seq))
}

/// The last line that CMD wrote, or the exit code.
fn last_line(stdout: &[u8], stderr: &[u8], code: i32) -> String {
    let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).map(str::trim);
    short(last.map_or_else(|| format!("it ended with {code}"), ToString::to_string))
}

/// A reason, no longer than it may be.
fn short(mut reason: String) -> String {
    while reason.len() > MAX_TEXT_BYTES / 2 {
        reason.pop();
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::last_line;

    #[test]
    fn the_reason_is_the_last_line_and_bounded() {
        assert_eq!(last_line(b"one\ntwo\n", b"three \n\n", 1), "three");
        assert_eq!(last_line(b"", b"\n", 7), "it ended with 7");
        assert!(last_line("é".repeat(9_000).as_bytes(), b"", 1).len() <= 512);
    }
}
