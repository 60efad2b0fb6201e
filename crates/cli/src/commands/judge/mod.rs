//! `baton judge`: have a command judge every checkpoint of whoever leads, as one of the policy's watchers.
//!
//! Assumes that the policy names this agent as a watcher. Guarantees that each checkpoint of a leadership that is seen while it leads is judged at most once
//! by this process, and that a judge that cannot say anything (it did not answer, it was killed) gives no verdict. Does not guarantee to see every checkpoint: of
//! several in a short time the last is judged.

use std::process::Stdio;
use std::time::Duration;

use baton::election::command::{Finding, MAX_TEXT_BYTES};
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
use crate::context::{Context, Global, Who};
use crate::custody::RunFolder;
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, clean};
use crate::state::write_private;

/// How often to look even if nothing is told.
const LOOK_AGAIN: Span = Span::secs(5);
/// How long a store that does not answer is left alone.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton policy refactor-auth --watcher reviewer --performance 3/5 --cool-off 10m
  baton judge refactor-auth --as reviewer -- make check
  baton judge refactor-auth --as reviewer -- curl -fsS --data-binary @- https://example.com/verdict

CMD gets the checkpoint as JSON on its stdin and in BATON_CHECKPOINT_FILE, and finds BATON_ELECTION, BATON_LEADER and BATON_TOKEN. Exit \
code 0 is a good verdict, 1 to 99 a bad one, whose reason is the last line that CMD wrote; anything else is no verdict. Without \
--performance in the policy the first bad verdict ends the leadership.")]
pub(crate) struct Judge {
    /// What is led
    election: ElectionName,
    #[command(flatten)]
    who: Who,
    /// The longest that CMD may take; then there is no verdict
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    timeout: Span,
    /// End after so many verdicts
    #[arg(long, value_name = "N")]
    verdicts: Option<u64>,
    /// What judges a checkpoint
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// What there is to judge.
struct Subject {
    leader: AgentName,
    token: Epoch,
    checkpoint: Checkpoint,
}

/// What CMD said.
enum Verdict {
    Good,
    Bad(String),
    /// It could not say anything.
    None(String),
}

impl Judge {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Write).await?;
        let by = self.who.agent()?;
        let mut signals = Signals::listen()?;
        let (mut judged, mut given) = (None, 0);
        let mut changes = None;
        loop {
            if changes.is_none() {
                changes = context.coordinator.store().watch(&Key::Election(self.election.clone())).await.ok();
            }
            let subject = match context.coordinator.view(&self.election).await {
                Ok(view) => subject(&view),
                Err(Error::Store(error)) if error.is_passing() => None,
                Err(error) => return Err(Failure::from_error(&error, Speaker::Guard)),
            };
            if let Some(subject) = subject.filter(|subject| judged != Some(subject.mark())) {
                let verdict = tokio::select! {
                    verdict = self.judge(&subject) => verdict?,
                    _ = signals.next() => return Ok(Exit::Done),
                };
                judged = Some(subject.mark());
                given += u64::from(self.tell(&context, &by, &subject, verdict).await?);
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

    /// Has CMD judge a checkpoint.
    async fn judge(&self, subject: &Subject) -> Result<Verdict, Failure> {
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
        let most = Duration::from_millis(self.timeout.as_millis());
        let Ok(done) = tokio::time::timeout(most, child.wait_with_output()).await else {
            return Ok(Verdict::None(format!("it did not answer within {}", self.timeout)));
        };
        let done = done?;
        Ok(match done.status.code() {
            Some(0) => Verdict::Good,
            Some(code @ 1..=99) => Verdict::Bad(last_line(&done.stdout, &done.stderr, code)),
            Some(_) | None => Verdict::None(format!("it ended with {}", done.status)),
        })
    }

    /// Reports the verdict; whether there was one.
    async fn tell(
        &self,
        context: &Context,
        by: &AgentName,
        subject: &Subject,
        verdict: Verdict,
    ) -> Result<bool, Failure> {
        let (finding, detail) = match verdict {
            Verdict::Good => (Finding::Sound, String::new()),
            Verdict::Bad(why) => (Finding::Validation, why),
            Verdict::None(why) => {
                self.say(context, subject, "none", &why, None);
                return Ok(false);
            }
        };
        let word = if finding == Finding::Sound { "good" } else { "bad" };
        loop {
            let told =
                context.coordinator.report(&self.election, subject.token, finding, &detail, by, None).await;
            match told {
                Ok(Answer::Done { ended, .. }) => {
                    self.say(context, subject, word, &detail, ended.as_ref());
                    return Ok(true);
                }
                Ok(other) => unreachable!("a report is answered as one, not with {other:?}"),
                // It is about a leadership that is over.
                Err(Error::Refused(Refusal::Stale { why, .. })) => {
                    self.say(context, subject, "stale", &why, None);
                    return Ok(false);
                }
                Err(Error::Store(error)) if error.is_passing() => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(Failure::from_error(&error, Speaker::Guard)),
            }
        }
    }

    fn say(&self, context: &Context, subject: &Subject, verdict: &str, why: &str, ended: Option<&AgentName>) {
        let data = json!({
            "event": "verdict", "verdict": verdict, "election": self.election, "leader": subject.leader,
            "token": subject.token, "seq": subject.checkpoint.seq, "why": why, "ended": ended,
        });
        if context.output.json {
            return context.output.event(&data);
        }
        let colon = if why.is_empty() { "" } else { ": " };
        let end = ended.map_or(String::new(), |agent| format!("; the leadership of {agent} has ended"));
        let text = format!(
            "checkpoint {} of {}: {verdict}{colon}{why}{end}",
            subject.checkpoint.seq, subject.leader
        );
        context.output.talk(&clean(&text));
    }
}

impl Subject {
    /// What tells it from everything else that is judged.
    fn mark(&self) -> (Epoch, u64, ContentHash) {
        (self.token, self.checkpoint.seq, self.checkpoint.hash)
    }
}

/// The checkpoint that whoever leads has written.
fn subject(view: &View) -> Option<Subject> {
    let leader = view.leader()?;
    let checkpoint = view.document.as_ref()?.checkpoint.as_ref()?;
    let its_own = checkpoint.epoch >= leader.granted && checkpoint.by == leader.agent;
    its_own.then(|| Subject {
        leader: leader.agent.clone(),
        token: leader.epoch,
        checkpoint: (**checkpoint).clone(),
    })
}

/// The last line that CMD wrote, or the exit code.
fn last_line(stdout: &[u8], stderr: &[u8], code: i32) -> String {
    let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).map(str::trim);
    let mut last = last.map_or_else(|| format!("it ended with {code}"), ToString::to_string);
    while last.len() > MAX_TEXT_BYTES / 2 {
        last.pop();
    }
    last
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
