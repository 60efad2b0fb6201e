//! A service that judges: a checkpoint is posted to it, signed as a server's webhooks are, and its answer is the verdict.
//!
//! Assumes that it knows by the key what it was asked before: it may be asked twice. Guarantees that only an answer of 2xx that comes in time, is short
//! enough, names the key and says `pass` or `fail` is a verdict. Does not guarantee whose the answer is, beyond what TLS does.

use std::path::PathBuf;
use std::time::Duration;

use baton::election::ElectionName;
use baton::election::time::Span;
use baton_server::{Pauses, Receiver};
use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::{JudgedCheckpoint, Verdict, short};
use crate::options::webhooks;
use crate::output::Failure;

/// How long an answer may take, unless something else is said.
const TIMEOUT: Span = Span::secs(30);
/// The longest answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

#[derive(Args, Debug)]
pub(super) struct WebhookOptions {
    /// Send each checkpoint to this URL in a signed POST, and take the verdict from the reply, instead of CMD
    #[arg(long, value_name = "URL", requires = "webhook_secret_file", conflicts_with = "command")]
    webhook: Option<String>,
    /// The file with the secret that signs the POST
    #[arg(long, value_name = "FILE", requires = "webhook", conflicts_with = "command")]
    webhook_secret_file: Option<PathBuf>,
}

impl WebhookOptions {
    /// The service, if one judges.
    pub(super) fn webhook(&self, timeout: Option<Span>) -> Result<Option<Webhook>, Failure> {
        let (Some(url), Some(file)) = (&self.webhook, &self.webhook_secret_file) else { return Ok(None) };
        // A URL may hold a secret: it is not repeated.
        let wrong = |why| {
            Failure::usage(
                format!("--webhook cannot be used: {why}"),
                "such as --webhook https://example.org/judge",
            )
        };
        let receiver = Receiver::new(url, webhooks::secret(file)?).map_err(wrong)?;
        if receiver.is_open() {
            return Err(Failure::usage(
                "over http:// everybody on the way could read the checkpoint, and answer in the place of --webhook",
                "use https://, or a tunnel to 127.0.0.1",
            ));
        }
        let timeout = Duration::from_millis(timeout.unwrap_or(TIMEOUT).as_millis());
        Ok(Some(Webhook { receiver, timeout, pauses: Pauses::default() }))
    }
}

/// A service that judges.
pub(super) struct Webhook {
    receiver: Receiver,
    timeout: Duration,
    /// Since its last verdict.
    pauses: Pauses,
}

impl Webhook {
    /// Asks it once.
    pub(super) async fn judge(&mut self, election: &ElectionName, subject: &JudgedCheckpoint) -> Verdict {
        let key = key(election, subject);
        let question = json!({
            "type": "checkpoint", "key": key, "election": election, "leader": subject.leader,
            "token": subject.token, "checkpoint": subject.checkpoint,
        });
        let asked =
            self.receiver.ask(&key, question.to_string().into_bytes(), self.timeout, MAX_ANSWER_BYTES);
        match asked.await.and_then(|answer| read(&answer, &key)) {
            Ok(verdict) => {
                self.pauses = Pauses::default();
                verdict
            }
            Err(why) => {
                let pause = u64::try_from(self.pauses.another().as_millis()).unwrap_or(u64::MAX);
                Verdict::Later(short(why), Span::millis(pause))
            }
        }
    }
}

/// What tells a question from all others, however often it is asked.
fn key(election: &ElectionName, subject: &JudgedCheckpoint) -> String {
    format!("{election}:{}:{}:{}", subject.token, subject.checkpoint.seq, subject.checkpoint.hash)
}

/// What the service answers.
#[derive(Deserialize)]
struct Answer {
    /// That of the question.
    key: String,
    verdict: AnswerVerdict,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum AnswerVerdict {
    Pass,
    Fail,
}

/// The verdict in an answer to the question of this key; why there is none, otherwise.
fn read(answer: &[u8], key: &str) -> Result<Verdict, String> {
    let answer: Answer =
        serde_json::from_slice(answer).map_err(|error| format!("its answer was not understood: {error}"))?;
    if answer.key != key {
        return Err("its answer is about something else than it was asked".to_string());
    }
    // One line, as of a command.
    let reason = short(answer.reason.split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(match answer.verdict {
        AnswerVerdict::Pass => Verdict::Good(reason),
        AnswerVerdict::Fail if reason.is_empty() => Verdict::Bad("it gave no reason".to_string()),
        AnswerVerdict::Fail => Verdict::Bad(reason),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "fleet/eu:3:17:00ff";

    fn said(answer: &str) -> Result<Verdict, String> {
        read(answer.as_bytes(), KEY)
    }

    #[test]
    fn an_answer_passes_or_fails_with_a_reason() {
        let passed = said(r#"{"key": "fleet/eu:3:17:00ff", "verdict": "pass", "more": [1]}"#).unwrap();
        assert!(matches!(passed, Verdict::Good(reason) if reason.is_empty()));
        let failed =
            said(r#"{"verdict": "fail", "reason": " two\n tests\tfail ", "key": "fleet/eu:3:17:00ff"}"#)
                .unwrap();
        assert!(matches!(failed, Verdict::Bad(reason) if reason == "two tests fail"));
        let silent = said(r#"{"key": "fleet/eu:3:17:00ff", "verdict": "fail"}"#).unwrap();
        assert!(matches!(silent, Verdict::Bad(reason) if reason == "it gave no reason"));
        let long = json!({"key": KEY, "verdict": "fail", "reason": "é".repeat(9_000)}).to_string();
        assert!(matches!(said(&long).unwrap(), Verdict::Bad(reason) if reason.len() <= 512));
    }

    #[test]
    fn what_says_neither_or_is_about_something_else_is_no_verdict() {
        for answer in [
            "",
            "fail",
            "null",
            "{}",
            r#""fail""#,
            r#"{"verdict": "fail", "reason": "no key"}"#,
            r#"{"key": "fleet/eu:3:17:00ff"}"#,
            r#"{"key": "fleet/eu:3:17:00ff", "verdict": "FAIL"}"#,
            r#"{"key": "fleet/eu:3:17:00ff", "verdict": false}"#,
            r#"{"key": "fleet/eu:3:17:00ff", "verdict": "fail", "reason": 7}"#,
            r#"{"key": "fleet/eu:3:17:00ff", "verdict": "pass", "verdict": "fail"}"#,
            r#"{"key": "fleet/eu:3:17:00ff", "verdict": "fail"} and more"#,
            r#"{"key": "fleet/eu:3:17:00ff", "verdict": "fail""#,
            r#"{"key": "fleet/eu:2:17:00ff", "verdict": "fail"}"#,
            r#"{"key": "fleet/eu:3:16:00ff", "verdict": "fail"}"#,
            r#"{"key": "fleet/eu:3:17:00fe", "verdict": "fail"}"#,
            r#"{"key": "fleet/us:3:17:00ff", "verdict": "fail"}"#,
        ] {
            assert!(said(answer).is_err(), "{answer}");
        }
        assert!(read(b"\xff\xfe", KEY).is_err());
    }
}
