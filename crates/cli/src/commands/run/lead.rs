//! One run of CMD in the care of the warden, while the lease is renewed.

use baton::election::command::Finding;
use baton::election::document::Phase;
use baton::store::boot;
use baton::{Grant, Leadership, Status};
use baton_warden::{How, News, Report, Ward, Why};
use tokio::sync::watch;

use super::files::Files;
use super::hearing::Hearing;
use super::office::Office;
use super::read_only::Outage;
use super::usefulness::{Judging, LOOK_EVERY, Lookout};
use super::{OnOutage, Runner};
use crate::commands::telling;
use crate::custody::{RunFolder, boot_time};
use crate::exit::{Exit, Speaker};
use crate::output::Failure;
use crate::region;

/// How a run of CMD ended.
pub(super) enum Ending {
    /// CMD ended, with this exit code.
    Finished(u8),
    /// The leadership was lost, and CMD was ended.
    Lost(String),
}

/// One run of CMD, under one leadership or several.
pub(super) struct Turn<'a, 'b> {
    pub(super) runner: &'a mut Runner<'b>,
    pub(super) folder: &'a RunFolder,
    pub(super) files: Files,
    pub(super) lookout: Lookout,
    /// Why CMD is being stopped, once it is.
    pub(super) stopping: Option<Stopping>,
    hearing: Hearing,
}

pub(super) enum Stopping {
    /// A signal asked for it.
    Asked,
    /// The leadership is over.
    Lost(String),
}

/// How a leadership ended.
enum Watched {
    /// With CMD, whose exit code this is. Nothing of it is left.
    Ended(u8),
    /// With the lease; CMD knows, and goes on. The reason.
    ReadOnly(String),
}

impl Runner<'_> {
    /// Leads until CMD ends or the leadership does. When this returns, nothing of CMD is left.
    pub(super) async fn lead(
        &mut self,
        folder: &RunFolder,
        mut ward: Ward,
        grant: Grant,
    ) -> Result<Ending, Failure> {
        let files = Files::make(folder);
        let mut office = match Office::take(self, folder, &files, grant) {
            Ok(office) => office,
            Err(baton::Error::Lost(why)) => return Ok(Ending::Lost(why)),
            Err(error) => return Err(Failure::from_error(&error, Speaker::Holder)),
        };
        files.write_handover(office.lead.inherited())?;
        let started =
            ward.show(office.sign(&files)).and_then(|()| ward.start(office.start(&self.options.command)));
        started.map_err(|error| Failure::new(Exit::Usage, "warden", error.to_string(), "see what CMD is"))?;
        let token = office.lead.token();
        let message = format!("{} leads {} with token {token}", self.bid.agent, self.options.election);
        self.voice.tell("leading", Some(token), &message)?;
        let (lookout, hearing) = (Lookout::new(&files), Hearing::begin(&mut ward)?);
        let mut turn = Turn { runner: self, folder, files, lookout, stopping: None, hearing };
        let ending = loop {
            let why = match turn.watch_over(&mut office, &mut ward).await? {
                Watched::Ended(code) => break turn.finish(office, &mut ward, code).await?,
                Watched::ReadOnly(why) => why,
            };
            let token = office.lead.token();
            // The lease runs out, and nobody gives it back before: CMD may take its grace to notice.
            drop(office);
            office = match turn.go_on_read_only(&mut ward, token, &why).await? {
                Outage::Over(office) => *office,
                Outage::Ended(code) => break turn.finish_read_only(code, why)?,
            };
        };
        let _ = ward.dismiss().await;
        turn.hearing.end().await;
        Ok(ending)
    }
}

