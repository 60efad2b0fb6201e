//! The warden: parent of CMD, deaf to the terminal, awake at the deadline.
//!
//! Assumes that it is the only thread of its process and has no other children than CMD's and the validator's. Guarantees that newer
//! deadlines are heard before an old one is acted on, that any failure of the link to run ends CMD, that a CMD
//! is shown `leading` only while it has a lease, and that `release` is called only after both trees are gone. Does not guarantee anything while it is stopped:
//! run steps in there.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process_group,
    pidfd_open, setsid, waitid, waitpid,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::child_registry::{ChildRegistry, become_subreaper};
use crate::clock::{BootTime, BootTimer};
use crate::link::{Link, OwnTerminal};
use crate::order::{CommandExit, EndCause, Lead, Order, Report, Start, Ticket};
use crate::process_tree::ProcessTree;
use crate::schedule::{Schedule, Step, Watch};
use crate::shim::NO_TERMINAL;
use crate::status_files::StatusFiles;
use crate::sweep::{Pauses, Reach};
use crate::validator::{ValidatorSlot, unstarted};

/// How often a tree that was asked to end is looked at.
const STOPPING_TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// How long run, after the lease is lost, may take to release it itself: until the deadline, within bounds.
const RELEASE_PATIENCE_MIN: Duration = Duration::from_millis(50);
const RELEASE_PATIENCE_MAX: Duration = Duration::from_millis(200);
/// A sweep that takes longer has met processes that do not die.
const SWEEP_PATIENCE: Duration = Duration::from_secs(2);
/// Most survivors that are reported.
const SURVIVORS_MAX: usize = 64;

/// The warden could not do its work. CMD's main process dies with the warden; run sweeps the rest.
#[derive(Debug, thiserror::Error)]
pub enum WardenError {
    /// CMD was not started.
    #[error("cannot set up the warden: {0}")]
    Setup(#[source] io::Error),
    /// CMD's tree was swept; the lease was not released.
    #[error("the warden cannot wait for events: {0}")]
    Waiting(#[source] io::Error),
}

/// How a warden's service ended. No descendant is left in any of these cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WardenExit {
    /// CMD was never ordered.
    Unneeded,
    /// Run took care of the lease.
    Dismissed,
    /// Run did not, and `release` was called.
    Released,
}

/// The hidden subcommands of the program that is warden, CMD's shim and the validator's keeper.
#[derive(Clone, Copy, Debug)]
pub struct Shims<'a> {
    /// Ends in [`crate::exec_shim`].
    pub command: &'a [OsString],
    /// Ends in [`crate::keep_validator`].
    pub validator: &'a [OsString],
}

/// Serves as the warden of one CMD, and of the validators that judge it. `release` gets the ticket of [`Start`] if run cannot release the lease; it is called at most once, when
/// no descendant is left.
///
/// # Errors
/// See [`WardenError`]; nothing was released.
pub fn serve(
    socket: &Path,
    shims: Shims<'_>,
    release: impl FnOnce(&Ticket),
) -> Result<WardenExit, WardenError> {
    let registry = leave_terminal().map_err(WardenError::Setup)?;
    // Connected last: run takes the connection for the sign that the terminal's signals cannot reach us.
    let mut link = Link::connect(socket).map_err(WardenError::Setup)?;
    let timer = BootTimer::new().map_err(|error| WardenError::Setup(error.into()))?;
    let Some((start, status_files)) = await_start(&mut link)? else { return Ok(WardenExit::Unneeded) };
    let outlives_lease = status_files.as_ref().is_some_and(|status_files| status_files.outlives_lease);
    let watch = Watch::new(start.deadline, start.grace(), outlives_lease);
    let grace = start.grace();
    let mut bench = ValidatorSlot::new(registry, shims.validator);
    let (how, why, mut lease, dismissed) =
        match spawn(&start, status_files.as_ref(), &watch, shims.command, link.terminal.cmd) {
            Ok((main, handle)) => {
                link.say(&Report::Started { pid: main.as_raw_pid().cast_unsigned() });
                link.say(&Report::Kept { deadline: start.deadline });
                let (link, timer, ticket, bench) = (&mut link, &timer, start.ticket, &mut bench);
                let ends = EndOrder { dismissed: false, at_once: false };
                let mut warden =
                    Warden { link, timer, main, handle, watch, status_files, ticket, bench, ends };
                let why = warden.keep();
                if warden.link.closed {
                    warden.link.terminal.restore();
                }
                // Whatever happened, nothing of CMD stays.
                let how = warden.sweep(matches!(why, Ok(EndCause::Finished | EndCause::Stopped)));
                take_down(warden.status_files.as_ref());
                if matches!(why, Ok(EndCause::Deadline)) {
                    // Run may be stopped.
                    warden.link.terminal.restore();
                }
                let lease = Lease { deadline: warden.watch.deadline(), grace, ticket: warden.ticket };
                (how, why?, lease, warden.ends.dismissed)
            }
            Err((how, why)) => {
                take_down(status_files.as_ref());
                (how, why, Lease { deadline: Some(start.deadline), grace, ticket: start.ticket }, false)
            }
        };
    link.say(&Report::Ended { how, why });
    if dismissed || linger(&mut link, &timer, why, &mut lease, &mut bench)? == WardenExit::Dismissed {
        return Ok(WardenExit::Dismissed);
    }
    link.terminal.restore();
    drop(link);
    release(&lease.ticket);
    Ok(WardenExit::Released)
}

