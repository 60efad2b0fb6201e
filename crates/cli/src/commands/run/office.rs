//! A leadership under which CMD runs, and what goes with it.

use baton::election::Answer;
use baton::election::command::Finding;
use baton::election::lease;
use baton::election::time::Span;
use baton::{Error, Grant, Leadership};
use baton_warden::{Lead, Sign, Start};

use super::files::Files;
use super::usefulness::{Judge, Judged, Judging};
use super::{OnOutage, Runner};
use crate::custody::{Duty, GivesBack, RunFolder, boot_time};
use crate::output::Failure;
use crate::region;

/// A leadership, renewed until it is lost, released or dropped.
pub(super) struct Office {
    pub(super) lead: Leadership,
    pub(super) judge: Judge,
    /// The judgement on its way, if there is one.
    pub(super) judging: Option<Judging>,
    grace: Span,
    outlives_lease: bool,
    duty: Duty,
    /// What must not fail while it leads.
    pub(super) depends: Vec<String>,
    /// Good verdicts are worth telling.
    pub(super) counts_verdicts: bool,
}

impl Office {
    /// Begins to renew.
    ///
    /// # Errors
    /// [`Error::Lost`] if the grant was heard of too late.
    pub(super) fn take(
        runner: &Runner<'_>,
        folder: &RunFolder,
        files: &Files,
        grant: Grant,
    ) -> Result<Office, Error> {
        let election = runner.options.election.clone();
        let (lasts, credential) = (grant.lasts(), grant.credential);
        let depends = grant.document.policy.depends.clone();
        let counts_verdicts = grant.document.policy.performance.is_some();
        let lead = runner.context.coordinator.lead(&election, &runner.bid, grant)?;
        region::note(&files.lease, &lead);
        let duty = Duty {
            store: runner.store.clone(),
            folder: folder.path().to_path_buf(),
            gives_back: GivesBack::Lease { election: election.clone(), epoch: lead.token(), credential },
        };
        let judge = Judge {
            coordinator: runner.context.coordinator.clone(),
            election,
            credential,
            state: runner.context.state.clone(),
            household: runner.household,
            validator: runner.options.validate.clone(),
            environment: environment(runner, &lead, files)?,
            checkpoint: files.checkpoint.clone(),
            judged: files.judged.clone(),
        };
        let grace = runner.options.grace.unwrap_or_else(|| lease::default_grace(lasts));
        let outlives_lease = runner.options.on_outage == OnOutage::ReadOnly;
        Ok(Office { lead, judge, judging: None, grace, outlives_lease, duty, depends, counts_verdicts })
    }

    /// What CMD is shown of it.
    pub(super) fn sign(&self, files: &Files) -> Sign {
        let papers = files.papers(self.lead.token(), self.lead.credential());
        Sign { mode: files.mode.clone(), papers, outlives_lease: self.outlives_lease }
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
            sign: self.sign(files),
        }
    }

    /// Tells what became of a checkpoint; returns what the validator has against it.
    pub(super) fn heed(&self, runner: &Runner<'_>, judged: Judged) -> Result<Option<String>, Failure> {
        if let Some(why) = &judged.failed {
            runner.voice.tell("checkpoint-failed", None, &format!("the checkpoint is lost: {why}"))?;
        }
        if let Some(why) = &judged.uncovered {
            let text = format!("the checkpoint stands, and covers nothing: {why}");
            runner.voice.tell("checkpoint-uncovered", None, &text)?;
        }
        if judged.published {
            self.lead.progress();
        }
        Ok(judged.verdict)
    }

    /// Reports on itself. Whether the leadership ends by it: always, unless the policy counts verdicts and this is not one too many.
    pub(super) async fn report(&self, finding: Finding, detail: &str) -> bool {
        let lead = &self.lead;
        let credential = Some(lead.credential());
        let told = self.judge.coordinator.report(
            lead.election(),
            lead.token(),
            finding,
            detail,
            lead.agent(),
            credential,
        );
        !matches!(told.await, Ok(Answer::Done { ended: None, .. }))
    }
}

fn environment(
    runner: &Runner<'_>,
    lead: &Leadership,
    files: &Files,
) -> std::io::Result<Vec<(String, String)>> {
    let path = |path: &std::path::Path| path.display().to_string();
    let description = runner.options.describe.as_ref().map(std::path::absolute).transpose()?;
    let of_region = runner.region.as_ref().map(|around| around.environment()).unwrap_or_default();
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
