//! CMD, while this member leads: in the care of the warden, as under `baton run`.
//!
//! Assumes that the shell tells every leadership and its end. Guarantees that CMD's tree is gone before the lease ends, whatever
//! becomes of this process, and that a leadership is handed over only when nothing of CMD is left. Without a lease (Bully, Ring) CMD
//! is ended soon after this process stands still, and nothing is promised about others.

use std::time::Duration;

use baton_election::Moment;
use baton_election::time::Span;
use baton_node::{LeadershipSnapshot, LeadershipStatus, NodeError, RunningNode};
use baton_peer::{NodeId, Timing};
use baton_store::boot;
use baton_warden::{
    ChildRegistry, CommandExit, EndCause, Report, Request, SecretFile, Start, StatusFiles, WardenEvent,
    WardenHandle,
};

use super::events::EventPrinter;
use super::options::MemberSetup;
use super::{Lead, memory};
use crate::commands::run::signals::Signals;
use crate::exit::Exit;
use crate::output::{Failure, Outcome};
use crate::suspend;
use crate::warden_process::{self, CommandSetup, Duty, Holding, RunFolder, boot_time};

/// What another run of CMD around us left in our environment.
const OTHERS: [&str; 15] = [
    "BATON_ELECTION",
    "BATON_AGENT",
    "BATON_TOKEN",
    "BATON_TOKEN_FILE",
    "BATON_KEY",
    "BATON_KEY_FILE",
    "BATON_MODE_FILE",
    "BATON_CHECKPOINT_FILE",
    "BATON_PROGRESS_FILE",
    "BATON_HANDOVER_FILE",
    "BATON_LEASE_FILE",
    "BATON_REGION",
    "BATON_REGION_STORE",
    "BATON_REGION_KEY_FILE",
    "BATON_REGION_TOKEN_FILE",
];
/// A bound on a hang: the shell gives up sooner.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// What stays the same from one leadership to the next.
pub(super) struct Work<'a> {
    lead: &'a Lead,
    id: NodeId,
    algorithm: &'static str,
    tokens: bool,
    timing: Timing,
    grace: Span,
    events: EventPrinter,
    children: ChildRegistry,
    signals: Signals,
    /// The leadership under which CMD has run: it does not run twice under one token.
    spent: u64,
    /// CMD has run.
    ran: bool,
}

/// How the wait for a leadership ended.
enum WaitEnd {
    Leads(LeadershipSnapshot),
    /// A signal ended it; the exit code that goes with it.
    AskedToStop(u8),
    /// The warden was killed; another is needed.
    WardenGone,
}

/// Why CMD is being stopped.
enum StopReason {
    /// A signal asked for it, or Ctrl-C at CMD's terminal.
    Asked,
    /// Ctrl-Z at CMD's terminal asked for it.
    Suspended,
    /// The leadership is to be handed over.
    HandOver,
    /// The leadership is over.
    Lost(String),
    /// The member cannot go on.
    Failed(Failure),
}

