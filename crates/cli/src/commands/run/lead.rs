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
use super::leadership::{LeadershipRun, PendingReport, ReportOutcome};
use super::once_per::SlotClaim;
use super::output_relay::OutputRelay;
use super::read_only::Outage;
use super::removal_rules::{FileWatch, Judgement, JudgementStep, LOOK_EVERY, PendingJudgement, Question};
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
pub(super) struct CommandRun<'a, 'b> {
    pub(super) runner: &'a mut Runner<'b>,
    pub(super) folder: &'a RunFolder,
    pub(super) files: Files,
    pub(super) file_watch: FileWatch,
    /// Why CMD is being stopped, once it is.
    pub(super) stopping: Option<StopReason>,
    /// A signal came while CMD ran.
    asked: bool,
    /// The request that waits for the running validator.
    answer: Option<oneshot::Sender<(CommandExit, String)>>,
    relay: OutputRelay,
    /// The slot that CMD runs in, until it is noted how it ended.
    pub(super) marked: Option<MarkedSlot>,
}

pub(super) enum StopReason {
    /// A signal asked for it, or Ctrl-C at CMD's terminal.
    Asked,
    /// Ctrl-Z at CMD's terminal asked for it.
    Suspended,
    /// The leadership is over.
    Lost(String),
}

/// How a leadership ended.
enum LeadershipEnd {
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
        mut warden: WardenHandle,
        grant: Grant,
    ) -> Result<Ending, Failure> {
        let files = Files::make(folder);
        let mut leadership = match LeadershipRun::take(self, folder, &files, grant) {
            Ok(leadership) => leadership,
            Err(baton::Error::Lost(why)) => return Ok(Ending::Lost(why)),
            Err(error) => return Err(Failure::from_error(&error, Speaker::Holder)),
        };
        let marked = match self.mark(&leadership).await {
            Ok(SlotClaim::Unasked) => None,
            Ok(SlotClaim::Mine(marked)) => Some(marked),
            Ok(SlotClaim::Lost(why)) => return Ok(Ending::Lost(why)),
            Ok(SlotClaim::Over(over)) => {
                // Work that is done stays done, whoever looks at it afterwards.
                let _ = match over.ended {
                    Some(end) if end.success => leadership.lead.finish("the slot was run before").await,
                    Some(_) | None => leadership.lead.release("the slot was run before").await,
                };
                let _ = warden.dismiss().await;
                return self.tell_over(&over).map(Ending::NotRun);
            }
            Ok(SlotClaim::AskedToStop(code)) => {
                let _ = leadership.lead.release("asked to stop").await;
                let _ = warden.dismiss().await;
                self.events.tell("stopped", None, "stopped before the slot was marked; CMD was not run")?;
                return Ok(Ending::NotRun(Exit::Command(code)));
            }
            Err(failure) => {
                let _ = leadership.lead.release("the slot could not be marked").await;
                let _ = warden.dismiss().await;
                return Err(failure);
            }
        };
        files.write_handover(leadership.lead.inherited())?;
        let started = warden
            .show(leadership.sign(&files))
            .and_then(|()| warden.start(leadership.start(&self.options.command)));
        started.map_err(|error| Failure::new(Exit::Usage, "warden", error.to_string(), "see what CMD is"))?;
        let token = leadership.lead.token();
        let message = format!("{} leads {} with token {token}", self.bid.agent, self.options.election);
        self.events.tell("leading", Some(token), &message)?;
        let (file_watch, relay) = (FileWatch::new(&files), OutputRelay::begin(&mut warden)?);
        let mut turn = CommandRun {
            runner: self,
            folder,
            files,
            file_watch,
            stopping: None,
            asked: false,
            answer: None,
            relay,
            marked,
        };
        let ending = loop {
            let why = match turn.watch_over(&mut leadership, &mut warden).await? {
                LeadershipEnd::Ended(code) => break turn.finish(leadership, &mut warden, code).await?,
                LeadershipEnd::ReadOnly(why) => why,
            };
            let token = leadership.lead.token();
            // The lease runs out, and nobody gives it back before: CMD may take its grace to notice.
            drop(leadership);
            leadership = match turn.go_on_read_only(&mut warden, token, &why).await? {
                Outage::Over(leadership) => *leadership,
                Outage::Ended(code) => break turn.finish_read_only(code, why)?,
            };
        };
        let _ = warden.dismiss().await;
        turn.relay.end().await;
        Ok(ending)
    }
}

