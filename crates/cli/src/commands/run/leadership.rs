//! A leadership under which CMD runs, and what goes with it.

use baton::election::Answer;
use baton::election::command::Finding;
use baton::election::lease;
use baton::election::time::Span;
use baton::{Error, Grant, Leadership};
use baton_warden::{Lead, Start, StatusFiles};
use tokio::task::JoinHandle;

use super::files::Files;
use super::removal_rules::{Judge, Judgement, PendingJudgement};
use super::{OnOutage, Runner};
use crate::checkpoint_file::{CheckpointFile, Publisher};
use crate::output::Failure;
use crate::region;
use crate::warden_process::{Duty, Holding, RunFolder, boot_time};

/// A leadership, renewed until it is lost, released or dropped.
pub(super) struct LeadershipRun {
    pub(super) lead: Leadership,
    pub(super) judge: Judge,
    /// The judgement on its way, if there is one.
    pub(super) judging: Option<PendingJudgement>,
    /// The report on its way, if there is one.
    pub(super) reporting: Option<PendingReport>,
    pub(super) grace: Span,
    outlives_lease: bool,
    duty: Duty,
    /// What must not fail while it leads.
    pub(super) depends: Vec<String>,
    /// Good verdicts are worth telling.
    pub(super) counts_verdicts: bool,
}

impl LeadershipRun {
    /// Begins to renew.
    ///
    /// # Errors
    /// [`Error::Lost`] if the grant was heard of too late.
    pub(super) fn take(
        runner: &Runner<'_>,
        folder: &RunFolder,
        files: &Files,
        grant: Grant,
    ) -> Result<LeadershipRun, Error> {
        let election = runner.options.election.clone();
        let (lasts, credential) = (grant.lasts(), grant.credential);
        let depends = grant.document.policy.depends.clone();
        let counts_verdicts = grant.document.policy.performance.is_some();
        let lead = runner.context.coordinator.lead(&election, &runner.bid, grant)?;
        region::note(&files.lease, &lead);
        let left = CheckpointFile::new(&files.checkpoint, runner.options.validate.is_some());
        let duty = Duty {
            store: runner.store.clone(),
            folder: folder.path().to_path_buf(),
            gives_back: Holding::Lease {
                election: election.clone(),
                epoch: lead.token(),
                credential,
                left: left.clone(),
            },
        };
        let (coordinator, state) = (runner.context.coordinator.clone(), runner.context.state.clone());
        let judge = Judge {
            publisher: Publisher { coordinator, election, credential, state },
            left,
            validator: runner.options.validate.clone(),
            environment: environment(runner, &lead, files)?,
            judged: files.judged.clone(),
        };
        let grace = runner.options.grace.unwrap_or_else(|| lease::default_grace(lasts));
        let outlives_lease = runner.options.on_outage == OnOutage::ReadOnly;
        Ok(LeadershipRun {
            lead,
            judge,
            judging: None,
            reporting: None,
            grace,
            outlives_lease,
            duty,
            depends,
            counts_verdicts,
        })
    }

    /// What CMD is shown of it.
    pub(super) fn sign(&self, files: &Files) -> StatusFiles {
        let papers = files.papers(self.lead.token(), self.lead.credential());
        StatusFiles { mode: files.mode.clone(), secrets: papers, outlives_lease: self.outlives_lease }
    }

    /// The order to run CMD under it.
    pub(super) fn start(&self, command: &[String]) -> Start {
        Start {
            command: command.to_vec(),
            env: self.judge.environment.clone(),
            deadline: boot_time(self.lead.deadline()),
            grace_ms: self.grace.as_millis(),
            ticket: self.duty.ticket(),
        }
    }

    /// The order to go on with CMD under it.
    pub(super) fn resume(&self, files: &Files) -> Lead {
        Lead {
            deadline: boot_time(self.lead.deadline()),
            grace_ms: self.grace.as_millis(),
            ticket: self.duty.ticket(),
            status_files: self.sign(files),
        }
    }

    /// Tells what became of a checkpoint; returns what the validator has against it.
    pub(super) fn heed(&self, runner: &Runner<'_>, judged: Judgement) -> Result<Option<String>, Failure> {
        if let Some(why) = &judged.failed {
            runner.events.tell(
                "checkpoint-failed",
                None,
                &format!("the checkpoint is not published: {why}"),
            )?;
        }
        if let Some(why) = &judged.uncovered {
            let text = format!("the checkpoint stands, and covers nothing: {why}");
            runner.events.tell("checkpoint-uncovered", None, &text)?;
        }
        let _ = judged.settled.map(|mark| self.judge.left.settle(mark));
        if judged.published {
            self.lead.progress();
        }
        Ok(judged.verdict)
    }

    /// Reports on itself, beside the watch over CMD and after what was reported before.
    pub(super) fn report(&mut self, finding: Finding, detail: &str) {
        let (coordinator, credential) = (self.judge.publisher.coordinator.clone(), self.lead.credential());
        let (election, agent) = (self.lead.election().clone(), self.lead.agent().clone());
        let (token, detail) = (self.lead.token(), detail.to_string());
        let earlier = self.reporting.take();
        self.reporting = Some(PendingReport(tokio::spawn(async move {
            if let Some(PendingReport(earlier)) = earlier {
                let _ = earlier.await;
            }
            let told = coordinator.report(&election, token, finding, &detail, &agent, Some(credential)).await;
            let ended = !matches!(told, Ok(Answer::Done { ended: None, .. }));
            ReportOutcome { finding, detail, ended }
        })));
    }
}

/// A report on its way to the store.
pub(super) struct PendingReport(JoinHandle<ReportOutcome>);

/// What came of a report.
pub(super) struct ReportOutcome {
    pub(super) finding: Finding,
    pub(super) detail: String,
    /// The leadership ends by it: always, unless the policy counts verdicts and this is not one too many.
    pub(super) ended: bool,
}

impl PendingReport {
    /// Waits for the answer; for ever if there is none on its way.
    pub(super) async fn of(reporting: &mut Option<PendingReport>) -> Result<ReportOutcome, Failure> {
        match reporting {
            None => std::future::pending().await,
            Some(PendingReport(task)) => Ok(task.await.map_err(std::io::Error::other)?),
        }
    }
}

fn environment(
    runner: &Runner<'_>,
    lead: &Leadership,
    files: &Files,
) -> std::io::Result<Vec<(String, String)>> {
    let path = |path: &std::path::Path| path.display().to_string();
    let description = runner.options.describe.as_ref().map(std::path::absolute).transpose()?;
    let of_region = runner.region.as_ref().map(|region_run| region_run.environment()).unwrap_or_default();
    let variables = [
        ("BATON_ELECTION", lead.election().to_string()),
        ("BATON_AGENT", lead.agent().to_string()),
        ("BATON_TOKEN", lead.token().to_string()),
        ("BATON_TOKEN_FILE", path(&files.token)),
        ("BATON_KEY", lead.credential().to_string()),
        ("BATON_KEY_FILE", path(&files.key)),
        ("BATON_MODE_FILE", path(&files.mode)),
        ("BATON_LEASE_FILE", path(&files.lease)),
        ("BATON_STORE", runner.store.clone()),
        ("BATON_CHECKPOINT_FILE", path(&files.checkpoint)),
        ("BATON_PROGRESS_FILE", path(&files.progress)),
        ("BATON_HANDOVER_FILE", path(&files.handover)),
    ]
    .map(|(name, value)| (name.to_string(), value));
    let described = description.map(|file| ("BATON_DESCRIPTION_FILE".to_string(), path(&file)));
    Ok(variables.into_iter().chain(of_region).chain(described).collect())
}
