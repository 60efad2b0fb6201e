//! The validator: a second command under the same warden, which has the leader's secret files and judges what CMD did.
//!
//! Between the warden and the validator stands a *keeper*, a subreaper of its own: it tells the validator's descendants from CMD's, also
//! those that left their parents, and ends when none of them is left.
//!
//! Assumes that nobody kills the keeper. Guarantees that [`Validator::ended`] is true only when the keeper, and with it every descendant of
//! the validator, is gone. Does not guarantee that for a keeper which somebody else killed: its orphans are then adopted by the warden,
//! and end with CMD.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitStatus, getpid, getppid, pidfd_open, set_parent_process_death_signal,
};

use crate::child_registry::ChildRegistry;
use crate::clock::BootTime;
use crate::link::Link;
use crate::order::{CommandExit, EndCause, Report, Validation};
use crate::shim::{ShimError, warden_of};
use crate::sweep::{Pauses, Reach, kill_below, kill_tree, reap_everything};

/// The last of what a validator prints is kept: enough for a line.
const TAIL_BYTES: usize = 4_096;
/// From SIGTERM to SIGKILL, for a validator that is ended.
const GRACE: Duration = Duration::from_millis(500);
/// A keeper that takes longer to end than this is stopped.
const KEEPER_PATIENCE: Duration = Duration::from_secs(2);
/// How often the keeper reaps orphans.
const KEEPER_TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// How often a validator that is being ended is looked at.
const ENDING_TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Where the warden has its validator, if there is one.
pub(crate) struct ValidatorSlot<'a> {
    registry: ChildRegistry,
    /// The hidden subcommand that calls [`keep_validator`].
    shim: &'a [OsString],
    validator: Option<Validator>,
}

impl<'a> ValidatorSlot<'a> {
    pub(crate) fn new(registry: ChildRegistry, shim: &'a [OsString]) -> Self {
        Self { registry, shim, validator: None }
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.validator.is_some()
    }

    /// All of the warden's descendants but those of the validator.
    pub(crate) fn others(&self) -> Reach {
        match self.is_taken() {
            true => Reach::Adopted(self.registry),
            false => Reach::Everything,
        }
    }

    pub(crate) fn is_keeper(&self, pid: Pid) -> bool {
        self.validator.as_ref().is_some_and(|validator| Pid::from_child(&validator.keeper) == pid)
    }

    /// Starts a validator. Two at a time are nonsense, and whoever says it cannot be trusted.
    pub(crate) fn begin(&mut self, validation: &Validation, link: &mut Link) {
        if self.is_taken() {
            link.closed = true;
            return;
        }
        match Validator::start(validation, self.shim, self.registry) {
            Ok(validator) => self.validator = Some(validator),
            Err(error) => unstarted(error.to_string(), link),
        }
    }

    /// Hears the validator, and reports its end.
    pub(crate) fn tend(&mut self, link: &mut Link) {
        let Some(validator) = &mut self.validator else { return };
        validator.hear();
        if validator.ended() {
            let why = if validator.kill_at.is_some() { EndCause::Stopped } else { EndCause::Finished };
            if let Some((how, said)) = self.validator.take().map(Validator::close) {
                link.say(&Report::Validated { how, why, said });
            }
        } else if validator.kill_at.is_some_and(|at| BootTime::now() >= at) {
            self.end_now(link);
        }
    }

    pub(crate) fn ask_to_end(&mut self) {
        if let Some(validator) = &mut self.validator {
            validator.ask_to_end();
        }
    }

    /// Whether the validator, if there is one, has not been asked to end yet.
    pub(crate) fn works(&self) -> bool {
        self.validator.as_ref().is_some_and(|validator| validator.kill_at.is_none())
    }

    /// Returns when there is no validator.
    pub(crate) fn end_now(&mut self, link: &mut Link) {
        if let Some((how, said)) = self.validator.take().map(Validator::end_now) {
            link.say(&Report::Validated { how, why: EndCause::Stopped, said });
        }
    }

    /// The validator went with everything else that the warden has swept.
    pub(crate) fn swept(&mut self, link: &mut Link) {
        if self.validator.take().is_some() {
            let how = CommandExit::Signal(Signal::KILL.as_raw());
            link.say(&Report::Validated { how, why: EndCause::Stopped, said: String::new() });
        }
    }

    /// When it has to be looked at again.
    pub(crate) fn due(&self) -> Option<BootTime> {
        self.validator.as_ref()?.kill_at
    }

    /// What becomes readable when the validator prints, and when it ends.
    pub(crate) fn events(&self) -> Vec<PollFd<'_>> {
        let Some(Validator { output, handle, .. }) = &self.validator else { return Vec::new() };
        vec![PollFd::new(output, PollFlags::IN), PollFd::new(handle, PollFlags::IN)]
    }
}

/// Reports a validator that was not started.
pub(crate) fn unstarted(why: String, link: &mut Link) {
    link.say(&Report::Validated {
        how: CommandExit::Unstarted(why),
        why: EndCause::Finished,
        said: String::new(),
    });
}

/// A validator at work, seen from the warden.
struct Validator {
    keeper: Child,
    handle: OwnedFd,
    /// Closed, it tells the keeper to end the validator.
    control: Option<ChildStdin>,
    output: PipeReader,
    tail: Vec<u8>,
    kill_at: Option<BootTime>,
}