/// Nothing of CMD is left: whoever still looks at its files, as another's CMD begins, must not find that it leads.
fn take_down(status_files: Option<&StatusFiles>) {
    let _shown = status_files.map(StatusFiles::show_read_only);
}

/// What is left to give back after CMD.
struct Lease {
    /// None if CMD ended without a lease.
    deadline: Option<BootTime>,
    grace: Duration,
    ticket: Ticket,
}

/// A session of its own, and a life that signals do not end.
fn leave_terminal() -> io::Result<ChildRegistry> {
    setsid()?;
    outlive_signals()?;
    Ok(ChildRegistry::of_warden())
}

/// Adoption of orphans, and handlers in place of the deadly defaults: a service manager that sends SIGTERM to everybody must not take from CMD the grace that
/// run's order to stop will give it.
pub(crate) fn outlive_signals() -> io::Result<()> {
    become_subreaper()?;
    // Only the handlers are wanted; they outlive the runtime. SIGCHLD's makes `poll` return when an orphan
    // dies.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate(), SignalKind::child()]
    {
        drop(signal(kind)?);
    }
    Ok(())
}

fn await_start(link: &mut Link) -> Result<Option<(Start, Option<StatusFiles>)>, WardenError> {
    let mut status_files = None;
    loop {
        wait_for(&mut [PollFd::new(link, PollFlags::IN)], None)?;
        link.drain();
        while let Some(order) = link.next() {
            match order {
                Order::Show(shown) => status_files = Some(shown),
                Order::Terminal { stderr } => link.terminal.cmd = Some(OwnTerminal { stderr }),
                Order::Modes(modes) => link.terminal.run = Some(modes),
                Order::Start(start) => return Ok(Some((start, status_files))),
                // Nothing runs that a deadline could end, or that could lead again.
                Order::Deadline { .. } | Order::Lead(_) | Order::EndValidation => {}
                // Nothing is there that it could judge.
                Order::Validate(_) => unstarted("CMD has not been started".into(), link),
                Order::Stop | Order::Kill | Order::Dismiss => return Ok(None),
            }
        }
        if link.closed {
            return Ok(None);
        }
    }
}

fn spawn(
    start: &Start,
    status_files: Option<&StatusFiles>,
    watch: &Watch,
    shim: &[OsString],
    terminal: Option<OwnTerminal>,
) -> Result<(Pid, OwnedFd), (CommandExit, EndCause)> {
    if !matches!(watch.step(BootTime::now()), Step::Wait { .. }) {
        return Err((CommandExit::Unstarted("the lease is about to end".into()), EndCause::Deadline));
    }
    if let Some(Err(error)) = status_files.map(StatusFiles::show_leading) {
        return Err((CommandExit::Unstarted(error.to_string()), EndCause::Unshown));
    }
    // The running executable, also if its file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    let unstarted = |error: io::Error| (CommandExit::Unstarted(error.to_string()), EndCause::Finished);
    command.args(shim);
    match terminal {
        Some(terminal) => terminal.give_to(&mut command).map_err(unstarted)?,
        None => drop(command.arg(NO_TERMINAL).process_group(0)),
    }
    command.arg(getpid().as_raw_pid().to_string()).args(&start.command);
    command.envs(start.env.iter().map(|(name, value)| (name, value)));
    let child = command.spawn().map_err(unstarted)?;
    let main = Pid::from_child(&child);
    match pidfd_open(main, PidfdFlags::empty()) {
        Ok(handle) => Ok((main, handle)),
        Err(error) => {
            sweep(&Reach::Everything, None, |_, _| {});
            Err(unstarted(error.into()))
        }
    }
}

