//! A leadership under which CMD runs, and what goes with it.

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

/// A leadership, renewed until it is lost, released or dropped.
pub(super) struct Office {
    pub(super) lead: Leadership,
    pub(super) judge: Judge,
    /// The judgement on its way, if there is one.
    pub(super) judging: Option<Judging>,
    grace: Span,
    outlives_lease: bool,
    duty: Duty,
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
        let (ttl, credential) = (grant.ttl, grant.credential);
        let lead = runner.context.coordinator.lead(&election, &runner.bid, grant)?;
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
            environment: environment(&runner.store, &lead, files),
            checkpoint: files.checkpoint.clone(),
        };
        let grace = runner.options.grace.unwrap_or_else(|| lease::default_grace(ttl));
        let outlives_lease = runner.options.on_outage == OnOutage::ReadOnly;
        Ok(Office { lead, judge, judging: None, grace, outlives_lease, duty })
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
        if judged.published {
            self.lead.progress();
        }
        Ok(judged.verdict)
    }

    /// Ends this leadership for a failed validation.
    pub(super) async fn condemn(&self, verdict: &str) {
        let lead = &self.lead;
        let credential = Some(lead.credential());
        let told = self.judge.coordinator.report(
            lead.election(),
            lead.token(),
            Finding::Validation,
            verdict,
            lead.agent(),
            credential,
        );
        let _ = told.await;
    }
}

fn environment(store: &str, lead: &Leadership, files: &Files) -> Vec<(String, String)> {
    let path = |path: &std::path::Path| path.display().to_string();
    [
        ("BATON_ELECTION", lead.election().to_string()),
        ("BATON_AGENT", lead.agent().to_string()),
        ("BATON_TOKEN", lead.token().to_string()),
        ("BATON_TOKEN_FILE", path(&files.token)),
        ("BATON_KEY", lead.credential().to_string()),
        ("BATON_KEY_FILE", path(&files.key)),
        ("BATON_MODE_FILE", path(&files.mode)),
        ("BATON_STORE", store.to_string()),
        ("BATON_CHECKPOINT_FILE", path(&files.checkpoint)),
        ("BATON_PROGRESS_FILE", path(&files.progress)),
        ("BATON_HANDOVER_FILE", path(&files.handover)),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into()
}