impl CommandRun<'_, '_> {
    /// Until nothing of CMD is left, or CMD goes on without this leadership.
    async fn watch_over(
        &mut self,
        leadership: &mut LeadershipRun,
        warden: &mut WardenHandle,
    ) -> Result<LeadershipEnd, Failure> {
        let (mut status, mut terms) = (leadership.lead.status(), leadership.lead.validity());
        let mut token = terms.borrow_and_update().token;
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                news = warden.next_report() => match news {
                    Ok(WardenEvent::Told(Report::Started { .. })) => leadership.lead.serving(),
                    Ok(WardenEvent::Told(Report::Leading)) => self.leads_again(&leadership.lead)?,
                    Ok(WardenEvent::Told(Report::ReadOnly)) if self.stopping.is_none() => {
                        return Ok(LeadershipEnd::ReadOnly(leadership.lead.why_not_renewed()));
                    }
                    Ok(WardenEvent::Told(Report::Ended { how, why })) => return self.ended(&how, why, leadership.lead.why_not_renewed()).map(LeadershipEnd::Ended),
                    Ok(WardenEvent::Told(Report::Validated { how, why, said })) => self.validated(how, why, said),
                    Ok(WardenEvent::Told(Report::Unkillable { pid, name })) => self.unkillable(pid, &name)?,
                    Ok(WardenEvent::Told(
                        Report::Kept { .. } | Report::Terminating { .. } | Report::ReadOnly | Report::Suspended,
                    )) => {}
                    Ok(WardenEvent::Asked(request)) => self.heed_request(warden, Some(&leadership.lead), request),
                    Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => return self.seize(warden).await.map(LeadershipEnd::Ended),
                },
                changed = status.changed() => {
                    let lost = match &*status.borrow_and_update() {
                        Status::Lost(why) => Some(why.clone()),
                        Status::Safe | Status::Jeopardy(_) | Status::AwaitingApproval => None,
                    };
                    if changed.is_err() || lost.is_some() {
                        // It is over for good: there is nothing more to hear from it.
                        status = unchanging(&leadership.lead);
                        let ran_out = boot::now() >= terms.borrow().deadline;
                        if !(ran_out && self.runner.options.on_outage == OnOutage::ReadOnly) {
                            self.stop_losing(warden, lost.unwrap_or_default());
                        }
                        // Otherwise the warden has told CMD by then, and tells us, or it is overdue itself.
                    }
                }
                Ok(()) = terms.changed() => {
                    let terms = *terms.borrow_and_update();
                    let _ = warden.deadline(boot_time(terms.deadline));
                    region::note(&self.files.lease, &leadership.lead);
                    if token != terms.token {
                        token = terms.token;
                        let _ = warden.show(leadership.sign(&self.files));
                    }
                }
                _ = self.runner.signals.next() => self.stop_as_asked(warden, Some(&leadership.lead)),
                _ = looks.tick() => {
                    self.look(leadership, warden.is_validating());
                    if let Some(why) = self.failing(leadership) && self.stopping.is_none() {
                        leadership.report(Finding::Dependency, &why);
                        self.stop_losing(warden, why);
                    }
                }
                step = PendingJudgement::step(&mut leadership.judging) => match step {
                    JudgementStep::Asks(question) => self.ask(warden, question),
                    JudgementStep::Done(judged) => {
                        leadership.judging = None;
                        self.end_validation(warden);
                        self.heed(leadership, judged?)?;
                    }
                },
                reported = PendingReport::of(&mut leadership.reporting) => {
                    leadership.reporting = None;
                    self.reported(leadership, warden, reported?)?;
                }
            }
        }
    }

    /// What became of a checkpoint, while CMD runs.
    fn heed(&mut self, leadership: &mut LeadershipRun, judged: Judgement) -> Result<(), Failure> {
        let sound = judged.published && leadership.judge.validator.is_some() && leadership.counts_verdicts;
        let verdict = leadership.heed(self.runner, judged)?;
        if self.stopping.is_some() {
            return Ok(());
        }
        if let Some(verdict) = verdict {
            leadership.report(Finding::Validation, &verdict);
        } else if sound {
            leadership.report(Finding::Sound, "the validator is content");
        }
        Ok(())
    }

    /// What became of a report.
    fn reported(
        &mut self,
        leadership: &LeadershipRun,
        warden: &mut WardenHandle,
        reported: ReportOutcome,
    ) -> Result<(), Failure> {
        let ReportOutcome { finding, detail, ended } = reported;
        if finding != Finding::Validation || self.stopping.is_some() {
            return Ok(());
        }
        if ended {
            self.stop_losing(warden, detail);
            return Ok(());
        }
        let (token, text) = (leadership.lead.token(), format!("{detail}; the leadership goes on"));
        self.runner.events.tell("bad-verdict", Some(token), &text)
    }

    /// The validator is needed: it works under the warden, as CMD does.
    fn ask(&mut self, warden: &mut WardenHandle, question: Question) {
        // Without a warden the question is dropped, and with it the wait for an answer.
        if warden.validate(question.validation).is_ok() {
            self.answer = Some(question.answer);
        }
    }

    /// Nothing of the validator is left.
    pub(super) fn validated(&mut self, how: CommandExit, why: EndCause, said: String) {
        let answer = self.answer.take().filter(|_| why == EndCause::Finished);
        let _ = answer.map(|answer| answer.send((how, said)));
    }

    /// Nobody waits for the validator any more.
    pub(super) fn end_validation(&mut self, warden: &mut WardenHandle) {
        self.answer = None;
        let _ = warden.end_validation();
    }

    /// The leadership is lost: CMD must stop.
    pub(super) fn stop_losing(&mut self, warden: &mut WardenHandle, why: String) {
        self.stopping.get_or_insert(StopReason::Lost(why));
        let _ = warden.stop();
        self.end_validation(warden);
    }

    /// A signal says that CMD must stop; a second one, that it must stop at once. A CMD that is being ended for a loss keeps the rest
    /// of its grace at the first.
    pub(super) fn stop_as_asked(&mut self, warden: &mut WardenHandle, lead: Option<&Leadership>) {
        self.drain(lead);
        if std::mem::replace(&mut self.asked, true) {
            let _ = warden.kill();
        } else if self.stopping.is_none() {
            self.stopping = Some(StopReason::Asked);
            let _ = warden.stop();
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
        warden: &mut WardenHandle,
        lead: Option<&Leadership>,
        request: Request,
    ) {
        self.drain(lead);
        match request {
            Request::Interrupt => {
                self.runner.signals.note_interrupt();
                self.stop_as_asked(warden, lead);
            }
            Request::Suspend if self.stopping.is_none() => {
                self.stopping = Some(StopReason::Suspended);
                let _ = warden.stop();
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
        self.stopping.get_or_insert(StopReason::Lost(lost));
        Ok(how.exit_code())
    }

    /// The warden is dead or stopped: what it kept is ended from here.
    pub(super) async fn seize(&mut self, warden: &mut WardenHandle) -> Result<u8, Failure> {
        self.answer = None;
        self.stopping.get_or_insert(StopReason::Lost("the warden was killed or stopped".to_string()));
        loop {
            match warden.seize().await {
                Ok(()) => return Ok(137),
                // Nothing is released while something of CMD may be left.
                Err(error) => {
                    self.runner.events.tell("unkillable", None, &format!("cannot end CMD: {error}"))?
                }
            }
        }
    }

    pub(super) fn unkillable(&self, pid: u32, name: &str) -> Result<(), Failure> {
        let text =
            format!("cannot end process {pid} ({name}) of CMD; the lease is not released while it lives");
        self.runner.events.tell("unkillable", None, &text)
    }

    fn leads_again(&self, lead: &Leadership) -> Result<(), Failure> {
        lead.serving();
        let (agent, election, token) = (lead.agent(), lead.election(), lead.token());
        let text = format!("{agent} leads {election} again with token {token}");
        self.runner.events.tell("leading", Some(token), &text)
    }

    /// Looks for progress and for a new checkpoint.
    fn look(&mut self, leadership: &mut LeadershipRun, validating: bool) {
        let changes = self.file_watch.look(&self.files);
        let heard = self.relay.heard();
        if changes.progress || heard {
            leadership.lead.progress();
        }
        let idle = leadership.judging.is_none() && leadership.reporting.is_none() && !validating;
        let free = self.stopping.is_none() && idle;
        if let Some(mark) = changes.checkpoint.filter(|_| free) {
            self.file_watch.published(mark);
            leadership.judging =
                Some(PendingJudgement::of_checkpoint(leadership.judge.clone(), leadership.lead.token()));
        }
    }

    /// What fails that the policy says a leader needs, if anything does.
    fn failing(&self, leadership: &LeadershipRun) -> Option<String> {
        let failing = self.runner.described.as_ref()?.said().borrow().failing();
        let needed = leadership.depends.iter().find(|name| failing.contains(*name))?;
        Some(format!("its dependency `{needed}` is failing"))
    }

    /// Waits for the judgement and the report on their way, while the lease is kept. A loss ends the wait; once CMD was told to stop, the validator has
    /// the grace, and a second signal ends the wait too. When this returns, nothing of the validator is left.
    async fn settle(
        &mut self,
        leadership: &mut LeadershipRun,
        warden: &mut WardenHandle,
    ) -> Result<Option<String>, Failure> {
        let (mut status, mut terms) = (leadership.lead.status(), leadership.lead.validity());
        let mut patience: Option<Pin<Box<Sleep>>> = None;
        let mut verdict = None;
        while leadership.judging.is_some() || leadership.reporting.is_some() {
            if let Status::Lost(why) = &*status.borrow_and_update() {
                self.stopping.get_or_insert(StopReason::Lost(why.clone()));
                break;
            }
            if self.stopping.is_some() && patience.is_none() {
                let grace = Duration::from_nanos(leadership.grace.as_nanos());
                patience = Some(Box::pin(tokio::time::sleep(grace)));
            }
            let validating = warden.is_validating();
            tokio::select! {
                step = PendingJudgement::step(&mut leadership.judging) => match step {
                    JudgementStep::Asks(question) => self.ask(warden, question),
                    JudgementStep::Done(judged) => {
                        leadership.judging = None;
                        self.end_validation(warden);
                        verdict = leadership.heed(self.runner, judged?)?;
                    }
                },
                reported = PendingReport::of(&mut leadership.reporting) => {
                    leadership.reporting = None;
                    self.reported(leadership, warden, reported?)?;
                }
                news = warden.next_report() => match news {
                    Ok(WardenEvent::Told(Report::Validated { how, why, said })) => self.validated(how, why, said),
                    // The keys of a terminal whose CMD is gone.
                    Ok(WardenEvent::Told(_) | WardenEvent::Asked(_)) => {}
                    Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => {
                        self.seize(warden).await?;
                        break;
                    }
                },
                // The warden would release what is not renewed.
                Ok(()) = terms.changed() => {
                    let _ = warden.deadline(boot_time(terms.borrow_and_update().deadline));
                }
                _ = status.changed() => {}
                // What is on its way to the store has its own bound.
                () = over(&mut patience), if validating => break,
                _ = self.runner.signals.next() => {
                    if std::mem::replace(&mut self.asked, true) {
                        break;
                    }
                    self.stopping.get_or_insert(StopReason::Asked);
                }
            }
        }
        if leadership.judging.take().is_some() {
            let text = "the checkpoint is not published: there was no time left to judge it";
            self.runner.events.tell("checkpoint-failed", None, text)?;
        }
        self.without_validator(warden).await?;
        Ok(verdict)
    }

    /// Returns when nothing of the validator is left: it has the leader's papers.
    async fn without_validator(&mut self, warden: &mut WardenHandle) -> Result<(), Failure> {
        self.end_validation(warden);
        while warden.is_validating() {
            match warden.next_report().await {
                Ok(WardenEvent::Told(Report::Unkillable { pid, name })) => self.unkillable(pid, &name)?,
                Ok(WardenEvent::Told(_) | WardenEvent::Asked(_)) => {}
                Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => {
                    self.seize(warden).await?;
                }
            }
        }
        Ok(())
    }

    /// Nothing of CMD is left: leaves the last checkpoint and gives the lease back.
    async fn finish(
        &mut self,
        mut leadership: LeadershipRun,
        warden: &mut WardenHandle,
        code: u8,
    ) -> Result<Ending, Failure> {
        let mut verdict = self.settle(&mut leadership, warden).await?;
        if let Some(mark) = self.file_watch.last(&self.files) {
            self.file_watch.published(mark);
            leadership.judging =
                Some(PendingJudgement::of_checkpoint(leadership.judge.clone(), leadership.lead.token()));
            verdict = self.settle(&mut leadership, warden).await?.or(verdict);
        } else if code == 0 && self.stopping.is_none() && verdict.is_none() {
            leadership.judging = Some(PendingJudgement::of_work(leadership.judge.clone()));
            verdict = self.settle(&mut leadership, warden).await?;
        }
        self.without_validator(warden).await?;
        if let (Some(verdict), None) = (&verdict, &self.stopping) {
            leadership.report(Finding::Validation, verdict);
            self.settle(&mut leadership, warden).await?;
        }
        self.note_end(&leadership, warden, code, verdict.is_none()).await?;
        let reason = match &self.stopping {
            None => format!("CMD ended with exit code {code}"),
            Some(StopReason::Asked) => "asked to stop".to_string(),
            Some(StopReason::Suspended) => "stopped by Ctrl-Z".to_string(),
            Some(StopReason::Lost(why)) => why.clone(),
        };
        let token = leadership.lead.token();
        let wait = self.runner.options.notify.wait(&self.runner.context.coordinator)?;
        let is_done = code == 0 && self.stopping.is_none();
        let ended = if is_done { WorkEnded::Finished } else { WorkEnded::Stopped };
        let released = match wait {
            None if is_done => leadership.lead.finish(&reason).await.map(|_| None),
            None => leadership.lead.release(&reason).await.map(|_| None),
            Some(wait) => {
                leadership.lead.leave_telling(ended, &reason, wait).await.map(|(_, told)| Some(told))
            }
        };
        match self.stopping.take() {
            Some(StopReason::Lost(why)) => Ok(Ending::Lost(why)),
            stopping @ (None | Some(StopReason::Asked | StopReason::Suspended)) => {
                let election = &self.runner.options.election;
                let text = match released {
                    Ok(None) => format!("released {election} ({reason})"),
                    Ok(Some(told)) => format!("released {election} ({reason}); {}", notify::text(&told)),
                    Err(error) => format!("could not release {election}; its lease runs out: {error}"),
                };
                self.runner.events.tell("released", Some(token), &text)?;
                match stopping {
                    Some(StopReason::Suspended) => Ok(Ending::Suspended),
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