/// After the end: run releases the lease and dismisses us, or we release it. Without a lease there is no hurry. A validator may be at work;
/// it is gone when this returns.
fn linger(
    link: &mut Link,
    timer: &BootTimer,
    why: EndCause,
    lease: &mut Lease,
    bench: &mut ValidatorSlot<'_>,
) -> Result<WardenExit, WardenError> {
    let now = BootTime::now();
    let patience_ends = |deadline: BootTime| match why {
        EndCause::Deadline => deadline.min(now.later(RELEASE_PATIENCE_MAX)),
        // The lease goes on, and run with it until it stops renewing.
        EndCause::Finished | EndCause::Stopped | EndCause::Orphaned | EndCause::Unshown => deadline,
    };
    let mut release_at =
        lease.deadline.map(|deadline| patience_ends(deadline).max(now.later(RELEASE_PATIENCE_MIN)));
    loop {
        link.drain();
        while let Some(order) = link.next() {
            match order {
                Order::Dismiss => {
                    bench.end_now(link);
                    return Ok(WardenExit::Dismissed);
                }
                // Said before run heard that CMD has ended: what was granted to it has to be given back.
                Order::Lead(Lead { deadline, grace_ms, ticket, .. }) => {
                    let grace = Duration::from_millis(grace_ms);
                    *lease = Lease { deadline: Some(deadline), grace, ticket };
                    release_at = Some(deadline);
                    link.say(&Report::Kept { deadline });
                }
                Order::Deadline { deadline } if lease.deadline.is_some() => {
                    release_at = Some(deadline);
                    link.say(&Report::Kept { deadline });
                }
                Order::Validate(validation) => match release_at {
                    Some(deadline) if why != EndCause::Deadline => {
                        bench.begin(&validation, link);
                        link.say(&Report::Kept { deadline });
                    }
                    Some(_) | None => unstarted("the lease has ended".into(), link),
                },
                Order::EndValidation => bench.ask_to_end(),
                Order::Kill => bench.end_now(link),
                Order::Modes(modes) => link.terminal.run = Some(modes),
                Order::Deadline { .. }
                | Order::Show(_)
                | Order::Terminal { .. }
                | Order::Start(_)
                | Order::Stop => {}
            }
        }
        bench.tend(link);
        if link.closed || release_at.is_some_and(|at| BootTime::now() >= at) {
            bench.end_now(link);
            return Ok(WardenExit::Released);
        }
        let validator_due = end_validator_in_time(link, bench, release_at, lease.grace);
        let due = release_at.into_iter().chain(validator_due).min();
        timer.arm(due).map_err(|error| WardenError::Waiting(error.into()))?;
        let mut events = vec![PollFd::new(link, PollFlags::IN), PollFd::new(timer, PollFlags::IN)];
        events.extend(bench.events());
        wait_for(&mut events, None)?;
    }
}

/// A validator that outlives CMD ends before the lease does, as CMD would. Returns when it has to be looked at again.
fn end_validator_in_time(
    link: &mut Link,
    bench: &mut ValidatorSlot<'_>,
    deadline: Option<BootTime>,
    grace: Duration,
) -> Option<BootTime> {
    let schedule = Schedule::new(deadline?, grace);
    let now = BootTime::now();
    if now >= schedule.kill_at {
        bench.end_now(link);
    } else if now >= schedule.term_at && bench.works() {
        bench.ask_to_end();
        link.say(&Report::Terminating { why: EndCause::Deadline });
    }
    if !bench.is_taken() {
        return None;
    }
    let next = if bench.works() { schedule.term_at } else { schedule.kill_at };
    Some(bench.due().map_or(next, |due| due.min(next)))
}

/// The warden while CMD runs.
struct Warden<'a, 'b> {
    link: &'a mut Link,
    timer: &'a BootTimer,
    main: Pid,
    handle: OwnedFd,
    watch: Watch,
    status_files: Option<StatusFiles>,
    ticket: Ticket,
    bench: &'a mut ValidatorSlot<'b>,
    ends: EndOrder,
}

