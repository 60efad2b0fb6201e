//! Whether the leader is useful: progress, checkpoints, and what the validator says of them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use baton::election::Epoch;
use baton_warden::{CommandExit, Validation};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::files::{self, Files};
use crate::checkpoint_file::{self, CheckpointFile, FileState, Publisher};
use crate::exit::Exit;
use crate::output::Failure;
use crate::state_folder::write_private;

/// How often CMD's files are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The longest that a validator may take.
const VALIDATOR_TIMEOUT: Duration = Duration::from_secs(600);

/// What was seen of CMD's files.
pub(super) struct FileWatch {
    touched: Option<SystemTime>,
    seen: Option<FileState>,
    published: Option<FileState>,
}

/// What a look at CMD's files showed.
pub(super) struct FileChanges {
    /// There was progress.
    pub(super) progress: bool,
    /// There is a new checkpoint that CMD has finished writing.
    pub(super) checkpoint: Option<FileState>,
}

impl FileWatch {
    pub(super) fn new(files: &Files) -> FileWatch {
        FileWatch { touched: files::touched(&files.progress), seen: None, published: None }
    }

    /// A checkpoint that stands still from one look to the next is whole.
    pub(super) fn look(&mut self, files: &Files) -> FileChanges {
        let touched = files::touched(&files.progress);
        let progress = touched != self.touched;
        self.touched = touched;
        let mark = checkpoint_file::mark(&files.checkpoint);
        let whole = mark.filter(|mark| self.seen == Some(*mark) && self.published != Some(*mark));
        self.seen = mark;
        FileChanges { progress, checkpoint: whole }
    }

    /// What CMD left at its end, if it is not published yet.
    pub(super) fn last(&self, files: &Files) -> Option<FileState> {
        checkpoint_file::mark(&files.checkpoint).filter(|mark| self.published != Some(*mark))
    }

    pub(super) fn published(&mut self, mark: FileState) {
        self.published = Some(mark);
    }

    /// Whatever is there is not to be published, nor by the warden.
    pub(super) fn disregard(&mut self, files: &Files, left: &CheckpointFile) {
        self.published = checkpoint_file::mark(&files.checkpoint);
        let _ = self.published.map(|mark| left.settle(mark));
    }
}

/// Who judges checkpoints and publishes those that are good, beside the watch over CMD: neither a slow store nor a slow
/// validator may keep a renewal from the warden.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) publisher: Publisher,
    pub(super) left: CheckpointFile,
    pub(super) validator: Option<String>,
    pub(super) environment: Vec<(String, String)>,
    /// Where the validator finds what it is asked about: CMD may write the next checkpoint meanwhile.
    pub(super) judged: PathBuf,
}

/// What became of a checkpoint.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// It stands for the successor.
    pub(super) published: bool,
    /// Why it does not.
    pub(super) failed: Option<String>,
    /// Why it covers nothing, although it should.
    pub(super) uncovered: Option<String>,
    /// What the validator has against it.
    pub(super) verdict: Option<String>,
    /// The state of the file that needs no other look.
    pub(super) settled: Option<FileState>,
}

/// A question to the validator, which the warden runs, and where the answer goes.
pub(super) struct Question {
    pub(super) validation: Validation,
    /// Dropped where the validator did not end by itself.
    pub(super) answer: oneshot::Sender<(CommandExit, String)>,
}

/// What a judgement on its way brings next.
pub(super) enum JudgementStep {
    /// It needs the validator.
    Asks(Question),
    /// It is done.
    Done(Result<Judgement, Failure>),
}

/// A judgement on its way. Dropped, it is given up; a validator that works for it goes on until the warden is told to end it.
pub(super) struct PendingJudgement {
    task: JoinHandle<Result<Judgement, Failure>>,
    questions: mpsc::Receiver<Question>,
}