impl<'a> Work<'a> {
    pub(super) fn prepare(
        lead: &'a Lead,
        settled: &MemberSetup,
        algorithm: &'static str,
        tokens: bool,
        events: EventPrinter,
    ) -> Result<Work<'a>, Failure> {
        let (timing, grace) = (settled.node.config.timing, settled.grace);
        let (children, signals) = (ChildRegistry::open()?, Signals::listen()?);
        Ok(Work {
            lead,
            id: settled.node.config.id,
            algorithm,
            tokens,
            timing,
            grace,
            events,
            children,
            signals,
            spent: 0,
            ran: false,
        })
    }

    /// Until CMD ends by itself, a signal comes, or the member fails.
    pub(super) async fn run(mut self, mut running: RunningNode) -> Outcome {
        if self.lead.witness {
            return self.witness(running).await;
        }
        loop {
            let folder = RunFolder::make()?;
            let given = CommandSetup { heard: false, terminal: true, hidden: &OTHERS };
            let mut warden = warden_process::prepare(self.children, &folder, given).await?;
            let snapshot = match self.wait(&mut running, &mut warden).await? {
                WaitEnd::Leads(snapshot) => snapshot,
                WaitEnd::WardenGone => continue,
                WaitEnd::AskedToStop(code) => {
                    let _ = warden.dismiss().await;
                    self.leave(running).await;
                    self.events.tell("stopped", None, self.stopped());
                    return Ok(Exit::Command(code));
                }
            };
            if self.tokens {
                self.spent = snapshot.serial;
            }
            self.ran = true;
            let (code, stopping) =
                CommandRun::begin(&mut self, &mut running, &folder, warden, snapshot).await?;
            match stopping {
                None | Some(StopReason::Asked) => {
                    self.leave(running).await;
                    let ended = || format!("CMD ended with exit code {code}");
                    let why = stopping.map_or_else(ended, |_| "asked to stop".to_string());
                    self.events.tell("left", Some(snapshot.term), &format!("left the group ({why})"));
                    return Ok(Exit::Command(code));
                }
                Some(StopReason::Suspended) => {
                    if !self.suspend(&running, &snapshot).await? {
                        self.leave(running).await;
                        return Ok(Exit::Command(suspend::SUSPENDED));
                    }
                }
                Some(StopReason::HandOver) => {
                    let text = "CMD has stopped; the leadership is handed over";
                    self.events.tell("handed-over", Some(snapshot.term), text);
                    running.work.stopped(snapshot.serial).await;
                }
                // What became of the member is more than that it lost its leadership. Nobody has heard it yet: who had would know that it failed.
                Some(StopReason::Lost(_)) if running.task.is_finished() => {
                    return Err(failure(running.task.await));
                }
                Some(StopReason::Failed(failure)) => return Err(failure),
                Some(StopReason::Lost(why)) => {
                    if !self.lead.once || self.events.is_json() {
                        self.events.tell("lost", Some(snapshot.term), &format!("lost the leadership: {why}"));
                    }
                    if self.lead.once {
                        self.leave(running).await;
                        return Err(self.lost_for_good(&why));
                    }
                    if let Some(code) = self.signals.asked() {
                        self.leave(running).await;
                        let text = "asked to stop; it does not stand again";
                        self.events.tell("stopped", Some(snapshot.term), text);
                        return Ok(Exit::Command(code));
                    }
                    if self.tokens {
                        running.work.resign(snapshot.serial).await;
                    }
                }
            }
        }
    }

    /// Ctrl-Z ended CMD: gives the leadership up and waits for the shell; `false` if there is none.
    async fn suspend(&self, running: &RunningNode, snapshot: &LeadershipSnapshot) -> Result<bool, Failure> {
        if self.tokens {
            running.work.resign(snapshot.serial).await;
        }
        let text = "Ctrl-Z ended CMD; it stands again once the shell continues it";
        self.events.tell("suspended", Some(snapshot.term), text);
        self.events.finish();
        suspend::until_continued().await
    }

    /// The leadership was lost, and it does not stand again.
    fn lost_for_good(&self, why: &str) -> Failure {
        let text = format!("member {} lost the leadership of {}: {why}", self.id, self.lead.group);
        Failure::new(Exit::Lost, "lost", text, "without --once it would stand again")
    }

    /// How a wait for a leadership is said to have ended.
    fn stopped(&self) -> &'static str {
        match self.ran {
            true => "stopped while waiting to lead again",
            false => "stopped while waiting; CMD was not run",
        }
    }

    /// A witness has nothing to run.
    async fn witness(mut self, mut running: RunningNode) -> Outcome {
        loop {
            tokio::select! {
                code = self.signals.next() => {
                    self.leave(running).await;
                    self.events.tell("stopped", None, "the witness has left");
                    return Ok(Exit::Command(code));
                }
                Some(event) = running.events.recv() => self.events.pass_on(&event),
                ended = &mut running.task => return Err(failure(ended)),
            }
        }
    }

    /// Waits for a leadership that nobody wants to hand over.
    async fn wait(
        &mut self,
        running: &mut RunningNode,
        warden: &mut WardenHandle,
    ) -> Result<WaitEnd, Failure> {
        loop {
            if let Some(code) = self.signals.asked() {
                return Ok(WaitEnd::AskedToStop(code));
            }
            let status = *running.leadership.borrow_and_update();
            match status.current {
                Some(snapshot) if snapshot.stop => running.work.stopped(snapshot.serial).await,
                Some(snapshot) if snapshot.serial > self.spent => return Ok(WaitEnd::Leads(snapshot)),
                Some(_) | None => {}
            }
            tokio::select! {
                _ = running.leadership.changed() => {}
                code = self.signals.next() => return Ok(WaitEnd::AskedToStop(code)),
                _ = warden.next_report() => return Ok(WaitEnd::WardenGone),
                Some(event) = running.events.recv() => self.events.pass_on(&event),
                ended = &mut running.task => return Err(failure(ended)),
            }
        }
    }

    /// Nothing of CMD is left: the shell hands over and ends.
    async fn leave(&self, running: RunningNode) {
        if running.task.is_finished() {
            return;
        }
        running.work.leave().await;
        let _ = tokio::time::timeout(FAREWELL_MAX, running.task).await;
    }

    /// When CMD must be gone, for the warden. Where there is no lease: soon after nobody renews it.
    fn deadline(&self, snapshot: &LeadershipSnapshot) -> Moment {
        snapshot.until.unwrap_or_else(|| boot::now() + self.timing.timeout_max)
    }
}

