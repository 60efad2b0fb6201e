//! Run's side of the warden.
//!
//! Assumes a tokio runtime with IO, and a caller that keeps awaiting [`Ward::next_report`] while CMD runs.
//! Guarantees that no order blocks, also on a stopped warden; that a dead or silent warden is noticed
//! before the deadline; and that after [`Ward::seize`] nothing of CMD is left. Does not guarantee that a
//! report of the warden arrives.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{UnixListener, UnixStream};

use crate::channel::{Inbox, LineError, Outbox};
use crate::clock::{BootTime, BootTimer};
use crate::household::Household;
use crate::lookout::Lookout;
use crate::order::{Lead, Order, Report, Start};
use crate::schedule::Schedule;
use crate::sign::Sign;
use crate::sweep::{Pauses, Reach, Survivor};

/// Bounds on a hang: a warden that takes longer to come or go is not coming or going.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);
const DEPARTURE_MAX: Duration = Duration::from_secs(2);
/// A seizure that takes longer has met processes that do not die.
const SEIZE_MAX: Duration = Duration::from_secs(5);

/// What run could not do, and what it may assume.
#[derive(Debug, thiserror::Error)]
pub enum WardError {
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

/// What [`Ward::next_report`] brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The warden said so.
    Told(Report),
    /// The warden should have acted or answered and has not: [`Ward::seize`].
    Overdue,
    /// The warden is dead: [`Ward::seize`], unless it had reported the end before.
    Gone,
}

/// A warden, seen from run. Dropped, it ends CMD and releases the lease as if run had died.
pub struct Ward {
    household: Household,
    warden: Arc<Mutex<Child>>,
    pid: u32,
    stream: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    timer: AsyncFd<BootTimer>,
    lookout: Lookout,
    sign: Option<Sign>,
    running: bool,
    used: bool,
    gone: bool,
}

impl Ward {
    /// Starts a warden that waits for its CMD. `command`, with the path of a socket as its last argument,
    /// must call [`crate::serve`]; what it says of stdin, stdout and stderr holds for CMD. `private_dir` is
    /// a folder of mode 0700.
    ///
    /// # Errors
    /// [`WardError::NotPrivate`], [`WardError::Prepare`]; no warden is running then.
    pub async fn prepare(
        household: Household,
        mut command: Command,
        private_dir: &Path,
    ) -> Result<Self, WardError> {
        check_private(private_dir)?;
        let name = format!("warden-{}-{}", std::process::id(), BootTime::now().as_ns());
        let path = private_dir.join(name);
        let listener = UnixListener::bind(&path).map_err(WardError::Prepare)?;
        command.arg(&path);
        let spawned = household.spawn(|| command.spawn());
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
        let (child, (stream, timer)) = arrived.map_err(WardError::Prepare)?;
        Ok(Self {
            household,
            pid: child.id(),
            warden: Arc::new(Mutex::new(child)),
            stream,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            timer,
            lookout: Lookout::default(),
            sign: None,
            running: false,
            used: false,
            gone: false,
        })
    }

