//! Whom a server tells of changes of leader.

use std::path::PathBuf;

use baton_server::{Receiver, Secret};
use clap::Args;

use crate::output::Failure;

/// The most webhooks.
const MAX_WEBHOOKS: usize = 16;

#[derive(Args, Debug)]
pub(crate) struct Hooks {
    /// Tell this URL of every change of leader, by a signed POST; may be given several times
    #[arg(long, value_name = "URL", requires = "webhook_secret_file")]
    webhook: Vec<String>,
    /// The file with the secret that webhooks are signed with
    #[arg(long, value_name = "FILE", requires = "webhook")]
    webhook_secret_file: Option<PathBuf>,
}

impl Hooks {
    /// Who is told of changes of leader, and how that is signed.
    pub(crate) fn receivers(&self) -> Result<Option<(Vec<Receiver>, Secret)>, Failure> {
        let Some(file) = &self.webhook_secret_file else { return Ok(None) };
        if self.webhook.len() > MAX_WEBHOOKS {
            return Err(Failure::usage(
                format!("{} webhooks are too many", self.webhook.len()),
                format!("give at most {MAX_WEBHOOKS}, and let one of them tell the others"),
            ));
        }
        let mut receivers = Vec::new();
        for (number, url) in self.webhook.iter().enumerate() {
            // A URL may hold a secret: it is not repeated.
            let wrong = |why| {
                Failure::usage(
                    format!("--webhook number {} cannot be used: {why}", number + 1),
                    "such as --webhook https://example.org/baton",
                )
            };
            receivers.push(Receiver::new(url).map_err(wrong)?);
        }
        let unreadable = |error: std::io::Error| {
            Failure::usage(
                format!("{} cannot be read: {error}", file.display()),
                "name a file with the secret",
            )
        };
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let Some(secret) = Secret::new(&text) else {
            return Err(Failure::usage(
                format!("the secret in {} is shorter than 16 bytes", file.display()),
                "make one: openssl rand -hex 32 > FILE",
            ));
        };
        Ok(Some((receivers, secret)))
    }
}