/// Why a member's task ended by itself.
fn failure(ended: Result<Result<(), NodeError>, tokio::task::JoinError>) -> Failure {
    match ended {
        Ok(Err(error)) => memory(&error),
        Ok(Ok(())) => Failure::new(Exit::Error, "system", "the member has ended", "start it again"),
        Err(error) => Failure::new(Exit::Error, "system", error.to_string(), "start it again"),
    }
}

/// One run of CMD, under one leadership.
struct CommandRun<'a, 'b> {
    work: &'a mut Work<'b>,
    running: &'a mut RunningNode,
    warden: WardenHandle,
    snapshot: LeadershipSnapshot,
    stopping: Option<StopReason>,
    /// A signal came while CMD ran.
    asked: bool,
    /// There is nothing more to hear of the leadership.
    deaf: bool,
}

impl CommandRun<'_, '_> {
    /// Runs CMD until nothing of it is left.
    async fn begin(
        work: &mut Work<'_>,
        running: &mut RunningNode,
        folder: &RunFolder,
        warden: WardenHandle,
        snapshot: LeadershipSnapshot,
    ) -> Result<(u8, Option<StopReason>), Failure> {
        let mut turn =
            CommandRun { work, running, warden, snapshot, stopping: None, asked: false, deaf: false };
        let sign = turn.sign(folder);
        let start = turn.start(folder);
        let started = turn.warden.show(sign).and_then(|()| turn.warden.start(start));
        started.map_err(|error| Failure::new(Exit::Usage, "warden", error.to_string(), "see what CMD is"))?;
        let code = turn.watch_over(folder).await?;
        let CommandRun { warden, stopping, work, .. } = turn;
        let _ = warden.dismiss().await;
        let stopping = match stopping {
            Some(StopReason::Suspended) if work.lead.once => {
                Some(StopReason::Lost("Ctrl-Z ended CMD".to_string()))
            }
            stopping => stopping,
        };
        Ok((code, stopping))
    }

    fn sign(&self, folder: &RunFolder) -> StatusFiles {
        let token = SecretFile { path: folder.file("token"), text: format!("{}\n", self.snapshot.term) };
        let papers = if self.work.tokens { vec![token] } else { Vec::new() };
        StatusFiles { mode: folder.file("mode"), secrets: papers, outlives_lease: false }
    }

    fn start(&self, folder: &RunFolder) -> Start {
        let path = |name: &str| folder.file(name).display().to_string();
        let (lead, term) = (self.work.lead, self.snapshot.term);
        let mut env = vec![
            ("BATON_ELECTION", lead.group.to_string()),
            ("BATON_AGENT", agent(self.work.id)),
            ("BATON_MODE_FILE", path("mode")),
        ];
        if self.work.tokens {
            env.extend([("BATON_TOKEN", term.to_string()), ("BATON_TOKEN_FILE", path("token"))]);
        }
        let duty =
            Duty { store: String::new(), folder: folder.path().to_path_buf(), gives_back: Holding::Nothing };
        Start {
            command: lead.command.clone(),
            env: env.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            deadline: boot_time(self.work.deadline(&self.snapshot)),
            grace_ms: self.work.grace.as_millis(),
            ticket: duty.ticket(),
        }
    }