    /// What CMD prints, where `command` asked for pipes; none the second time.
    pub fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        let mut warden = self.warden.lock().unwrap_or_else(PoisonError::into_inner);
        (warden.stdout.take(), warden.stderr.take())
    }

    /// The warden's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Orders what CMD is shown: before [`Ward::start`], from its start; later, other papers for a CMD that
    /// leads. Does not block.
    ///
    /// # Errors
    /// [`WardError::Line`]; what was shown stands.
    pub fn show(&mut self, sign: Sign) -> Result<(), WardError> {
        self.outbox.push(&Order::Sign(sign.clone()))?;
        self.sign = Some(sign);
        self.flush(true)
    }

    /// Orders CMD; [`Report::Started`] follows. Does not block.
    ///
    /// # Errors
    /// [`WardError::Twice`], [`WardError::Line`]; CMD is not started then.
    pub fn start(&mut self, start: Start) -> Result<(), WardError> {
        if self.used {
            return Err(WardError::Twice);
        }
        let (deadline, grace) = (start.deadline, start.grace());
        self.outbox.push(&Order::Start(start))?;
        (self.used, self.running) = (true, true);
        self.lookout.started(deadline, grace, BootTime::now());
        self.flush(true)
    }

    /// Tells the warden of a renewal. Does not block.
    ///
    /// # Errors
    /// [`WardError::Line`]; the old deadline stands.
    pub fn deadline(&mut self, deadline: BootTime) -> Result<(), WardError> {
        self.outbox.push(&Order::Deadline { deadline })?;
        if self.running {
            self.lookout.renewed(deadline, BootTime::now());
        }
        self.flush(true)
    }

    /// Gives another lease to a CMD that outlived its last one, after [`Report::ReadOnly`]; [`Report::Leading`]
    /// follows, or [`Report::ReadOnly`] if it came too late. Does not block.
    ///
    /// # Errors
    /// [`WardError::TooLate`], [`WardError::Line`]; CMD goes on without.
    pub fn lead(&mut self, lead: Lead) -> Result<(), WardError> {
        let (deadline, grace) = (lead.deadline, lead.grace());
        if BootTime::now() >= Schedule::new(deadline, grace).term_at {
            return Err(WardError::TooLate);
        }
        let sign = lead.sign.clone();
        self.outbox.push(&Order::Lead(lead))?;
        self.sign = Some(sign);
        if self.running {
            self.lookout.started(deadline, grace, BootTime::now());
        }
        self.flush(true)
    }

    /// Orders SIGTERM, and SIGKILL after the grace. Does not block.
    ///
    /// # Errors
    /// [`WardError::Line`]; CMD goes on.
    pub fn stop(&mut self) -> Result<(), WardError> {
        self.outbox.push(&Order::Stop)?;
        if self.running {
            self.lookout.stopped(BootTime::now());
        }
        self.flush(true)
    }

    /// Orders SIGKILL. Does not block.
    ///
    /// # Errors
    /// [`WardError::Line`]; CMD goes on.
    pub fn kill(&mut self) -> Result<(), WardError> {
        self.outbox.push(&Order::Kill)?;
        if self.running {
            self.lookout.killed(BootTime::now());
        }
        self.flush(true)
    }

    /// Waits for the next thing run must know. May be dropped and called again without losing anything.
    ///
    /// # Errors
    /// [`WardError::Link`], [`WardError::Line`]: the warden cannot be understood; seize.
    pub async fn next_report(&mut self) -> Result<News, WardError> {
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
                    return Ok(News::Overdue);
                }
            }
            self.wait().await.map_err(WardError::Link)?;
        }
    }

    /// Takes CMD away from a warden that is dead or does not act: kills the warden and everything that
    /// descends from it, and does to the sign what the warden would have done.
    ///
    /// # Errors
    /// [`WardError::Unkillable`], [`WardError::Sweep`]: something of CMD may be left; the lease must not be
    /// released.
    pub async fn seize(&mut self) -> Result<(), WardError> {
        let (household, warden) = (self.household, Arc::clone(&self.warden));
        let seized = tokio::task::spawn_blocking(move || seize(household, &warden)).await;
        seized.map_err(|error| WardError::Sweep(io::Error::other(error)))??;
        let _shown = self.sign.as_ref().map(Sign::show_read_only);
        self.running = false;
        self.lookout.ended();
        Ok(())
    }

    /// Sends the warden away: the lease has been released, or CMD was never started. A CMD that still runs
    /// is seized first.
    ///
    /// # Errors
    /// Those of [`Ward::seize`].
    pub async fn dismiss(mut self) -> Result<(), WardError> {
        if self.running {
            return self.seize().await;
        }
        let left = tokio::time::timeout(DEPARTURE_MAX, async {
            self.outbox.push(&Order::Dismiss)?;
            while !self.gone {
                self.next_report().await?;
            }
            Ok::<(), WardError>(())
        });
        // In time or not, it is made sure of, and reaped. It has no children.
        let _left = left.await;
        let warden = Arc::clone(&self.warden);
        let ended = tokio::task::spawn_blocking(move || end(&warden)).await;
        ended.map_err(|error| WardError::Sweep(io::Error::other(error)))?
    }

    fn pop(&mut self) -> Result<Option<News>, WardError> {
        while let Some(report) = self.inbox.pop::<Report>()? {
            match report {
                Report::Kept { deadline } => {
                    self.lookout.kept(deadline, BootTime::now());
                    continue;
                }
                Report::Ended { .. } => {
                    self.running = false;
                    self.lookout.ended();
                }
                Report::Terminating { .. } => self.lookout.terminating(),
                Report::ReadOnly => self.lookout.stood_down(),
                Report::Started { .. } | Report::Leading | Report::Unkillable { .. } => {}
            }
            return Ok(Some(News::Told(report)));
        }
        Ok(self.gone.then_some(News::Gone))
    }

    fn is_overdue(&self) -> bool {
        self.lookout.overdue_at().is_some_and(|at| BootTime::now() >= at)
    }

    /// Sends what the socket takes; `surely` asks the kernel, also if tokio does not know that there is room.
    fn flush(&mut self, surely: bool) -> Result<(), WardError> {
        let stream = &self.stream;
        // A warden that is gone is noticed where its last reports are read.
        let _sent = self.outbox.flush(|bytes| {
            if surely { Ok(rustix::io::write(stream, bytes)?) } else { stream.try_write(bytes) }
        })?;
        Ok(())
    }

    /// Reads what is there; `surely` asks the kernel, also if tokio knows of nothing.
    fn fill(&mut self, surely: bool) -> Result<(), WardError> {
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
                Err(error) => return Err(WardError::Link(error)),
            }
        }
        Ok(())
    }

    async fn wait(&self) -> io::Result<()> {
        self.timer.get_ref().arm(self.lookout.overdue_at())?;
        let interest =
            if self.outbox.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        tokio::select! {
            ready = self.stream.ready(interest) => ready.map(drop),
            ready = self.timer.readable() => ready.map(|mut guard| guard.clear_ready()),
        }
    }
}

