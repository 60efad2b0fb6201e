//! Whom a server tells of changes of leader.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
        Ok(Some((receivers, secret(file)?)))
    }
}

fn secret(path: &Path) -> Result<Secret, Failure> {
    let place = path.display();
    let unreadable = |error: std::io::Error| {
        Failure::usage(format!("{place} cannot be read: {error}"), "name a file with the secret")
    };
    let mut file = File::open(path).map_err(unreadable)?;
    if is_shared(&file.metadata().map_err(unreadable)?) {
        return Err(Failure::usage(
            format!("others can read the secret in {place}"),
            format!("chmod 600 {place}"),
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Secret::new(&text).ok_or_else(|| {
        Failure::usage(
            format!("the secret in {place} is shorter than 16 bytes"),
            "make one: (umask 077; openssl rand -hex 32 > FILE)",
        )
    })
}

/// Whether others than its owner can read a file, or change it. One that this user was given to read, such as a credential of a service
/// that is root's, is open to a group or by an access list: that shows in the bits of the group.
fn is_shared(file: &Metadata) -> bool {
    let own = file.uid() == rustix::process::geteuid().as_raw();
    file.mode() & if own { 0o077 } else { 0o007 } != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        for (mode, taken) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(secret(&file).is_ok(), taken, "{mode:o}");
        }
    }
}