/// How run wants CMD to end.
struct EndOrder {
    /// Run has left the rest to us.
    dismissed: bool,
    /// Nothing is spared.
    at_once: bool,
}

impl Warden<'_, '_> {
    /// Waits until CMD has to be swept, and says why.
    fn keep(&mut self) -> Result<EndCause, WardenError> {
        loop {
            // Orders before time: having been stopped ourselves, we may find an old deadline passed and a
            // newer one said.
            self.link.drain();
            if let Some(why) = self.obey() {
                return Ok(why);
            }
            if self.link.closed {
                return Ok(EndCause::Orphaned);
            }
            self.bench.tend(self.link);
            if let Some(why) = self.reap_orphans() {
                return Ok(why);
            }
            self.look_whether_it_stopped();
            let until = match self.watch.step(BootTime::now()) {
                Step::Kill(why) => return Ok(why),
                Step::Terminate => {
                    self.terminate(EndCause::Deadline);
                    continue;
                }
                Step::StandDown => {
                    self.stand_down();
                    continue;
                }
                Step::Wait { until } => until,
            };
            self.wait(until)?;
        }
    }

    /// Does what run said; a reason means that CMD has to be killed.
    fn obey(&mut self) -> Option<EndCause> {
        let mut renewed = None;
        while let Some(order) = self.link.next() {
            match order {
                Order::Deadline { deadline } => {
                    // Unless it is of a lease that CMD was told is over.
                    renewed = self.watch.renew(deadline).then_some(deadline).or(renewed);
                }
                Order::Show(status_files) => self.show_secrets(status_files),
                Order::Lead(lead) => {
                    renewed = Some(lead.deadline);
                    self.lead(lead);
                }
                Order::Stop if self.watch.stopping().is_none() => self.terminate(EndCause::Stopped),
                Order::Stop => {}
                Order::Validate(validation) => match self.watch.deadline() {
                    Some(deadline) => {
                        self.bench.begin(&validation, self.link);
                        renewed = renewed.or(Some(deadline));
                    }
                    None => unstarted("CMD does not lead".into(), self.link),
                },
                Order::EndValidation => self.bench.ask_to_end(),
                Order::Kill => {
                    self.ends.at_once = true;
                    return Some(EndCause::Stopped);
                }
                Order::Dismiss => {
                    self.ends = EndOrder { dismissed: true, at_once: true };
                    return Some(EndCause::Stopped);
                }
                Order::Modes(modes) => self.link.terminal.run = Some(modes),
                // A second CMD is nonsense, and whoever says it cannot be trusted with the first.
                Order::Start(_) | Order::Terminal { .. } => self.link.closed = true,
            }
        }
        if let Some(deadline) = renewed {
            self.link.say(&Report::Kept { deadline });
        }
        None
    }

    fn terminate(&mut self, why: EndCause) {
        self.watch.stop(why, BootTime::now());
        // A stopped process hears SIGTERM only once it is continued. A validator may finish while CMD has its grace, unless the lease
        // is about to end.
        self.bench.others().signal(&[Signal::TERM, Signal::CONT]);
        if why != EndCause::Stopped {
            self.bench.ask_to_end();
        }
        self.link.say(&Report::Terminating { why });
    }

    /// CMD goes on without its lease. One that cannot be told so is asked to end.
    fn stand_down(&mut self) {
        match self.status_files.as_ref().map_or(Ok(()), StatusFiles::show_read_only) {
            Ok(()) => {
                // It does not look at the status files, and has the secret files of the lease that ends.
                self.bench.end_now(self.link);
                self.watch.stand_down();
                self.link.say(&Report::ReadOnly);
            }
            Err(_) => self.terminate(EndCause::Unshown),
        }
    }

    /// CMD has another lease. It is shown only if there is time to work under it.
    fn lead(&mut self, lead: Lead) {
        self.watch.lead(lead.deadline, lead.grace());
        self.ticket = lead.ticket;
        let timely = matches!(self.watch.step(BootTime::now()), Step::Wait { .. });
        if timely && self.watch.stopping().is_none() {
            match lead.status_files.show_leading() {
                Ok(()) => self.link.say(&Report::Leading),
                Err(_) => self.terminate(EndCause::Unshown),
            }
        }
        self.status_files = Some(lead.status_files);
    }