    /// Until nothing of CMD is left; returns its exit code.
    async fn watch_over(&mut self, folder: &RunFolder) -> Result<u8, Failure> {
        let heartbeat = Duration::from_nanos(self.work.timing.heartbeat.as_nanos());
        let mut beats = tokio::time::interval(heartbeat);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                news = self.warden.next_report() => match news {
                    Ok(WardenEvent::Told(Report::Started { .. })) => self.leading(),
                    Ok(WardenEvent::Told(Report::Ended { how, why })) => return self.ended(folder, &how, why),
                    Ok(WardenEvent::Told(Report::Unkillable { pid, name })) => {
                        let text = format!("cannot end process {pid} ({name}) of CMD; nothing is handed over while it lives");
                        self.work.events.tell("unkillable", None, &text);
                    }
                    Ok(WardenEvent::Told(
                        Report::Kept { .. }
                        | Report::Terminating { .. }
                        | Report::ReadOnly
                        | Report::Leading
                        | Report::Suspended
                        | Report::Validated { .. },
                    )) => {}
                    Ok(WardenEvent::Asked(Request::Interrupt)) => {
                        self.work.signals.note_interrupt();
                        self.stop_as_asked();
                    }
                    Ok(WardenEvent::Asked(Request::Suspend)) => self.stop(StopReason::Suspended),
                    Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => return Ok(self.seize().await),
                },
                changed = self.running.leadership.changed(), if !self.deaf => {
                    let status = *self.running.leadership.borrow_and_update();
                    match changed {
                        Ok(()) => self.heed(status),
                        // The task has ended, which is told below.
                        Err(_) => self.deaf = true,
                    }
                }
                _ = beats.tick(), if self.snapshot.until.is_none() && self.stopping.is_none() => {
                    let _ = self.warden.deadline(boot_time(self.work.deadline(&self.snapshot)));
                }
                _ = self.work.signals.next() => self.stop_as_asked(),
                Some(event) = self.running.events.recv() => self.work.events.pass_on(&event),
                ended = &mut self.running.task, if !self.running.task.is_finished() || self.stopping.is_none() => {
                    self.stop(StopReason::Failed(failure(ended)));
                }
            }
        }
    }

    fn leading(&self) {
        let (id, group, term) = (self.work.id, &self.work.lead.group, self.snapshot.term);
        let text = match self.work.tokens {
            true => format!("member {id} leads {group} with token {term}"),
            false => format!("member {id} leads {group} ({}: without a token)", self.work.algorithm),
        };
        self.work.events.tell("leading", Some(term), &text);
    }

    /// The shell says how the leadership stands.
    fn heed(&mut self, status: LeadershipStatus) {
        match status.current {
            Some(snapshot) if snapshot.serial == self.snapshot.serial => {
                if snapshot.until != self.snapshot.until
                    && let Some(until) = snapshot.until
                {
                    let _ = self.warden.deadline(boot_time(until));
                }
                self.snapshot = snapshot;
                if snapshot.stop {
                    self.stop(StopReason::HandOver);
                }
            }
            Some(_) | None => {
                let why = match status.ended {
                    Some((serial, why)) if serial == self.snapshot.serial => lost(why),
                    Some(_) | None => "the leadership is over".to_string(),
                };
                self.stop(StopReason::Lost(why));
            }
        }
    }

    /// CMD must stop; the first reason stands, unless the leadership is lost before it is handed over, or what ended it turns out to be more
    /// than a loss.
    fn stop(&mut self, why: StopReason) {
        match (&self.stopping, &why) {
            (None, _)
            | (Some(StopReason::HandOver), StopReason::Lost(_) | StopReason::Failed(_))
            | (Some(StopReason::Lost(_)), StopReason::Failed(_)) => {
                if self.stopping.is_none() {
                    let _ = self.warden.stop();
                }
                self.stopping = Some(why);
            }
            (Some(_), _) => {}
        }
    }

    /// A signal says that CMD must stop; a second one, that it must stop at once. A CMD that is being ended for another reason keeps
    /// the rest of its grace at the first.
    fn stop_as_asked(&mut self) {
        if std::mem::replace(&mut self.asked, true) {
            let _ = self.warden.kill();
        }
        match self.stopping {
            None => self.stop(StopReason::Asked),
            Some(StopReason::HandOver) => self.stopping = Some(StopReason::Asked),
            Some(StopReason::Asked | StopReason::Suspended | StopReason::Lost(_) | StopReason::Failed(_)) => {
            }
        }
    }

    /// Nothing of CMD is left.
    fn ended(&mut self, folder: &RunFolder, how: &CommandExit, why: EndCause) -> Result<u8, Failure> {
        match (why, how) {
            (EndCause::Deadline, _) => {
                let lost = match self.work.tokens {
                    true => "no majority answered in time",
                    false => "this process stood still for longer than a timeout",
                };
                self.stopping.get_or_insert(StopReason::Lost(lost.to_string()));
            }
            (EndCause::Unshown, _) => {
                return Err(Failure::new(
                    Exit::Error,
                    "system",
                    format!("cannot write the files of CMD below {}", folder.path().display()),
                    "they tell CMD whether it leads; XDG_RUNTIME_DIR must have room and be this user's own",
                ));
            }
            (EndCause::Finished | EndCause::Stopped | EndCause::Orphaned, _) => {}
        }
        Ok(how.exit_code())
    }

    /// The warden is dead or stopped: what it kept is ended from here.
    async fn seize(&mut self) -> u8 {
        self.stopping.get_or_insert(StopReason::Lost("the warden was killed or stopped".to_string()));
        loop {
            match self.warden.seize().await {
                Ok(()) => return 137,
                // Nothing is handed over while something of CMD may be left.
                Err(error) => {
                    self.work.events.tell("unkillable", None, &format!("cannot end CMD: {error}"));
                }
            }
        }
    }
}

/// What CMD is called as.
fn agent(id: NodeId) -> String {
    format!("peer-{id}")
}

/// Why a leadership ended, for people.
fn lost(why: baton_peer::LossCause) -> String {
    match why {
        baton_peer::LossCause::NoMajority => "no majority answered in time".to_string(),
        baton_peer::LossCause::HigherTerm(term) => format!("another stands in term {term}"),
        baton_peer::LossCause::HandedOver => "it was handed over".to_string(),
        baton_peer::LossCause::Removed => "this member is not to lead any more".to_string(),
        baton_peer::LossCause::Outranked(leader) => format!("member {leader} outranks it"),
    }
}
