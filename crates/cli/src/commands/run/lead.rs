//! One run of CMD in the care of the warden, while the lease is renewed.

use std::pin::Pin;
use std::time::Duration;

use baton::election::command::{Ending as WorkEnded, Finding};
use baton::election::document::Phase;
use baton::store::boot;
use baton::toolbox::MarkedSlot;
use baton::{Grant, Leadership, Status};
use baton_warden::{CommandExit, EndCause, Report, Request, WardenEvent, WardenHandle};
use tokio::sync::{oneshot, watch};
use tokio::time::Sleep;

use super::files::Files;
use super::hearing::Hearing;
use super::office::{Office, Reported, Reporting};
use super::once_per::Marking;
use super::read_only::Outage;
use super::removal_rules::{Judged, Judging, LOOK_EVERY, Lookout, Question, Step};
use super::{OnOutage, Runner};
use crate::exit::{Exit, Speaker};
use crate::options::notify;
use crate::output::Failure;
use crate::region;
use crate::warden_process::{RunFolder, boot_time};

/// How a run of CMD ended.
pub(super) enum Ending {
    /// CMD ended, with this exit code.
    Finished(u8),
    /// The leadership was lost, and CMD was ended.
    Lost(String),
    /// CMD was not started, and the lease is given back.
    NotRun(Exit),
    /// Ctrl-Z ended CMD, and the lease is given back.
    Suspended,
}

/// One run of CMD, under one leadership or several.
pub(super) struct Turn<'a, 'b> {
    pub(super) runner: &'a mut Runner<'b>,
    pub(super) folder: &'a RunFolder,
    pub(super) files: Files,
    pub(super) lookout: Lookout,
    /// Why CMD is being stopped, once it is.
    pub(super) stopping: Option<Stopping>,
    /// A signal came while CMD ran.
    asked: bool,
    /// The request that waits for the running validator.
    answer: Option<oneshot::Sender<(CommandExit, String)>>,
    hearing: Hearing,
    /// The slot that CMD runs in, until it is noted how it ended.
    pub(super) marked: Option<MarkedSlot>,
}

