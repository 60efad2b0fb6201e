//! Whom a server tells of changes of leader.

use std::path::{Path, PathBuf};

use baton_server::{Receiver, Secret};
use clap::Args;

use crate::output::Failure;
use crate::secrets;

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
        Ok(Some((receivers, secret(file)?)))
    }
}

fn secret(path: &Path) -> Result<Secret, Failure> {
    Secret::new(&secrets::read(path)?).ok_or_else(|| secrets::too_short(path))
}
