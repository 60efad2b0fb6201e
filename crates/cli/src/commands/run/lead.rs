//! One leadership: CMD runs in the care of the warden while the lease is renewed.

use baton::election::command::Finding;
use baton::election::document::Phase;
use baton::election::lease;
use baton::{Grant, Leadership, Status};
use baton_warden::{News, Report, Start, Ward, Why};

use super::Runner;
use super::files::Files;
use super::hearing::Hearing;
use super::usefulness::{Judge, Judged, Judging, LOOK_EVERY, Lookout};
use crate::custody::{Duty, GivesBack, RunFolder, boot_time};
use crate::exit::{Exit, Speaker};
use crate::output::Failure;

/// How a leadership ended.
pub(super) enum Ending {
    /// CMD ended, with this exit code.
    Finished(u8),
    /// The leadership was lost, and CMD was ended.
    Lost(String),
}

/// One leadership while CMD runs.
struct Turn<'a, 'b> {
    runner: &'a mut Runner<'b>,
    lead: Leadership,
    files: Files,
    lookout: Lookout,
    hearing: Hearing,
    judge: Judge,
    /// The judgement on its way, if there is one.
    judging: Option<Judging>,
    /// Why CMD is being stopped, once it is.
    stopping: Option<Stopping>,
}

enum Stopping {
    /// A signal asked for it.
    Asked,
    /// The leadership is over.
    Lost(String),
}

