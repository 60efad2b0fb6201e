//! Run's side of the warden.
//!
//! Assumes a tokio runtime with IO, and a caller that keeps awaiting [`WardenHandle::next_report`] while CMD runs.
//! Guarantees that no order blocks, also on a stopped warden; that a dead or silent warden is noticed
//! before the deadline; and that after [`WardenHandle::seize`] nothing of CMD is left. Does not guarantee that a
//! report of the warden arrives.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{UnixListener, UnixStream};

use crate::channel::{Inbox, LineError, Outbox};
use crate::child_registry::ChildRegistry;
use crate::clock::{BootTime, BootTimer};
use crate::order::{Lead, Order, Report, Start, Validation};
use crate::relay::{Event, Relay, Request};
use crate::schedule::Schedule;
use crate::status_files::StatusFiles;
use crate::sweep::{Pauses, Reach, Survivor};
use crate::terminal::Terminal;
use crate::watchdog::WardenWatchdog;

/// Bounds on a hang: a warden that takes longer to come or go is not coming or going.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);
const DEPARTURE_MAX: Duration = Duration::from_secs(2);
/// A seizure that takes longer has met processes that do not die.
const SEIZE_MAX: Duration = Duration::from_secs(5);

/// What run could not do, and what it may assume.
#[derive(Debug, thiserror::Error)]
pub enum WardenHandleError {
    /// No warden was started.
    #[error("{}: others can enter this folder, and the warden's socket would be in it", .0.display())]
    NotPrivate(PathBuf),
    /// No warden is running.
    #[error("cannot start the warden: {0}")]
    Prepare(#[source] io::Error),
    /// The order was not given.
    #[error(transparent)]
    Line(#[from] LineError),
    /// A warden has one CMD. The order was not given.
    #[error("this warden already has a command")]
    Twice,
    /// Its end is nearer than the grace. The order was not given.
    #[error("the lease is about to end")]
    TooLate,
    /// CMD may still run: seize.
    #[error("lost touch with the warden: {0}")]
    Link(#[source] io::Error),
    /// CMD's tree is not gone; the lease must not be released. Seizing again is allowed.
    #[error("{0}")]
    Unkillable(Survivor),
    /// CMD's tree may not be gone; the lease must not be released. Seizing again is allowed.
    #[error("cannot sweep: {0}")]
    Sweep(#[source] io::Error),
}

/// What [`WardenHandle::next_report`] brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WardenEvent {
    /// The warden said so.
    Told(Report),
    /// The person at CMD's terminal wants something of run.
    Asked(Request),
    /// The warden should have acted or answered and has not: [`WardenHandle::seize`].
    Overdue,
    /// The warden is dead: [`WardenHandle::seize`], unless it had reported the end before.
    Gone,
}

/// A warden, seen from run. Dropped, it ends CMD and releases the lease as if run had died.
pub struct WardenHandle {
    registry: ChildRegistry,
    warden: Arc<Mutex<Child>>,
    pid: u32,
    stream: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    timer: AsyncFd<BootTimer>,
    watchdog: WardenWatchdog,
    status_files: Option<StatusFiles>,
    /// CMD's terminal, if it has one.
    relay: Option<Relay>,
    /// The newest deadline and the grace.
    lease: Option<(BootTime, Duration)>,
    running: bool,
    validating: bool,
    used: bool,
    gone: bool,
}

impl WardenHandle {
    /// Starts a warden that waits for its CMD. `command`, with the path of a socket as its last argument,
    /// must call [`crate::serve`]; what it says of stdin, stdout and stderr holds for CMD. `private_dir` is
    /// a folder of mode 0700.
    ///
    /// # Errors
    /// [`WardenHandleError::NotPrivate`], [`WardenHandleError::Prepare`]; no warden is running then.
    pub async fn prepare(
        registry: ChildRegistry,
        command: Command,
        private_dir: &Path,
    ) -> Result<Self, WardenHandleError> {
        Self::prepare_at(None, registry, command, private_dir).await
    }

    /// The same for a CMD that has a terminal of its own, if one is given: `command` must leave stdin and stdout alone then.
    ///
    /// # Errors
    /// Those of [`WardenHandle::prepare`].
    pub async fn prepare_at(
        terminal: Option<Terminal>,
        registry: ChildRegistry,
        mut command: Command,
        private_dir: &Path,
    ) -> Result<Self, WardenHandleError> {
        check_private(private_dir)?;
        let relay = match terminal {
            Some(terminal) => {
                let (relay, slave) = Relay::prepare(terminal).map_err(WardenHandleError::Prepare)?;
                command.stdin(slave);
                Some(relay)
            }
            None => None,
        };
        let name = format!("warden-{}-{}", std::process::id(), BootTime::now().as_ns());
        let path = private_dir.join(name);
        let listener = UnixListener::bind(&path).map_err(WardenHandleError::Prepare)?;
        command.arg(&path);
        let spawned = registry.spawn(|| command.spawn());
        // CMD's end of its terminal is the warden's alone.
        drop(command);
        let arrived = match spawned {
            Ok(mut child) => match await_arrival(&listener, &child).await {
                Ok(ready) => Ok((child, ready)),
                Err(error) => {
                    // It has no CMD yet, so that nothing is left behind.
                    let _killed = child.kill().and_then(|()| child.wait());
                    Err(error)
                }
            },
            Err(error) => Err(error),
        };
        // Nobody else is to come; CMD must find no door.
        drop(listener);
        let _removed = std::fs::remove_file(&path);
        let (child, (stream, timer)) = arrived.map_err(WardenHandleError::Prepare)?;
        Ok(Self {
            registry,
            pid: child.id(),
            warden: Arc::new(Mutex::new(child)),
            stream,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            timer,
            watchdog: WardenWatchdog::default(),
            status_files: None,
            relay,
            lease: None,
            running: false,
            validating: false,
            used: false,
            gone: false,
        })
    }

    /// What CMD prints, where `command` asked for pipes; none the second time.
    pub fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        let mut warden = self.warden.lock().unwrap_or_else(PoisonError::into_inner);
        (warden.stdout.take(), warden.stderr.take())
    }

    /// Set whenever a CMD that has a terminal prints; none without a terminal.
    #[must_use]
    pub fn terminal_heard(&self) -> Option<Arc<AtomicBool>> {
        self.relay.as_ref().map(Relay::heard)
    }

    /// The warden's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Orders what CMD is shown: before [`WardenHandle::start`], from its start; later, other secret files for a CMD that
    /// leads. Does not block.
    ///
    /// # Errors
    /// [`WardenHandleError::Line`]; what was shown stands.
    pub fn show(&mut self, status_files: StatusFiles) -> Result<(), WardenHandleError> {
        self.outbox.push(&Order::Show(status_files.clone()))?;
        self.status_files = Some(status_files);
        self.flush(true)
    }

    /// Orders CMD; [`Report::Started`] follows. Does not block.
    ///
    /// # Errors
    /// [`WardenHandleError::Twice`], [`WardenHandleError::Line`]; CMD is not started then.
    pub fn start(&mut self, start: Start) -> Result<(), WardenHandleError> {
        if self.used {
            return Err(WardenHandleError::Twice);
        }
        let (deadline, grace) = (start.deadline, start.grace());
        if let Some(relay) = &mut self.relay {
            self.outbox.push(&Order::Terminal { stderr: relay.has_stderr() })?;
            relay.begin().map_err(WardenHandleError::Link)?;
        }
        self.outbox.push(&Order::Start(start))?;
        (self.used, self.running) = (true, true);
        self.lease = Some((deadline, grace));
        self.watchdog.started(deadline, grace, BootTime::now());
        self.flush(true)
    }

    /// Tells the warden of a renewal. Does not block.
    ///
    /// # Errors
    /// [`WardenHandleError::Line`]; the old deadline stands.
    pub fn deadline(&mut self, deadline: BootTime) -> Result<(), WardenHandleError> {
        self.outbox.push(&Order::Deadline { deadline })?;
        self.lease = self.lease.map(|(_, grace)| (deadline, grace));
        if self.running || self.validating {
            self.watchdog.renewed(deadline, BootTime::now());
        }
        self.flush(true)
    }

    /// Gives another lease to a CMD that outlived its last one, after [`Report::ReadOnly`]; [`Report::Leading`]
    /// follows, or [`Report::ReadOnly`] if it came too late. Does not block.
    ///
    /// # Errors
    /// [`WardenHandleError::TooLate`], [`WardenHandleError::Line`]; CMD goes on without.
    pub fn lead(&mut self, lead: Lead) -> Result<(), WardenHandleError> {
        let (deadline, grace) = (lead.deadline, lead.grace());
        if BootTime::now() >= Schedule::new(deadline, grace).term_at {
            return Err(WardenHandleError::TooLate);
        }
        let status_files = lead.status_files.clone();
        self.outbox.push(&Order::Lead(lead))?;
        self.status_files = Some(status_files);
        self.lease = Some((deadline, grace));
        if self.running {
            self.watchdog.started(deadline, grace, BootTime::now());
        }
        self.flush(true)
    }

    /// Orders a validator, beside CMD or after it; [`Report::Validated`] follows. Does not block.
    ///
    /// # Errors
    /// [`WardenHandleError::Twice`] while one is at work, [`WardenHandleError::Link`], [`WardenHandleError::Line`]; none is started then.
    pub fn validate(&mut self, validation: Validation) -> Result<(), WardenHandleError> {
        if self.validating {
            return Err(WardenHandleError::Twice);
        }
        let (Some((deadline, grace)), false) = (self.lease, self.gone) else {
            return Err(WardenHandleError::Link(io::ErrorKind::NotConnected.into()));
        };
        self.outbox.push(&Order::Validate(validation))?;
        self.validating = true;
        if !self.running {
            self.watchdog.started(deadline, grace, BootTime::now());
        }
        self.flush(true)
    }

    /// Orders the end of the validator, if one is at work. Does not block.
    ///
    /// # Errors
    /// [`WardenHandleError::Line`]; it goes on.
    pub fn end_validation(&mut self) -> Result<(), WardenHandleError> {
        if !self.validating {
            return Ok(());
        }
        self.outbox.push(&Order::EndValidation)?;
        self.watchdog.validation_stopped(BootTime::now());
        self.flush(true)
    }

    /// Whether something of a validator may be left.
    #[must_use]
    pub fn is_validating(&self) -> bool {
        self.validating
    }

    /// Orders SIGTERM, and SIGKILL after the grace. Does not block.
    ///
    /// # Errors
    /// [`WardenHandleError::Line`]; CMD goes on.
    pub fn stop(&mut self) -> Result<(), WardenHandleError> {
        self.outbox.push(&Order::Stop)?;
        if self.running {
            self.watchdog.stopped(BootTime::now());
        }
        self.flush(true)
    }

    /// Orders SIGKILL. Does not block.
    ///
    /// # Errors
    /// [`WardenHandleError::Line`]; CMD goes on.
    pub fn kill(&mut self) -> Result<(), WardenHandleError> {
        self.outbox.push(&Order::Kill)?;
        if self.running || self.validating {
            self.watchdog.killed(BootTime::now());
        }
        self.flush(true)
    }

    /// Waits for the next thing run must know. May be dropped and called again without losing anything.
    ///
    /// # Errors
    /// [`WardenHandleError::Link`], [`WardenHandleError::Line`]: the warden cannot be understood; seize.
    pub async fn next_report(&mut self) -> Result<WardenEvent, WardenHandleError> {
        loop {
            self.flush(false)?;
            self.fill(false)?;
            if let Some(news) = self.pop()? {
                return Ok(news);
            }
            if self.is_overdue() {
                // Having been stopped ourselves, we may have missed what the warden said meanwhile; ask the
                // kernel, which tokio does only once its event loop has turned.
                self.fill(true)?;
                if let Some(news) = self.pop()? {
                    return Ok(news);
                }
                if self.is_overdue() {
                    return Ok(WardenEvent::Overdue);
                }
            }
            match self.wait().await.map_err(WardenHandleError::Link)? {
                Some(Event::Asked(request)) => return Ok(WardenEvent::Asked(request)),
                Some(Event::Foreground) => self.make_terminal_raw()?,
                None => {}
            }
        }
    }

    /// Makes run's terminal raw, once the warden has been told how it was.
    fn make_terminal_raw(&mut self) -> Result<(), WardenHandleError> {
        let Some(modes) = self.relay.as_ref().and_then(Relay::modes) else { return Ok(()) };
        // Orders that a stopped warden has not taken: the next look tries again.
        if self.outbox.is_empty() {
            self.outbox.push(&Order::Modes(modes))?;
            self.flush(true)?;
        }
        if let (Some(relay), true) = (&self.relay, self.outbox.is_empty()) {
            relay.make_raw(modes);
        }
        Ok(())
    }

    /// Takes CMD away from a warden that is dead or does not act: kills the warden and everything that
    /// descends from it, and does to the status files what the warden would have done.
    ///
    /// # Errors
    /// [`WardenHandleError::Unkillable`], [`WardenHandleError::Sweep`]: something of CMD may be left; the lease must not be
    /// released.
    pub async fn seize(&mut self) -> Result<(), WardenHandleError> {
        let (registry, warden) = (self.registry, Arc::clone(&self.warden));
        let seized = tokio::task::spawn_blocking(move || seize(registry, &warden)).await;
        seized.map_err(|error| WardenHandleError::Sweep(io::Error::other(error)))??;
        let _shown = self.status_files.as_ref().map(StatusFiles::show_read_only);
        self.terminal_ended();
        (self.running, self.validating, self.gone) = (false, false, true);
        self.watchdog.ended();
        Ok(())
    }

    /// Sends the warden away: the lease has been released, or CMD was never started. A CMD that still runs
    /// is seized first.
    ///
    /// # Errors
    /// Those of [`WardenHandle::seize`].
    pub async fn dismiss(mut self) -> Result<(), WardenHandleError> {
        if self.running || self.validating {
            return self.seize().await;
        }
        let left = tokio::time::timeout(DEPARTURE_MAX, async {
            self.outbox.push(&Order::Dismiss)?;
            while !self.gone {
                self.next_report().await?;
            }
            Ok::<(), WardenHandleError>(())
        });
        // In time or not, it is made sure of, and reaped. It has no children.
        let _left = left.await;
        let warden = Arc::clone(&self.warden);
        let ended = tokio::task::spawn_blocking(move || end(&warden)).await;
        if let Some(relay) = self.relay.take() {
            relay.close().await;
        }
        ended.map_err(|error| WardenHandleError::Sweep(io::Error::other(error)))?
    }

    fn pop(&mut self) -> Result<Option<WardenEvent>, WardenHandleError> {
        while let Some(report) = self.inbox.pop::<Report>()? {
            match report {
                Report::Kept { deadline } => {
                    self.watchdog.kept(deadline, BootTime::now());
                    continue;
                }
                Report::Ended { .. } => {
                    self.running = false;
                    self.terminal_ended();
                    if self.validating {
                        self.watchdog.outlived_by_validator()
                    } else {
                        self.watchdog.ended()
                    }
                }
                Report::Validated { .. } => {
                    self.validating = false;
                    if self.running { self.watchdog.validated() } else { self.watchdog.ended() }
                }
                Report::Terminating { .. } => self.watchdog.terminating(),
                Report::ReadOnly => self.watchdog.stood_down(),
                Report::Started { pid } => {
                    if let Some(relay) = &self.relay {
                        relay.started(pid);
                    }
                }
                Report::Suspended => return Ok(Some(WardenEvent::Asked(Request::Suspend))),
                Report::Leading | Report::Unkillable { .. } => {}
            }
            return Ok(Some(WardenEvent::Told(report)));
        }
        Ok(self.gone.then_some(WardenEvent::Gone))
    }

    /// Nothing of CMD is left that could use its terminal.
    fn terminal_ended(&self) {
        if let Some(relay) = &self.relay {
            relay.ended();
        }
    }

    fn is_overdue(&self) -> bool {
        self.watchdog.overdue_at().is_some_and(|at| BootTime::now() >= at)
    }

    /// Sends what the socket takes; `surely` asks the kernel, also if tokio does not know that there is room.
    fn flush(&mut self, surely: bool) -> Result<(), WardenHandleError> {
        let stream = &self.stream;
        // A warden that is gone is noticed where its last reports are read.
        let _sent = self.outbox.flush(|bytes| {
            if surely { Ok(rustix::io::write(stream, bytes)?) } else { stream.try_write(bytes) }
        })?;
        Ok(())
    }

    /// Reads what is there; `surely` asks the kernel, also if tokio knows of nothing.
    fn fill(&mut self, surely: bool) -> Result<(), WardenHandleError> {
        let mut buffer = [0; 4096];
        while !self.gone {
            let read = if surely {
                rustix::io::read(&self.stream, &mut buffer).map_err(io::Error::from)
            } else {
                self.stream.try_read(&mut buffer)
            };
            match read {
                Ok(0) => self.gone = true,
                Ok(read) => self.inbox.push(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A warden that dies with orders unread resets the connection.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.gone = true,
                Err(error) => return Err(WardenHandleError::Link(error)),
            }
        }
        Ok(())
    }

    /// Waits until there is something to look at; returns what came from CMD's terminal.
    async fn wait(&mut self) -> io::Result<Option<Event>> {
        self.timer.get_ref().arm(self.watchdog.overdue_at())?;
        let interest =
            if self.outbox.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        tokio::select! {
            ready = self.stream.ready(interest) => ready.map(|_| None),
            ready = self.timer.readable() => ready.map(|mut guard| { guard.clear_ready(); None }),
            event = Relay::next_event(&mut self.relay) => Ok(Some(event)),
        }
    }
}

/// Blocks until nothing of the warden is left.
fn seize(registry: ChildRegistry, warden: &Mutex<Child>) -> Result<(), WardenHandleError> {
    // Reaped first: from then on all it had are our children.
    end(warden)?;
    let reach = Reach::Adopted(registry);
    let give_up_at = BootTime::now().later(SEIZE_MAX);
    let mut pauses = Pauses::new();
    loop {
        let pass = reach.pass();
        if pass.clear {
            return Ok(());
        }
        if BootTime::now() >= give_up_at {
            return Err(match pass.survivors.into_iter().next() {
                Some(survivor) => WardenHandleError::Unkillable(survivor),
                None => WardenHandleError::Sweep(io::Error::other("/proc does not show what is left")),
            });
        }
        pauses.pause();
    }
}

/// Kills and reaps the warden; does nothing to one that was reaped before.
fn end(warden: &Mutex<Child>) -> Result<(), WardenHandleError> {
    let mut warden = warden.lock().unwrap_or_else(PoisonError::into_inner);
    let _killed = warden.kill();
    warden.wait().map(drop).map_err(WardenHandleError::Sweep)
}

fn check_private(dir: &Path) -> Result<(), WardenHandleError> {
    let meta = std::fs::metadata(dir).map_err(WardenHandleError::Prepare)?;
    let private = meta.is_dir() && meta.mode() & 0o077 == 0 && meta.uid() == geteuid().as_raw();
    if private { Ok(()) } else { Err(WardenHandleError::NotPrivate(dir.to_owned())) }
}

/// The warden's connection, and the timer that watches over it.
async fn await_arrival(
    listener: &UnixListener,
    child: &Child,
) -> io::Result<(UnixStream, AsyncFd<BootTimer>)> {
    let timer = watched(BootTimer::new()?)?;
    let death = watched(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)?;
    tokio::select! {
        accepted = listener.accept() => {
            let (stream, _) = accepted?;
            let peer = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
            if peer != Some(child.id()) {
                return Err(io::Error::other("somebody else connected to the warden's socket"));
            }
            Ok((stream, timer))
        }
        _ = death.readable() => Err(io::Error::other("it died at once")),
        () = tokio::time::sleep(ARRIVAL_MAX) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[allow(
    deprecated,
    reason = "its successor is unsafe, for types that may lend out a closed descriptor; ours own theirs"
)]
pub(crate) fn watched<T: Into<OwnedFd> + AsRawFd>(owner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::new(owner)
}
