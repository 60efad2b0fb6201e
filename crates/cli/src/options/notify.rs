//! Waiting until those who follow an election know that its leader has left.

use std::time::Duration;

use baton::api::sessions::NotifyReport;
use baton::election::time::Span;
use baton::{Coordinator, Error};
use clap::Args;
use serde_json::{Value, json};

use crate::exit::Speaker;
use crate::output::Failure;

/// The longest that a server waits.
const LONGEST: Span = Span::secs(60);

/// Whether to wait.
#[derive(Args, Clone, Debug)]
pub(crate) struct NotifyOptions {
    /// After the release, wait up to this long (at most 1m) until all followers with a session acknowledge it; needs a server
    #[arg(long, value_name = "DURATION")]
    notify_timeout: Option<Span>,
}

impl NotifyOptions {
    /// How long to wait, if at all. Refused where nobody can know who follows: to wait for nobody would look as if all knew.
    pub(crate) fn wait(&self, coordinator: &Coordinator) -> Result<Option<Duration>, Failure> {
        let Some(wait) = self.notify_timeout else { return Ok(None) };
        if wait > LONGEST {
            return Err(Failure::usage(
                format!("a wait of {wait} is too long"),
                format!("use at most {LONGEST}"),
            ));
        }
        coordinator.tells_followers().map_err(|error| match error {
            Error::Refused(refusal) => Failure::usage(format!("--notify-timeout: {refusal}"), refusal.hint()),
            error => Failure::from_error(&error, Speaker::Holder),
        })?;
        Ok(Some(Duration::from_nanos(wait.as_nanos())))
    }
}

/// The followers that acknowledged, for programs.
pub(crate) fn data(notified: &NotifyReport) -> Value {
    json!({ "told": notified.told, "silent": notified.silent, "waited_ms": notified.waited_ms })
}

/// The followers that acknowledged, for people.
pub(crate) fn text(notified: &NotifyReport) -> String {
    let followers = |count: u64| if count == 1 { "1 follower".into() } else { format!("{count} followers") };
    if notified.silent.is_empty() {
        return match notified.told {
            0 => "nobody follows with a session".to_string(),
            told => format!("{} acknowledged", followers(told)),
        };
    }
    let silent: Vec<&str> = notified.silent.iter().map(|agent| agent.as_str()).collect();
    let waited = Span::millis(notified.waited_ms);
    format!("{} acknowledged; no answer within {waited} from {}", followers(notified.told), silent.join(", "))
}