impl Turn<'_, '_> {
    /// Until nothing of CMD is left, or CMD goes on without this leadership.
    async fn watch_over(&mut self, office: &mut Office, ward: &mut Ward) -> Result<Watched, Failure> {
        let (mut status, mut terms) = (office.lead.status(), office.lead.terms());
        let mut token = terms.borrow_and_update().token;
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                news = ward.next_report() => match news {
                    Ok(News::Told(Report::Started { .. })) => office.lead.serving(),
                    Ok(News::Told(Report::Leading)) => self.leads_again(&office.lead)?,
                    Ok(News::Told(Report::ReadOnly)) if self.stopping.is_none() => {
                        return Ok(Watched::ReadOnly(why_not_renewed(&status.borrow())));
                    }
                    Ok(News::Told(Report::Ended { how, why })) => return self.ended(&how, why).map(Watched::Ended),
                    Ok(News::Told(Report::Unkillable { pid, name })) => self.unkillable(pid, &name)?,
                    Ok(News::Told(Report::Kept { .. } | Report::Terminating { .. } | Report::ReadOnly)) => {}
                    Ok(News::Overdue | News::Gone) | Err(_) => return self.seize(ward).await.map(Watched::Ended),
                },
                changed = status.changed() => {
                    let lost = match &*status.borrow_and_update() {
                        Status::Lost(why) => Some(why.clone()),
                        Status::Safe | Status::Jeopardy(_) | Status::AwaitingApproval => None,
                    };
                    if changed.is_err() || lost.is_some() {
                        // It is over for good: there is nothing more to hear from it.
                        status = unchanging(&office.lead);
                        let ran_out = boot::now() >= terms.borrow().deadline;
                        if !(ran_out && self.runner.options.on_outage == OnOutage::ReadOnly) {
                            self.stop_losing(ward, lost.unwrap_or_default());
                        }
                        // Otherwise the warden has told CMD by then, and tells us, or it is overdue itself.
                    }
                }
                Ok(()) = terms.changed() => {
                    let terms = *terms.borrow_and_update();
                    let _ = ward.deadline(boot_time(terms.deadline));
                    region::note(&self.files.lease, &office.lead);
                    if token != terms.token {
                        token = terms.token;
                        let _ = ward.show(office.sign(&self.files));
                    }
                }
                _ = self.runner.signals.next() => {
                    if self.stopping.is_none() {
                        office.lead.enter(Phase::Draining);
                    }
                    self.stop_as_asked(ward);
                }
                _ = looks.tick() => {
                    self.look(office);
                    if let Some(why) = self.failing(office) && self.stopping.is_none() {
                        let _ = office.report(Finding::Dependency, &why).await;
                        self.stop_losing(ward, why);
                    }
                }
                judged = Judging::of(&mut office.judging) => {
                    office.judging = None;
                    let judged = judged?;
                    let sound = judged.published && office.judge.validator.is_some() && office.counts_verdicts;
                    if let Some(verdict) = office.heed(self.runner, judged)? && self.stopping.is_none() {
                        if office.report(Finding::Validation, &verdict).await {
                            self.stop_losing(ward, verdict);
                        } else {
                            self.runner.voice.tell("bad-verdict", Some(token), &format!("{verdict}; the leadership goes on"))?;
                        }
                    } else if sound && self.stopping.is_none() {
                        let _ = office.report(Finding::Sound, "the validator is content").await;
                    }
                }
            }
        }
    }

    /// The leadership is lost: CMD must stop.
    pub(super) fn stop_losing(&mut self, ward: &mut Ward, why: String) {
        self.stopping.get_or_insert(Stopping::Lost(why));
        let _ = ward.stop();
    }

    /// A signal says that CMD must stop; a second one, that it must stop at once.
    pub(super) fn stop_as_asked(&mut self, ward: &mut Ward) {
        if self.stopping.is_some() {
            let _ = ward.kill();
        } else {
            self.stopping = Some(Stopping::Asked);
            let _ = ward.stop();
        }
    }

    /// Nothing of CMD is left. Returns its exit code.
    pub(super) fn ended(&mut self, how: &How, why: Why) -> Result<u8, Failure> {
        let lost = match (why, how) {
            (Why::Deadline, _) => "no renewal was answered in time".to_string(),
            (Why::Unshown, How::Unstarted(error)) => {
                return Err(Failure::new(
                    Exit::Error,
                    "system",
                    format!("cannot write the files of CMD below {}: {error}", self.folder.path().display()),
                    "they tell CMD whether it leads; XDG_RUNTIME_DIR must have room and be this user's own",
                ));
            }
            (Why::Unshown, How::Exit(_) | How::Signal(_)) => {
                "CMD could not be told whether it leads".to_string()
            }
            (Why::Finished | Why::Stopped | Why::Orphaned, _) => return Ok(how.exit_code()),
        };
        self.stopping.get_or_insert(Stopping::Lost(lost));
        Ok(how.exit_code())
    }

    /// The warden is dead or stopped: what it kept is ended from here.
    pub(super) async fn seize(&mut self, ward: &mut Ward) -> Result<u8, Failure> {
        self.stopping.get_or_insert(Stopping::Lost("the warden was killed or stopped".to_string()));
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

    pub(super) fn unkillable(&self, pid: u32, name: &str) -> Result<(), Failure> {
        let text =
            format!("cannot end process {pid} ({name}) of CMD; the lease is not released while it lives");
        self.runner.voice.tell("unkillable", None, &text)
    }

    fn leads_again(&self, lead: &Leadership) -> Result<(), Failure> {
        lead.serving();
        let (agent, election, token) = (lead.agent(), lead.election(), lead.token());
        let text = format!("{agent} leads {election} again with token {token}");
        self.runner.voice.tell("leading", Some(token), &text)
    }

    /// Looks for progress and for a new checkpoint.
    fn look(&mut self, office: &mut Office) {
        let sight = self.lookout.look(&self.files);
        let heard = self.hearing.heard();
        if sight.progress || heard {
            office.lead.progress();
        }
        let free = self.stopping.is_none() && office.judging.is_none();
        if let Some(mark) = sight.checkpoint.filter(|_| free) {
            self.lookout.published(mark);
            office.judging = Some(Judging::of_checkpoint(office.judge.clone(), office.lead.token()));
        }
    }

    /// What fails that the policy says a leader needs, if anything does.
    fn failing(&self, office: &Office) -> Option<String> {
        let failing = self.runner.attending.as_ref()?.said().borrow().failing();
        let needed = office.depends.iter().find(|name| failing.contains(*name))?;
        Some(format!("its dependency `{needed}` is failing"))
    }

    /// Waits for the judgement on its way, while the lease is kept. A signal or a loss ends the wait.
    async fn judgement(&mut self, office: &mut Office, ward: &mut Ward) -> Result<Option<String>, Failure> {
        let (mut status, mut terms) = (office.lead.status(), office.lead.terms());
        loop {
            if let Status::Lost(why) = &*status.borrow_and_update() {
                self.stopping.get_or_insert(Stopping::Lost(why.clone()));
                return Ok(None);
            }
            tokio::select! {
                judged = Judging::of(&mut office.judging) => {
                    office.judging = None;
                    return office.heed(self.runner, judged?);
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
    async fn finish(&mut self, mut office: Office, ward: &mut Ward, code: u8) -> Result<Ending, Failure> {
        let mut verdict = None;
        if office.judging.is_some() {
            verdict = self.judgement(&mut office, ward).await?;
        }
        if let Some(mark) = self.lookout.last(&self.files) {
            self.lookout.published(mark);
            office.judging = Some(Judging::of_checkpoint(office.judge.clone(), office.lead.token()));
            verdict = self.judgement(&mut office, ward).await?.or(verdict);
        } else if code == 0 && self.stopping.is_none() && verdict.is_none() {
            office.judging = Some(Judging::of_work(office.judge.clone()));
            verdict = self.judgement(&mut office, ward).await?;
        }
        if let (Some(verdict), None) = (&verdict, &self.stopping) {
            if office.report(Finding::Validation, verdict).await {
                self.stopping = Some(Stopping::Lost(verdict.clone()));
            } else {
                self.runner.voice.tell("bad-verdict", None, &format!("{verdict}; the leadership goes on"))?;
            }
        }
        let reason = match &self.stopping {
            None => format!("CMD ended with exit code {code}"),
            Some(Stopping::Asked) => "asked to stop".to_string(),
            Some(Stopping::Lost(why)) => why.clone(),
        };
        let token = office.lead.token();
        let wait = self.runner.options.telling.wait(&self.runner.context.coordinator)?;
        let released = match wait {
            None => office.lead.release(&reason).await.map(|_| None),
            Some(wait) => office.lead.release_telling(&reason, wait).await.map(|(_, told)| Some(told)),
        };
        match self.stopping.take() {
            Some(Stopping::Lost(why)) => Ok(Ending::Lost(why)),
            None | Some(Stopping::Asked) => {
                let election = &self.runner.options.election;
                let text = match released {
                    Ok(None) => format!("released {election} ({reason})"),
                    Ok(Some(told)) => format!("released {election} ({reason}); {}", telling::text(&told)),
                    Err(error) => format!("could not release {election}; its lease runs out: {error}"),
                };
                self.runner.voice.tell("released", Some(token), &text)?;
                Ok(Ending::Finished(code))
            }
        }
    }
}

/// The status of a leadership of which there is nothing more to hear.
fn unchanging(lead: &Leadership) -> watch::Receiver<Status> {
    let mut status = lead.status();
    status.mark_unchanged();
    status
}

/// Why a lease runs out.
fn why_not_renewed(status: &Status) -> String {
    match status {
        Status::Jeopardy(why) | Status::Lost(why) => why.clone(),
        // It was this process that stood still.
        Status::Safe | Status::AwaitingApproval => "no renewal was answered in time".to_string(),
    }
}