impl Runner<'_> {
    /// Leads until CMD ends or the leadership does. When this returns, nothing of CMD is left.
    pub(super) async fn lead(
        &mut self,
        folder: &RunFolder,
        mut ward: Ward,
        grant: Grant,
    ) -> Result<Ending, Failure> {
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Holder);
        let election = self.options.election.clone();
        let (ttl, credential) = (grant.ttl, grant.credential);
        let lead = match self.context.coordinator.lead(&election, &self.bid, grant) {
            Ok(lead) => lead,
            Err(baton::Error::Lost(why)) => return Ok(Ending::Lost(why)),
            Err(error) => return Err(fail(error)),
        };
        let files = Files::make(folder);
        files.write_token(lead.token())?;
        files.write_handover(lead.inherited())?;
        let environment = self.environment(&lead, &files);
        let duty = Duty {
            store: self.store.clone(),
            folder: folder.path().to_path_buf(),
            gives_back: GivesBack::Lease { election, epoch: lead.token(), credential },
        };
        let grace = self.options.grace.unwrap_or_else(|| lease::default_grace(ttl));
        let started = ward.start(Start {
            command: self.options.command.clone(),
            env: environment.clone(),
            deadline: boot_time(lead.deadline()),
            grace_ms: grace.as_millis(),
            ticket: duty.ticket(),
        });
        started.map_err(|error| Failure::new(Exit::Usage, "warden", error.to_string(), "see what CMD is"))?;
        let message =
            format!("{} leads {} with token {}", self.bid.agent, self.options.election, lead.token());
        self.voice.tell("leading", Some(lead.token()), &message)?;
        let lookout = Lookout::new(&files);
        let hearing = Hearing::begin(&mut ward)?;
        let judge = Judge {
            coordinator: self.context.coordinator.clone(),
            election: self.options.election.clone(),
            credential,
            state: self.context.state.clone(),
            household: self.household,
            validator: self.options.validate.clone(),
            environment,
            checkpoint: files.checkpoint.clone(),
        };
        let (judging, stopping) = (None, None);
        let mut turn = Turn { runner: self, lead, files, lookout, hearing, judge, judging, stopping };
        let code = turn.watch_over(&mut ward).await?;
        let (ending, hearing) = turn.finish(&mut ward, code).await?;
        let _ = ward.dismiss().await;
        hearing.end().await;
        Ok(ending)
    }

    fn environment(&self, lead: &Leadership, files: &Files) -> Vec<(String, String)> {
        let path = |path: &std::path::Path| path.display().to_string();
        [
            ("BATON_ELECTION", lead.election().to_string()),
            ("BATON_AGENT", lead.agent().to_string()),
            ("BATON_TOKEN", lead.token().to_string()),
            ("BATON_TOKEN_FILE", path(&files.token)),
            ("BATON_KEY", lead.credential().to_string()),
            ("BATON_STORE", self.store.clone()),
            ("BATON_CHECKPOINT_FILE", path(&files.checkpoint)),
            ("BATON_PROGRESS_FILE", path(&files.progress)),
            ("BATON_HANDOVER_FILE", path(&files.handover)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }
}

impl Turn<'_, '_> {
    /// Until nothing of CMD is left. Returns CMD's exit code.
    async fn watch_over(&mut self, ward: &mut Ward) -> Result<u8, Failure> {
        let mut status = self.lead.status();
        let mut terms = self.lead.terms();
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                news = ward.next_report() => match news {
                    Ok(News::Told(Report::Started { .. })) => self.lead.serving(),
                    Ok(News::Told(Report::Ended { how, why })) => {
                        if why == Why::Deadline && self.stopping.is_none() {
                            self.stopping = Some(Stopping::Lost("no renewal was answered in time".to_string()));
                        }
                        return Ok(how.exit_code());
                    }
                    Ok(News::Told(Report::Unkillable { pid, name })) => self.unkillable(pid, &name)?,
                    Ok(News::Told(Report::Kept { .. } | Report::Terminating { .. })) => {}
                    Ok(News::Overdue | News::Gone) | Err(_) => return self.seize(ward).await,
                },
                changed = status.changed() => {
                    let lost = match &*status.borrow_and_update() {
                        Status::Lost(why) => Some(why.clone()),
                        Status::Safe | Status::Jeopardy(_) | Status::AwaitingApproval => None,
                    };
                    if changed.is_err() || lost.is_some() {
                        status = self.stop_losing(ward, lost.unwrap_or_default());
                    }
                }
                Ok(()) = terms.changed() => {
                    let terms = *terms.borrow_and_update();
                    let _ = ward.deadline(boot_time(terms.deadline));
                    self.files.write_token(terms.token)?;
                }
                _ = self.runner.signals.next() => {
                    if self.stopping.is_some() {
                        let _ = ward.kill();
                    } else {
                        self.stopping = Some(Stopping::Asked);
                        self.lead.enter(Phase::Draining);
                        let _ = ward.stop();
                    }
                }
                _ = looks.tick() => self.look(),
                judged = Judging::of(&mut self.judging) => {
                    self.judging = None;
                    if let Some(verdict) = self.heed(judged?)? && self.stopping.is_none() {
                        self.condemn(&verdict).await;
                        self.stopping = Some(Stopping::Lost(verdict));
                        let _ = ward.stop();
                    }
                }
            }
        }
    }

    /// The leadership is lost: CMD must stop. There is nothing more to hear from it.
    fn stop_losing(&mut self, ward: &mut Ward, why: String) -> tokio::sync::watch::Receiver<Status> {
        if self.stopping.is_none() {
            self.stopping = Some(Stopping::Lost(why));
        }
        let _ = ward.stop();
        let mut status = self.lead.status();
        status.mark_unchanged();
        status
    }

    /// The warden is dead or stopped: what it kept is ended from here.
    async fn seize(&mut self, ward: &mut Ward) -> Result<u8, Failure> {
        if self.stopping.is_none() {
            self.stopping = Some(Stopping::Lost("the warden was killed or stopped".to_string()));
        }
        loop {
            match ward.seize().await {
                Ok(()) => return Ok(137),
                // Nothing is released while something of CMD may be left.
                Err(error) => {
                    self.runner.voice.tell("unkillable", None, &format!("cannot end CMD: {error}"))?
                }
            }
        }
    }

    fn unkillable(&self, pid: u32, name: &str) -> Result<(), Failure> {
        let text =
            format!("cannot end process {pid} ({name}) of CMD; the lease is not released while it lives");
        self.runner.voice.tell("unkillable", None, &text)
    }

    /// Looks for progress and for a new checkpoint.
    fn look(&mut self) {
        let sight = self.lookout.look(&self.files);
        let heard = self.hearing.heard();
        if sight.progress || heard {
            self.lead.progress();
        }
        let free = self.stopping.is_none() && self.judging.is_none();
        if let Some(mark) = sight.checkpoint.filter(|_| free) {
            self.lookout.published(mark);
            self.judging = Some(Judging::of_checkpoint(self.judge.clone(), self.lead.token()));
        }
    }

    /// Tells what became of a checkpoint; returns what the validator has against it.
    fn heed(&self, judged: Judged) -> Result<Option<String>, Failure> {
        if let Some(why) = &judged.failed {
            self.runner.voice.tell("checkpoint-failed", None, &format!("the checkpoint is lost: {why}"))?;
        }
        if judged.published {
            self.lead.progress();
        }
        Ok(judged.verdict)
    }

    /// Ends this leadership for a failed validation.
    async fn condemn(&self, verdict: &str) {
        let (coordinator, lead) = (&self.runner.context.coordinator, &self.lead);
        let finding = Finding::Validation;
        let credential = Some(lead.credential());
        let _ = coordinator
            .report(lead.election(), lead.token(), finding, verdict, lead.agent(), credential)
            .await;
    }

    /// Waits for the judgement on its way, while the lease is kept. A signal or a loss ends the wait.
    async fn judgement(&mut self, ward: &mut Ward) -> Result<Option<String>, Failure> {
        let (mut status, mut terms) = (self.lead.status(), self.lead.terms());
        loop {
            if let Status::Lost(why) = &*status.borrow_and_update() {
                self.stopping.get_or_insert(Stopping::Lost(why.clone()));
                return Ok(None);
            }
            tokio::select! {
                judged = Judging::of(&mut self.judging) => {
                    self.judging = None;
                    return self.heed(judged?);
                }
                // The warden would release what is not renewed.
                Ok(()) = terms.changed() => {
                    let _ = ward.deadline(boot_time(terms.borrow_and_update().deadline));
                }
                _ = status.changed() => {}
                _ = self.runner.signals.next() => {
                    self.stopping.get_or_insert(Stopping::Asked);
                    return Ok(None);
                }
            }
        }
    }

    /// Nothing of CMD is left: leaves the last checkpoint and gives the lease back.
    async fn finish(mut self, ward: &mut Ward, code: u8) -> Result<(Ending, Hearing), Failure> {
        let mut verdict = None;
        if self.judging.is_some() {
            verdict = self.judgement(ward).await?;
        }
        if let Some(mark) = self.lookout.last(&self.files) {
            self.lookout.published(mark);
            self.judging = Some(Judging::of_checkpoint(self.judge.clone(), self.lead.token()));
            verdict = self.judgement(ward).await?.or(verdict);
        } else if code == 0 && self.stopping.is_none() && verdict.is_none() {
            self.judging = Some(Judging::of_work(self.judge.clone()));
            verdict = self.judgement(ward).await?;
        }
        if let (Some(verdict), None) = (&verdict, &self.stopping) {
            self.condemn(verdict).await;
            self.stopping = Some(Stopping::Lost(verdict.clone()));
        }
        let reason = match &self.stopping {
            None => format!("CMD ended with exit code {code}"),
            Some(Stopping::Asked) => "asked to stop".to_string(),
            Some(Stopping::Lost(why)) => why.clone(),
        };
        let token = self.lead.token();
        let released = self.lead.release(&reason).await;
        match self.stopping {
            Some(Stopping::Lost(why)) => Ok((Ending::Lost(why), self.hearing)),
            None | Some(Stopping::Asked) => {
                let text = match released {
                    Ok(_) => format!("released {} ({reason})", self.runner.options.election),
                    Err(error) => format!(
                        "could not release {}; its lease runs out: {error}",
                        self.runner.options.election
                    ),
                };
                self.runner.voice.tell("released", Some(token), &text)?;
                Ok((Ending::Finished(code), self.hearing))
            }
        }
    }
}