    /// CMD has other secret files, unless it was told that it does not lead.
    fn show_secrets(&mut self, status_files: StatusFiles) {
        if self.watch.leads() {
            if status_files.show_secrets().is_err() && self.watch.stopping().is_none() {
                self.terminate(EndCause::Unshown);
            }
            self.status_files = Some(status_files);
        }
    }

    /// Reaps adopted children; a reason means that nothing is left to wait for.
    ///
    /// The main process stays unreaped until the sweep, so that its pid and its group's number remain its
    /// own.
    fn reap_orphans(&self) -> Option<EndCause> {
        let children = ProcessTree::look().map(|tree| tree.children(getpid())).unwrap_or_default();
        let mut left = 0;
        for pid in children.into_iter().filter(|pid| *pid != self.main && !self.bench.is_keeper(*pid)) {
            left += usize::from(!matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_))));
        }
        match self.watch.stopping() {
            _ if !self.main_ended() => None,
            None => Some(EndCause::Finished),
            // What outlives the main process has the rest of the grace.
            Some(why) => (left == 0).then_some(why),
        }
    }

    /// A CMD at a terminal that stopped itself waits for a shell that could continue it, and there is none.
    fn look_whether_it_stopped(&mut self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        if self.link.terminal.cmd.is_some()
            && let Ok(Some(_)) = waitid(WaitId::Pid(self.main), options)
        {
            self.link.say(&Report::Suspended);
        }
    }

    fn main_ended(&self) -> bool {
        let mut events = [PollFd::new(&self.handle, PollFlags::IN)];
        poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }

    fn wait(&self, until: Option<BootTime>) -> Result<(), WardenError> {
        let until = until.into_iter().chain(self.bench.due()).min();
        self.timer.arm(until).map_err(|error| WardenError::Waiting(error.into()))?;
        let stopping = self.watch.stopping().is_some();
        let mut events = vec![
            PollFd::new(self.link, PollFlags::IN),
            PollFd::new(self.timer, PollFlags::IN),
            PollFd::new(&self.handle, PollFlags::IN),
        ];
        if stopping {
            // Its handle stays readable once the main process has ended; the tick looks after the others.
            events.pop();
        }
        events.extend(self.bench.events());
        wait_for(&mut events, stopping.then_some(&STOPPING_TICK))
    }

    /// Kills until nobody is left; says how the main process ended. A validator may be spared: it judges what CMD left.
    fn sweep(&mut self, spares_validator: bool) -> CommandExit {
        // One blow for the whole group, against forks that are quicker than a look at `/proc`. It may be
        // empty, or not ours to kill; the sweep finds whoever there is.
        let _group = kill_process_group(self.main, Signal::KILL);
        let spared = spares_validator && !self.ends.at_once;
        let reach = if spared { self.bench.others() } else { Reach::Everything };
        let status = sweep(&reach, Some(self.main), |pid, name| {
            self.link.say(&Report::Unkillable { pid, name });
        });
        if !spared {
            self.bench.swept(self.link);
        }
        status.map_or(CommandExit::Signal(Signal::KILL.as_raw()), how)
    }
}

/// Sweeps our descendants within reach, reporting each survivor once; returns the status of `main`.
fn sweep(reach: &Reach, main: Option<Pid>, mut report: impl FnMut(u32, String)) -> Option<WaitStatus> {
    let patience_ends = BootTime::now().later(SWEEP_PATIENCE);
    let mut pauses = Pauses::new();
    let mut status = None;
    let mut reported = HashSet::new();
    loop {
        let pass = reach.pass();
        status = pass.reaped.iter().find(|(pid, _)| Some(*pid) == main).map(|(_, status)| *status).or(status);
        if pass.clear {
            return status;
        }
        let late = BootTime::now() >= patience_ends;
        for survivor in pass.survivors {
            let new =
                reported.len() < SURVIVORS_MAX && (late || survivor.refused) && reported.insert(survivor.pid);
            if new {
                report(survivor.pid, survivor.name);
            }
        }
        pauses.pause();
    }
}

pub(crate) fn how(status: WaitStatus) -> CommandExit {
    match status.exit_status() {
        Some(code) => CommandExit::Exit(code),
        None => CommandExit::Signal(status.terminating_signal().unwrap_or_default()),
    }
}

/// Waits for an event; being interrupted by a signal counts as one.
fn wait_for(events: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> Result<(), WardenError> {
    match poll(events, timeout) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(WardenError::Waiting(error.into())),
    }
}