impl Validator {
    /// Starts one. `shim` is the hidden subcommand that calls [`keep_validator`].
    fn start(validation: &Validation, shim: &[OsString], registry: ChildRegistry) -> io::Result<Validator> {
        let (output, input) = io::pipe()?;
        ioctl_fionbio(&output, true)?;
        let mut command = Command::new("/proc/self/exe");
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        command.args(shim).arg(getpid().as_raw_pid().to_string()).args(&validation.command);
        command.envs(validation.env.iter().map(|(name, value)| (name, value))).process_group(0);
        command.stdin(Stdio::piped()).stdout(input.try_clone()?).stderr(input);
        // A child of the child registry: the sweep of CMD leaves it alone.
        let mut keeper = registry.spawn(|| command.spawn())?;
        let control = keeper.stdin.take();
        match pidfd_open(Pid::from_child(&keeper), PidfdFlags::empty()) {
            Ok(handle) => Ok(Validator { keeper, handle, control, output, tail: Vec::new(), kill_at: None }),
            Err(error) => {
                let _killed = keeper.kill().and_then(|()| keeper.wait());
                Err(error.into())
            }
        }
    }

    /// Takes what it has printed, so that it is not held up. What is to be waited for is readable then.
    fn hear(&mut self) {
        let mut buffer = [0; 4_096];
        while let Ok(read @ 1..) = self.output.read(&mut buffer) {
            self.tail.extend_from_slice(&buffer[..read]);
            let excess = self.tail.len().saturating_sub(TAIL_BYTES);
            self.tail.drain(..excess);
        }
    }

    /// Whether nothing of it is left.
    fn ended(&self) -> bool {
        let mut events = [PollFd::new(&self.handle, PollFlags::IN)];
        poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }

    /// Asks it to end: SIGTERM to all of it, and soon SIGKILL. A keeper that does not do that is killed at the time it is given.
    fn ask_to_end(&mut self) {
        self.control = None;
        self.kill_at.get_or_insert(BootTime::now().later(GRACE + KEEPER_PATIENCE));
    }

    /// Ends it at once; returns when nothing of it is left. While something of it does not die, this does not return, and
    /// nothing is released.
    fn end_now(mut self) -> (CommandExit, String) {
        self.control = None;
        let keeper = Pid::from_child(&self.keeper);
        let patience_ends = BootTime::now().later(KEEPER_PATIENCE);
        while !self.ended() {
            self.hear();
            // The keeper goes last, while it can: what it adopts is known to be the validator's.
            if BootTime::now() < patience_ends {
                kill_below(keeper)
            } else {
                kill_tree(keeper)
            }
            let _ended = poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&ENDING_TICK));
        }
        self.close()
    }

    /// Reaps one that has ended; says how it did, and the last that it printed.
    fn close(mut self) -> (CommandExit, String) {
        self.hear();
        let how = match self.keeper.wait() {
            Ok(status) => match status.code() {
                Some(code) => CommandExit::Exit(code),
                None => CommandExit::Signal(status.signal().unwrap_or_default()),
            },
            Err(error) => CommandExit::Unstarted(error.to_string()),
        };
        let said = String::from_utf8_lossy(&self.tail);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        (how, last.trim().to_owned())
    }
}

/// Keeps a validator: `args` is what follows the hidden subcommand, the warden's pid and the validator's program and arguments. Returns
/// what to exit with when nothing of the validator is left.
///
/// # Errors
/// [`ShimError`]; the validator has not run.
pub fn keep_validator(args: impl IntoIterator<Item = OsString>) -> Result<u8, ShimError> {
    let (warden, program, arguments) = warden_of(args)?;
    // A warden that dies takes us along; run, which adopts what is left, ends it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| ShimError::Untied(error.into()))?;
    if getppid() != Some(warden) {
        return Err(ShimError::WardenGone);
    }
    crate::warden::outlive_signals().map_err(ShimError::Untied)?;
    let child = Command::new(&program).args(arguments).stdin(Stdio::null()).spawn();
    let child = child.map_err(|source| ShimError::of_program(program, source))?;
    let main = Pid::from_child(&child);
    let handle = pidfd_open(main, PidfdFlags::empty()).map_err(|error| ShimError::Untied(error.into()))?;
    let mut status = None;
    let mut told = None;
    // Until the main process has ended, or the time of one that was told to end is over.
    while status.is_none() && told.is_none_or(|at| BootTime::now() < at) {
        let control = io::stdin();
        let mut events = vec![PollFd::new(&handle, PollFlags::IN), PollFd::new(&control, PollFlags::IN)];
        if told.is_some() {
            // A closed pipe stays readable.
            events.pop();
        }
        let ready = poll(&mut events, Some(if told.is_some() { &ENDING_TICK } else { &KEEPER_TICK }));
        let closed = events.get(1).is_some_and(|event| !event.revents().is_empty());
        if closed || ready.is_err_and(|error| error != Errno::INTR) {
            Reach::Everything.signal(&[Signal::TERM, Signal::CONT]);
            told = Some(BootTime::now().later(GRACE));
        }
        status = status_of(main, &reap_everything().1);
    }
    let mut pauses = Pauses::new();
    loop {
        let pass = Reach::Everything.pass();
        status = status.or_else(|| status_of(main, &pass.reaped));
        if pass.clear {
            return Ok(status
                .map_or(CommandExit::Signal(Signal::KILL.as_raw()), crate::warden::how)
                .exit_code());
        }
        pauses.pause();
    }
}

fn status_of(main: Pid, reaped: &[(Pid, WaitStatus)]) -> Option<WaitStatus> {
    reaped.iter().find(|(pid, _)| *pid == main).map(|(_, status)| *status)
}
