//! Whether the leader is useful: progress, checkpoints, and what the validator says of them.

use std::process::Stdio;
use std::time::{Duration, SystemTime};

use baton_warden::Household;
use tokio::process::Command;

use super::files::{self, Files, Mark};
use crate::output::Failure;

/// How often CMD's files are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The longest that a validator may take.
const VALIDATOR_TIMEOUT: Duration = Duration::from_secs(600);

/// What was seen of CMD's files.
pub(super) struct Lookout {
    touched: Option<SystemTime>,
    seen: Option<Mark>,
    published: Option<Mark>,
}

/// What a look at CMD's files showed.
pub(super) struct Sight {
    /// There was progress.
    pub(super) progress: bool,
    /// There is a new checkpoint that CMD has finished writing.
    pub(super) checkpoint: Option<Mark>,
}

impl Lookout {
    pub(super) fn new(files: &Files) -> Lookout {
        Lookout { touched: files::touched(&files.progress), seen: None, published: None }
    }

    /// A checkpoint that stands still from one look to the next is whole.
    pub(super) fn look(&mut self, files: &Files) -> Sight {
        let touched = files::touched(&files.progress);
        let progress = touched != self.touched;
        self.touched = touched;
        let mark = files::mark(&files.checkpoint);
        let whole = mark.filter(|mark| self.seen == Some(*mark) && self.published != Some(*mark));
        self.seen = mark;
        Sight { progress, checkpoint: whole }
    }

    /// What CMD left at its end, if it is not published yet.
    pub(super) fn last(&self, files: &Files) -> Option<Mark> {
        files::mark(&files.checkpoint).filter(|mark| self.published != Some(*mark))
    }

    pub(super) fn published(&mut self, mark: Mark) {
        self.published = Some(mark);
    }
}

/// Asks the validator. None if it is content, else what is wrong.
pub(super) async fn validate(
    household: Household,
    validator: &str,
    environment: &[(String, String)],
) -> Result<Option<String>, Failure> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(validator).envs(environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = household.spawn(|| command.spawn())?;
    let Ok(done) = tokio::time::timeout(VALIDATOR_TIMEOUT, child.wait_with_output()).await else {
        return Ok(Some("the validator did not answer in ten minutes".to_string()));
    };
    let done = done?;
    if done.status.success() {
        return Ok(None);
    }
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let last: String = last.chars().take(200).collect();
    Ok(Some(format!("the validator said no ({}): {last}", done.status)))
}
