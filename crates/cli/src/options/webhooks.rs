//! Whom a server tells of changes of leader.

use std::path::{Path, PathBuf};

use baton_server::{Receiver, Secret};
use clap::Args;

use crate::output::Failure;
use crate::secrets;

/// The most webhooks.
const MAX_WEBHOOKS: usize = 16;

#[derive(Args, Debug)]
pub(crate) struct WebhookOptions {
    /// Send every change of leader to this URL, in a signed POST; repeatable
    #[arg(long, value_name = "URL", requires = "webhook_secret_file")]
    webhook: Vec<String>,
    /// The file with the secret that signs webhooks: one for all, or one for each, in their order
    #[arg(long, value_name = "FILE", requires = "webhook")]
    webhook_secret_file: Vec<PathBuf>,
}

impl WebhookOptions {
    /// The webhooks that get changes of leader, each with its signing secret.
    pub(crate) fn receivers(&self) -> Result<Option<Vec<Receiver>>, Failure> {
        if self.webhook.is_empty() {
            return Ok(None);
        }
        if self.webhook.len() > MAX_WEBHOOKS {
            return Err(Failure::usage(
                format!("{} webhooks are too many", self.webhook.len()),
                format!("give at most {MAX_WEBHOOKS}, and let one of them tell the others"),
            ));
        }
        let secrets = self.webhook_secret_file.iter().map(|file| secret(file));
        let mut secrets: Vec<Secret> = secrets.collect::<Result<_, _>>()?;
        if let [one] = &secrets[..] {
            secrets = vec![one.clone(); self.webhook.len()];
        }
        if secrets.len() != self.webhook.len() {
            return Err(Failure::usage(
                format!("{} webhooks do not fit {} secrets", self.webhook.len(), secrets.len()),
                "give one --webhook-secret-file for all, or one for each --webhook, in their order",
            ));
        }
        let mut receivers = Vec::new();
        for (number, (url, secret)) in self.webhook.iter().zip(secrets).enumerate() {
            // A URL may hold a secret: it is not repeated.
            let wrong = |why| {
                Failure::usage(
                    format!("--webhook number {} cannot be used: {why}", number + 1),
                    "such as --webhook https://example.org/baton",
                )
            };
            receivers.push(Receiver::new(url, secret).map_err(wrong)?);
        }
        Ok(Some(receivers))
    }
}

/// The secret in a file.
pub(crate) fn secret(path: &Path) -> Result<Secret, Failure> {
    Secret::new(&secrets::read(path)?).ok_or_else(|| secrets::too_short(path))
}
