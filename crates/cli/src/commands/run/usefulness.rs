//! Whether the leader is useful: progress, checkpoints, and what the validator says of them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use baton::Coordinator;
use baton::election::{Credential, ElectionName, Epoch};
use baton_warden::Household;
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::files::{self, Files, Mark};
use crate::covering;
use crate::output::Failure;
use crate::state::{StateFolder, write_private};

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

    /// Whatever is there is not to be published.
    pub(super) fn disregard(&mut self, files: &Files) {
        self.published = files::mark(&files.checkpoint);
    }
}

/// Who judges checkpoints and publishes those that are good, beside the watch over CMD: neither a slow store nor a slow
/// validator may keep a renewal from the warden.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) coordinator: Coordinator,
    pub(super) election: ElectionName,
    pub(super) credential: Credential,
    pub(super) state: StateFolder,
    pub(super) household: Household,
    pub(super) validator: Option<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) checkpoint: PathBuf,
    /// Where the validator finds what it is asked about: CMD may write the next checkpoint meanwhile.
    pub(super) judged: PathBuf,
}

/// What became of a checkpoint.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// It stands for the successor.
    pub(super) published: bool,
    /// Why it does not.
    pub(super) failed: Option<String>,
    /// Why it covers nothing, although it should.
    pub(super) uncovered: Option<String>,
    /// What the validator has against it.
    pub(super) verdict: Option<String>,
}

/// A judgement on its way. Dropped, it is given up.
pub(super) struct Judging(JoinHandle<Result<Judged, Failure>>);

impl Drop for Judging {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Judging {
    /// Judges what CMD wrote, and publishes it if it is good.
    pub(super) fn of_checkpoint(judge: Judge, token: Epoch) -> Judging {
        Judging(tokio::spawn(async move { judge.publish(token).await }))
    }

    /// Judges what CMD did.
    pub(super) fn of_work(judge: Judge) -> Judging {
        Judging(tokio::spawn(async move {
            Ok(Judged { verdict: judge.ask(&judge.checkpoint).await?, ..Judged::default() })
        }))
    }

    /// Waits for it; for ever if there is none.
    pub(super) async fn of(judging: &mut Option<Judging>) -> Result<Judged, Failure> {
        match judging {
            None => std::future::pending().await,
            Some(Judging(task)) => match task.await {
                Ok(judged) => judged,
                Err(error) => Err(std::io::Error::other(error).into()),
            },
        }
    }
}

impl Judge {
    /// What the validator refuses is not published: the successor finds the last one that was good.
    async fn publish(&self, token: Epoch) -> Result<Judged, Failure> {
        let failed = |why: String| Ok(Judged { failed: Some(why), ..Judged::default() });
        let bytes = match std::fs::read(&self.checkpoint) {
            Ok(bytes) => bytes,
            Err(error) => return failed(error.to_string()),
        };
        if self.validator.is_some() {
            if let Err(failure) = write_private(&self.judged, &bytes) {
                return failed(failure.message);
            }
            if let Some(verdict) = self.ask(&self.judged).await? {
                let verdict = Some(format!("{verdict}; this checkpoint is not published"));
                return Ok(Judged { verdict, ..Judged::default() });
            }
        }
        let (mut content, places) = match files::checkpoint_of(&bytes, &self.state) {
            Ok(read) => read,
            Err(failure) => return failed(failure.message),
        };
        let mut uncovered = None;
        if !places.is_empty() {
            match covering::cover(places, &self.state, content.state.len()).await {
                Ok(covers) => content.covers = Some(covers),
                // The state is worth more than the knowledge of what was changed after it.
                Err(failure) => uncovered = Some(failure.message),
            }
        }
        let (election, credential) = (&self.election, self.credential);
        if let Err(error) = self.coordinator.checkpoint(election, token, credential, &content).await {
            return failed(error.to_string());
        }
        Ok(Judged { published: true, uncovered, ..Judged::default() })
    }

    /// What the validator has against the checkpoint in this file, or against what CMD did.
    async fn ask(&self, checkpoint: &Path) -> Result<Option<String>, Failure> {
        let Some(validator) = &self.validator else { return Ok(None) };
        let judged = ("BATON_CHECKPOINT_FILE".to_string(), checkpoint.display().to_string());
        let environment = self.environment.iter().cloned().chain([judged]);
        validate(self.household, validator, environment).await
    }
}

/// Asks the validator. None if it is content, else what is wrong.
async fn validate(
    household: Household,
    validator: &str,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Option<String>, Failure> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(validator).envs(environment);
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
    let words = if last.is_empty() { last } else { format!(": {last}") };
    Ok(Some(format!("the validator said no ({}){words}", done.status)))
}