pub(super) enum Stopping {
    /// A signal asked for it, or Ctrl-C at CMD's terminal.
    Asked,
    /// Ctrl-Z at CMD's terminal asked for it.
    Suspended,
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
        mut ward: WardenHandle,
        grant: Grant,
    ) -> Result<Ending, Failure> {
        let files = Files::make(folder);
        let mut office = match Office::take(self, folder, &files, grant) {
            Ok(office) => office,
            Err(baton::Error::Lost(why)) => return Ok(Ending::Lost(why)),
            Err(error) => return Err(Failure::from_error(&error, Speaker::Holder)),
        };
        let marked = match self.mark(&office).await {
            Ok(Marking::Unasked) => None,
            Ok(Marking::Mine(marked)) => Some(marked),
            Ok(Marking::Lost(why)) => return Ok(Ending::Lost(why)),
            Ok(Marking::Over(over)) => {
                // Work that is done stays done, whoever looks at it afterwards.
                let _ = match over.ended {
                    Some(end) if end.success => office.lead.finish("the slot was run before").await,
                    Some(_) | None => office.lead.release("the slot was run before").await,
                };
                let _ = ward.dismiss().await;
                return self.tell_over(&over).map(Ending::NotRun);
            }
            Ok(Marking::AskedToStop(code)) => {
                let _ = office.lead.release("asked to stop").await;
                let _ = ward.dismiss().await;
                self.voice.tell("stopped", None, "stopped before the slot was marked; CMD was not run")?;
                return Ok(Ending::NotRun(Exit::Command(code)));
            }
            Err(failure) => {
                let _ = office.lead.release("the slot could not be marked").await;
                let _ = ward.dismiss().await;
                return Err(failure);
            }
        };
        files.write_handover(office.lead.inherited())?;
        let started =
            ward.show(office.sign(&files)).and_then(|()| ward.start(office.start(&self.options.command)));
        started.map_err(|error| Failure::new(Exit::Usage, "warden", error.to_string(), "see what CMD is"))?;
        let token = office.lead.token();
        let message = format!("{} leads {} with token {token}", self.bid.agent, self.options.election);
        self.voice.tell("leading", Some(token), &message)?;
        let (lookout, hearing) = (Lookout::new(&files), Hearing::begin(&mut ward)?);
        let mut turn = Turn {
            runner: self,
            folder,
            files,
            lookout,
            stopping: None,
            asked: false,
            answer: None,
            hearing,
            marked,
        };
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
    async fn watch_over(&mut self, office: &mut Office, ward: &mut WardenHandle) -> Result<Watched, Failure> {
        let (mut status, mut terms) = (office.lead.status(), office.lead.validity());
        let mut token = terms.borrow_and_update().token;
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                news = ward.next_report() => match news {
                    Ok(WardenEvent::Told(Report::Started { .. })) => office.lead.serving(),
                    Ok(WardenEvent::Told(Report::Leading)) => self.leads_again(&office.lead)?,
                    Ok(WardenEvent::Told(Report::ReadOnly)) if self.stopping.is_none() => {
                        return Ok(Watched::ReadOnly(office.lead.why_not_renewed()));
                    }
                    Ok(WardenEvent::Told(Report::Ended { how, why })) => return self.ended(&how, why, office.lead.why_not_renewed()).map(Watched::Ended),
                    Ok(WardenEvent::Told(Report::Validated { how, why, said })) => self.validated(how, why, said),
                    Ok(WardenEvent::Told(Report::Unkillable { pid, name })) => self.unkillable(pid, &name)?,
                    Ok(WardenEvent::Told(
                        Report::Kept { .. } | Report::Terminating { .. } | Report::ReadOnly | Report::Suspended,
                    )) => {}
                    Ok(WardenEvent::Asked(request)) => self.heed_request(ward, Some(&office.lead), request),
                    Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => return self.seize(ward).await.map(Watched::Ended),
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
                _ = self.runner.signals.next() => self.stop_as_asked(ward, Some(&office.lead)),
                _ = looks.tick() => {
                    self.look(office, ward.is_validating());
                    if let Some(why) = self.failing(office) && self.stopping.is_none() {
                        office.report(Finding::Dependency, &why);
                        self.stop_losing(ward, why);
                    }
                }
                step = Judging::step(&mut office.judging) => match step {
                    Step::Asks(question) => self.ask(ward, question),
                    Step::Judged(judged) => {
                        office.judging = None;
                        self.end_validation(ward);
                        self.heed(office, judged?)?;
                    }
                },
                reported = Reporting::of(&mut office.reporting) => {
                    office.reporting = None;
                    self.reported(office, ward, reported?)?;
                }
            }
        }
    }

    /// What became of a checkpoint, while CMD runs.
    fn heed(&mut self, office: &mut Office, judged: Judged) -> Result<(), Failure> {
        let sound = judged.published && office.judge.validator.is_some() && office.counts_verdicts;
        let verdict = office.heed(self.runner, judged)?;
        if self.stopping.is_some() {
            return Ok(());
        }
        if let Some(verdict) = verdict {
            office.report(Finding::Validation, &verdict);
        } else if sound {
            office.report(Finding::Sound, "the validator is content");
        }
        Ok(())
    }

    /// What became of a report.
    fn reported(
        &mut self,
        office: &Office,
        ward: &mut WardenHandle,
        reported: Reported,
    ) -> Result<(), Failure> {
        let Reported { finding, detail, ended } = reported;
        if finding != Finding::Validation || self.stopping.is_some() {
            return Ok(());
        }
        if ended {
            self.stop_losing(ward, detail);
            return Ok(());
        }
        let (token, text) = (office.lead.token(), format!("{detail}; the leadership goes on"));
        self.runner.voice.tell("bad-verdict", Some(token), &text)
    }

    /// The validator is needed: it works under the warden, as CMD does.
    fn ask(&mut self, ward: &mut WardenHandle, question: Question) {
        // Without a warden the question is dropped, and with it the wait for an answer.
        if ward.validate(question.validation).is_ok() {
            self.answer = Some(question.answer);
        }
    }

    /// Nothing of the validator is left.
    pub(super) fn validated(&mut self, how: CommandExit, why: EndCause, said: String) {
        let answer = self.answer.take().filter(|_| why == EndCause::Finished);
        let _ = answer.map(|answer| answer.send((how, said)));
    }

    /// Nobody waits for the validator any more.
    pub(super) fn end_validation(&mut self, ward: &mut WardenHandle) {
        self.answer = None;
        let _ = ward.end_validation();
    }

    /// The leadership is lost: CMD must stop.
    pub(super) fn stop_losing(&mut self, ward: &mut WardenHandle, why: String) {
        self.stopping.get_or_insert(Stopping::Lost(why));
        let _ = ward.stop();
        self.end_validation(ward);
    }

    /// A signal says that CMD must stop; a second one, that it must stop at once. A CMD that is being ended for a loss keeps the rest
    /// of its grace at the first.
    pub(super) fn stop_as_asked(&mut self, ward: &mut WardenHandle, lead: Option<&Leadership>) {
        self.drain(lead);
        if std::mem::replace(&mut self.asked, true) {
            let _ = ward.kill();
        } else if self.stopping.is_none() {
            self.stopping = Some(Stopping::Asked);
            let _ = ward.stop();
        }
    }

    /// Whoever looks at the election sees that CMD is asked to end.
    fn drain(&self, lead: Option<&Leadership>) {
        if let (Some(lead), None) = (lead, &self.stopping) {
            lead.enter(Phase::Draining);
        }
    }

    /// The person at CMD's terminal wants CMD to stop.
    pub(super) fn heed_request(
        &mut self,
        ward: &mut WardenHandle,
        lead: Option<&Leadership>,
        request: Request,
    ) {
        self.drain(lead);
        match request {
            Request::Interrupt => {
                self.runner.signals.note_interrupt();
                self.stop_as_asked(ward, lead);
            }
            Request::Suspend if self.stopping.is_none() => {
                self.stopping = Some(Stopping::Suspended);
                let _ = ward.stop();
            }
            Request::Suspend => {}
        }
    }

    /// Nothing of CMD is left. Returns its exit code. `unrenewed` says why the lease was not renewed, if it was not.
    pub(super) fn ended(
        &mut self,
        how: &CommandExit,
        why: EndCause,
        unrenewed: String,
    ) -> Result<u8, Failure> {
        let lost = match (why, how) {
            (EndCause::Deadline, _) => unrenewed,
            (EndCause::Unshown, CommandExit::Unstarted(error)) => {
                return Err(Failure::new(
                    Exit::Error,
                    "system",
                    format!("cannot write the files of CMD below {}: {error}", self.folder.path().display()),
                    "they tell CMD whether it leads; XDG_RUNTIME_DIR must have room and be this user's own",
                ));
            }
            (EndCause::Unshown, CommandExit::Exit(_) | CommandExit::Signal(_)) => {
                "CMD could not be told whether it leads".to_string()
            }
            (EndCause::Finished | EndCause::Stopped | EndCause::Orphaned, _) => return Ok(how.exit_code()),
        };
        self.stopping.get_or_insert(Stopping::Lost(lost));
        Ok(how.exit_code())
    }

    /// The warden is dead or stopped: what it kept is ended from here.
    pub(super) async fn seize(&mut self, ward: &mut WardenHandle) -> Result<u8, Failure> {
        self.answer = None;
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
    fn look(&mut self, office: &mut Office, validating: bool) {
        let sight = self.lookout.look(&self.files);
        let heard = self.hearing.heard();
        if sight.progress || heard {
            office.lead.progress();
        }
        let idle = office.judging.is_none() && office.reporting.is_none() && !validating;
        let free = self.stopping.is_none() && idle;
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

    /// Waits for the judgement and the report on their way, while the lease is kept. A loss ends the wait; once CMD was told to stop, the validator has
    /// the grace, and a second signal ends the wait too. When this returns, nothing of the validator is left.
    async fn settle(
        &mut self,
        office: &mut Office,
        ward: &mut WardenHandle,
    ) -> Result<Option<String>, Failure> {
        let (mut status, mut terms) = (office.lead.status(), office.lead.validity());
        let mut patience: Option<Pin<Box<Sleep>>> = None;
        let mut verdict = None;
        while office.judging.is_some() || office.reporting.is_some() {
            if let Status::Lost(why) = &*status.borrow_and_update() {
                self.stopping.get_or_insert(Stopping::Lost(why.clone()));
                break;
            }
            if self.stopping.is_some() && patience.is_none() {
                let grace = Duration::from_nanos(office.grace.as_nanos());
                patience = Some(Box::pin(tokio::time::sleep(grace)));
            }
            let validating = ward.is_validating();
            tokio::select! {
                step = Judging::step(&mut office.judging) => match step {
                    Step::Asks(question) => self.ask(ward, question),
                    Step::Judged(judged) => {
                        office.judging = None;
                        self.end_validation(ward);
                        verdict = office.heed(self.runner, judged?)?;
                    }
                },
                reported = Reporting::of(&mut office.reporting) => {
                    office.reporting = None;
                    self.reported(office, ward, reported?)?;
                }
                news = ward.next_report() => match news {
                    Ok(WardenEvent::Told(Report::Validated { how, why, said })) => self.validated(how, why, said),
                    // The keys of a terminal whose CMD is gone.
                    Ok(WardenEvent::Told(_) | WardenEvent::Asked(_)) => {}
                    Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => {
                        self.seize(ward).await?;
                        break;
                    }
                },
                // The warden would release what is not renewed.
                Ok(()) = terms.changed() => {
                    let _ = ward.deadline(boot_time(terms.borrow_and_update().deadline));
                }
                _ = status.changed() => {}
                // What is on its way to the store has its own bound.
                () = over(&mut patience), if validating => break,
                _ = self.runner.signals.next() => {
                    if std::mem::replace(&mut self.asked, true) {
                        break;
                    }
                    self.stopping.get_or_insert(Stopping::Asked);
                }
            }
        }
        if office.judging.take().is_some() {
            let text = "the checkpoint is not published: there was no time left to judge it";
            self.runner.voice.tell("checkpoint-failed", None, text)?;
        }
        self.without_validator(ward).await?;
        Ok(verdict)
    }

    /// Returns when nothing of the validator is left: it has the leader's papers.
    async fn without_validator(&mut self, ward: &mut WardenHandle) -> Result<(), Failure> {
        self.end_validation(ward);
        while ward.is_validating() {
            match ward.next_report().await {
                Ok(WardenEvent::Told(Report::Unkillable { pid, name })) => self.unkillable(pid, &name)?,
                Ok(WardenEvent::Told(_) | WardenEvent::Asked(_)) => {}
                Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => {
                    self.seize(ward).await?;
                }
            }
        }
        Ok(())
    }

    /// Nothing of CMD is left: leaves the last checkpoint and gives the lease back.
    async fn finish(
        &mut self,
        mut office: Office,
        ward: &mut WardenHandle,
        code: u8,
    ) -> Result<Ending, Failure> {
        let mut verdict = self.settle(&mut office, ward).await?;
        if let Some(mark) = self.lookout.last(&self.files) {
            self.lookout.published(mark);
            office.judging = Some(Judging::of_checkpoint(office.judge.clone(), office.lead.token()));
            verdict = self.settle(&mut office, ward).await?.or(verdict);
        } else if code == 0 && self.stopping.is_none() && verdict.is_none() {
            office.judging = Some(Judging::of_work(office.judge.clone()));
            verdict = self.settle(&mut office, ward).await?;
        }
        self.without_validator(ward).await?;
        if let (Some(verdict), None) = (&verdict, &self.stopping) {
            office.report(Finding::Validation, verdict);
            self.settle(&mut office, ward).await?;
        }
        self.note_end(&office, ward, code, verdict.is_none()).await?;
        let reason = match &self.stopping {
            None => format!("CMD ended with exit code {code}"),
            Some(Stopping::Asked) => "asked to stop".to_string(),
            Some(Stopping::Suspended) => "stopped by Ctrl-Z".to_string(),
            Some(Stopping::Lost(why)) => why.clone(),
        };
        let token = office.lead.token();
        let wait = self.runner.options.telling.wait(&self.runner.context.coordinator)?;
        let is_done = code == 0 && self.stopping.is_none();
        let ended = if is_done { WorkEnded::Finished } else { WorkEnded::Stopped };
        let released = match wait {
            None if is_done => office.lead.finish(&reason).await.map(|_| None),
            None => office.lead.release(&reason).await.map(|_| None),
            Some(wait) => office.lead.leave_telling(ended, &reason, wait).await.map(|(_, told)| Some(told)),
        };
        match self.stopping.take() {
            Some(Stopping::Lost(why)) => Ok(Ending::Lost(why)),
            stopping @ (None | Some(Stopping::Asked | Stopping::Suspended)) => {
                let election = &self.runner.options.election;
                let text = match released {
                    Ok(None) => format!("released {election} ({reason})"),
                    Ok(Some(told)) => format!("released {election} ({reason}); {}", notify::text(&told)),
                    Err(error) => format!("could not release {election}; its lease runs out: {error}"),
                };
                self.runner.voice.tell("released", Some(token), &text)?;
                match stopping {
                    Some(Stopping::Suspended) => Ok(Ending::Suspended),
                    None | Some(_) => Ok(Ending::Finished(code)),
                }
            }
        }
    }
}

/// Until the patience is over; for ever if there is no end to it.
async fn over(patience: &mut Option<Pin<Box<Sleep>>>) {
    match patience {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// The status of a leadership of which there is nothing more to hear.
fn unchanging(lead: &Leadership) -> watch::Receiver<Status> {
    let mut status = lead.status();
    status.mark_unchanged();
    status
}