/// Blocks until nothing of the warden is left.
fn seize(household: Household, warden: &Mutex<Child>) -> Result<(), WardError> {
    // Reaped first: from then on all it had are our children.
    end(warden)?;
    let reach = Reach::Adopted(household);
    let give_up_at = BootTime::now().later(SEIZE_MAX);
    let mut pauses = Pauses::new();
    loop {
        let pass = reach.pass();
        if pass.clear {
            return Ok(());
        }
        if BootTime::now() >= give_up_at {
            return Err(match pass.survivors.into_iter().next() {
                Some(survivor) => WardError::Unkillable(survivor),
                None => WardError::Sweep(io::Error::other("/proc does not show what is left")),
            });
        }
        pauses.pause();
    }
}

/// Kills and reaps the warden; does nothing to one that was reaped before.
fn end(warden: &Mutex<Child>) -> Result<(), WardError> {
    let mut warden = warden.lock().unwrap_or_else(PoisonError::into_inner);
    let _killed = warden.kill();
    warden.wait().map(drop).map_err(WardError::Sweep)
}

fn check_private(dir: &Path) -> Result<(), WardError> {
    let meta = std::fs::metadata(dir).map_err(WardError::Prepare)?;
    let private = meta.is_dir() && meta.mode() & 0o077 == 0 && meta.uid() == geteuid().as_raw();
    if private { Ok(()) } else { Err(WardError::NotPrivate(dir.to_owned())) }
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
fn watched<T: Into<OwnedFd> + AsRawFd>(owner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::new(owner)
}