impl Drop for PendingJudgement {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PendingJudgement {
    /// Judges what CMD wrote, and publishes it if it is good.
    pub(super) fn of_checkpoint(judge: Judge, token: Epoch) -> PendingJudgement {
        let (ask, questions) = mpsc::channel(1);
        PendingJudgement { task: tokio::spawn(async move { judge.publish(token, &ask).await }), questions }
    }

    /// Judges what CMD did.
    pub(super) fn of_work(judge: Judge) -> PendingJudgement {
        let (ask, questions) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let verdict = judge.ask(&judge.left.file, &ask).await.map_err(|why| {
                Failure::new(Exit::Error, "validator", why, "the work of CMD was not judged; run it again")
            })?;
            Ok(Judgement { verdict, ..Judgement::default() })
        });
        PendingJudgement { task, questions }
    }

    /// Waits for its next step; for ever if there is none.
    pub(super) async fn step(judging: &mut Option<PendingJudgement>) -> JudgementStep {
        let Some(PendingJudgement { task, questions }) = judging else { return std::future::pending().await };
        tokio::select! {
            biased;
            Some(question) = questions.recv() => JudgementStep::Asks(question),
            judged = task => JudgementStep::Done(match judged {
                Ok(judged) => judged,
                Err(error) => Err(std::io::Error::other(error).into()),
            }),
        }
    }
}

impl Judge {
    /// What the validator refuses is not published: the successor finds the last one that was good.
    async fn publish(&self, token: Epoch, ask: &mpsc::Sender<Question>) -> Result<Judgement, Failure> {
        let failed = |why: String| Ok(Judgement { failed: Some(why), ..Judgement::default() });
        // Before it is read: what is written meanwhile is another checkpoint.
        let mark = checkpoint_file::mark(&self.left.file);
        let bytes = match checkpoint_file::read(&self.left.file).await {
            Ok(bytes) => bytes,
            Err(why) => return failed(why),
        };
        if self.validator.is_some() {
            if let Err(failure) = write_private(&self.judged, &bytes) {
                return failed(failure.message);
            }
            match self.ask(&self.judged, ask).await {
                Ok(None) => {}
                Ok(Some(verdict)) => {
                    let verdict = Some(format!("{verdict}; this checkpoint is not published"));
                    return Ok(Judgement { verdict, settled: mark, ..Judgement::default() });
                }
                Err(why) => return failed(why),
            }
        }
        match self.publisher.publish(token, bytes).await {
            Ok(uncovered) => {
                Ok(Judgement { published: true, uncovered, settled: mark, ..Judgement::default() })
            }
            Err(why) => failed(why),
        }
    }

    /// What the validator has against the checkpoint in this file, or against what CMD did.
    ///
    /// # Errors
    /// It gave no answer; why.
    async fn ask(&self, checkpoint: &Path, ask: &mpsc::Sender<Question>) -> Result<Option<String>, String> {
        let Some(validator) = &self.validator else { return Ok(None) };
        let judged = ("BATON_CHECKPOINT_FILE".to_string(), checkpoint.display().to_string());
        let validation = Validation {
            command: ["/bin/sh", "-c", validator].map(String::from).to_vec(),
            env: self.environment.iter().cloned().chain([judged]).collect(),
        };
        let (answer, answered) = oneshot::channel();
        let ended = || "the validator was ended before it answered".to_string();
        ask.send(Question { validation, answer }).await.map_err(|_| ended())?;
        let Ok(answered) = tokio::time::timeout(VALIDATOR_TIMEOUT, answered).await else {
            return Ok(Some("the validator did not answer in ten minutes".to_string()));
        };
        let (how, said) = answered.map_err(|_| ended())?;
        let how = match how {
            CommandExit::Exit(0) => return Ok(None),
            CommandExit::Exit(code) => format!("exit code {code}"),
            CommandExit::Signal(signal) => format!("signal {signal}"),
            CommandExit::Unstarted(why) => return Err(format!("the validator could not be run: {why}")),
        };
        let last: String = said.chars().take(200).collect();
        let words = if last.is_empty() { last } else { format!(": {last}") };
        Ok(Some(format!("the validator said no ({how}){words}")))
    }
}
