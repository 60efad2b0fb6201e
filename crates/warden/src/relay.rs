//! Carries bytes between run's terminal and CMD's, while CMD runs.
//!
//! Assumes a tokio runtime, and a caller that awaits [`Relay::next_event`]. Guarantees that nothing here blocks, whoever holds the terminal;
//! that the terminal is read, and its modes changed, only while run is in its foreground; that the modes are restored when CMD has ended or the
//! relay is dropped. Does not guarantee the last words of CMD on a terminal that is held.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use rustix::termios::{SpecialCodeIndex, tcgetattr};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::handle::watched;
use crate::terminal::{Modes, Terminal, copy_size, is_in_foreground, suspends};

/// Two interrupts that are nearer than this end CMD.
const TWICE: Duration = Duration::from_secs(1);
/// How often run in the background looks whether it has come to the foreground: a shell does not say so.
const BACKGROUND_LOOK: Duration = Duration::from_millis(200);
/// How often a write that does not fit is tried, also if nobody says that there is room.
const RETRY: Duration = Duration::from_millis(100);
/// How long the last of CMD's output may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Events that wait for run. Those that do not fit are none that it has missed: it has not read the ones before.
const EVENTS_MAX: usize = 16;

/// What the person at the terminal wants of run, not of CMD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The second Ctrl-C within a second: end CMD.
    Interrupt,
    /// Ctrl-Z, or a CMD that has stopped itself: end CMD, and wait for the shell.
    Suspend,
}

pub(crate) enum Event {
    /// Run is in the foreground, and its terminal is not raw.
    Foreground,
    Asked(Request),
}

/// Where run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForegroundState {
    Unknown,
    /// The terminal is raw.
    Foreground,
    Background,
    /// Nothing of CMD is left.
    Ended,
}

struct TerminalPair {
    outer: AsyncFd<File>,
    master: AsyncFd<OwnedFd>,
    place: watch::Sender<ForegroundState>,
    /// As they were before run made the terminal raw, once it has.
    before: Mutex<Option<Modes>>,
    /// CMD's main process, once it has been started.
    main: AtomicI32,
    heard: Arc<AtomicBool>,
}

/// The two terminals, seen from run. Dropped, it leaves run's as it was.
pub(crate) struct Relay {
    ends: Arc<TerminalPair>,
    has_stderr: bool,
    events: Option<mpsc::Receiver<Event>>,
    task: Option<JoinHandle<()>>,
}

impl Relay {
    /// Ready for a CMD; also gives CMD's end of its terminal.
    pub(crate) fn prepare(terminal: Terminal) -> io::Result<(Relay, OwnedFd)> {
        let Terminal { outer, master, slave, has_stderr } = terminal;
        let ends = TerminalPair {
            outer: watched(outer)?,
            master: watched(master)?,
            place: watch::Sender::new(ForegroundState::Unknown),
            before: Mutex::default(),
            main: AtomicI32::new(0),
            heard: Arc::default(),
        };
        Ok((Relay { ends: Arc::new(ends), has_stderr, events: None, task: None }, slave))
    }

    /// Whether CMD's stderr is its terminal.
    pub(crate) fn has_stderr(&self) -> bool {
        self.has_stderr
    }

    /// Set whenever CMD prints.
    pub(crate) fn heard(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ends.heard)
    }

    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let (tell, events) = mpsc::channel(EVENTS_MAX);
        let resized = signal(SignalKind::window_change())?;
        let continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
        let ends = Arc::clone(&self.ends);
        self.task = Some(tokio::spawn(async move {
            tokio::select! {
                () = ends.pass_output() => {}
                () = ends.pass_input(&tell) => {}
                () = ends.keep_place(&tell, resized, continued) => {}
            }
            ends.restore();
        }));
        self.events = Some(events);
        Ok(())
    }

    /// Waits for the next event, for ever if there will be none. May be dropped without losing anything.
    pub(crate) async fn next_event(relay: &mut Option<Relay>) -> Event {
        if let Some(events) = relay.as_mut().and_then(|relay| relay.events.as_mut())
            && let Some(event) = events.recv().await
        {
            return event;
        }
        std::future::pending().await
    }

    pub(crate) fn started(&self, main: u32) {
        self.ends.main.store(main.cast_signed(), Ordering::Release);
    }

    /// The modes to which the terminal is to be restored, if it is made raw at this moment. None if it is not to be made raw.
    pub(crate) fn modes(&self) -> Option<Modes> {
        if *self.ends.place.borrow() == ForegroundState::Ended || !is_in_foreground(self.ends.outer.get_ref())
        {
            return None;
        }
        let known = *self.ends.lock();
        let outer = self.ends.outer.get_ref();
        match known {
            // Run was stopped and continued, and nobody has touched the terminal.
            Some(before) if before.is_raw(outer).unwrap_or(false) => Some(before),
            Some(_) | None => Modes::of(outer).ok(),
        }
    }

    /// Somebody who outlives run knows the modes: the terminal can be made raw.
    pub(crate) fn make_raw(&self, before: Modes) {
        *self.ends.lock() = Some(before);
        let raw =
            is_in_foreground(self.ends.outer.get_ref()) && before.make_raw(self.ends.outer.get_ref()).is_ok();
        self.ends.stand(if raw { ForegroundState::Foreground } else { ForegroundState::Background });
    }

    /// Nothing of CMD is left. The rest of its output is passed on, and then the terminal is as it was.
    pub(crate) fn ended(&self) {
        self.ends.place.send_replace(ForegroundState::Ended);
    }

    /// The same, and waits for it, but not for long.
    pub(crate) async fn close(mut self) {
        self.ended();
        if let Some(task) = &mut self.task {
            let _ended = tokio::time::timeout(LAST_WORDS, task).await;
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        self.ends.restore();
    }
}

impl TerminalPair {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Modes>> {
        // It is whole between any two statements.
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> ForegroundState {
        *self.place.borrow()
    }

    /// The end is final.
    fn stand(&self, place: ForegroundState) {
        self.place.send_if_modified(|now| {
            let is_new = *now != ForegroundState::Ended && *now != place;
            if is_new {
                *now = place;
            }
            is_new
        });
    }

    /// In the background the modes are the shell's.
    fn restore(&self) {
        let outer = self.outer.get_ref();
        if let Some(before) = *self.lock()
            && is_in_foreground(outer)
        {
            let _restored = before.restore(outer);
        }
    }

    /// Until CMD has ended and all that it printed is passed on.
    async fn pass_output(&self) {
        let mut place = self.place.subscribe();
        let mut buffer = [0; 8_192];
        loop {
            if self.place() == ForegroundState::Unknown {
                let _changed = place.changed().await;
                continue;
            }
            match rustix::io::read(self.master.get_ref(), &mut buffer) {
                Ok(count @ 1..) => {
                    self.heard.store(true, Ordering::Release);
                    // A terminal that is gone loses CMD's output, as it would without us.
                    let _ = write_all(&self.outer, &buffer[..count]).await;
                }
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) if self.place() == ForegroundState::Ended => return,
                Err(Errno::AGAIN) => tokio::select! {
                    () = readable(&self.master) => {}
                    _ = place.changed() => {}
                },
                // The warden, which keeps CMD's end open, is dead: the end of CMD follows.
                Ok(0) | Err(_) => {
                    let _changed = tokio::time::timeout(RETRY, place.changed()).await;
                }
            }
        }
    }

    /// Passes keys on while the terminal is ours, and looks for those that are for run.
    async fn pass_input(&self, tell: &mpsc::Sender<Event>) {
        let mut place = self.place.subscribe();
        let mut last_interrupt = None;
        let mut buffer = [0; 4_096];
        loop {
            if self.place() != ForegroundState::Foreground {
                let _changed = place.changed().await;
                continue;
            }
            if !is_in_foreground(self.outer.get_ref()) {
                self.stand(ForegroundState::Background);
                continue;
            }
            match rustix::io::read(self.outer.get_ref(), &mut buffer) {
                Ok(count @ 1..) => {
                    self.look_for_requests(&buffer[..count], &mut last_interrupt, tell);
                    let _ = write_all(&self.master, &buffer[..count]).await;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => tokio::select! {
                    () = readable(&self.outer) => {}
                    _ = place.changed() => {}
                },
                // The terminal has hung up: SIGHUP says so too.
                Ok(_) | Err(_) => return std::future::pending().await,
            }
        }
    }

    /// Every key also goes to CMD.
    fn look_for_requests(&self, keys: &[u8], last: &mut Option<Instant>, tell: &mpsc::Sender<Event>) {
        let Ok(modes) = tcgetattr(self.outer.get_ref()) else { return };
        let interrupt = modes.special_codes[SpecialCodeIndex::VINTR];
        let suspend = modes.special_codes[SpecialCodeIndex::VSUSP];
        for key in keys.iter().copied().filter(|key| *key != 0) {
            if key == interrupt {
                let now = Instant::now();
                if last.replace(now).is_some_and(|last| now.duration_since(last) <= TWICE) {
                    let _ = tell.try_send(Event::Asked(Request::Interrupt));
                }
            }
            let main = Pid::from_raw(self.main.load(Ordering::Acquire));
            if key == suspend && main.is_some_and(|main| suspends(key, self.master.get_ref(), main)) {
                let _ = tell.try_send(Event::Asked(Request::Suspend));
            }
        }
    }

    /// Keeps the size of CMD's terminal, and says when run comes to the foreground.
    async fn keep_place(
        &self,
        tell: &mpsc::Sender<Event>,
        mut resized: tokio::signal::unix::Signal,
        mut continued: tokio::signal::unix::Signal,
    ) {
        let mut place = self.place.subscribe();
        loop {
            copy_size(self.outer.get_ref(), self.master.get_ref());
            let stands = *place.borrow_and_update();
            if stands != ForegroundState::Foreground && stands != ForegroundState::Ended {
                if is_in_foreground(self.outer.get_ref()) {
                    let _ = tell.try_send(Event::Foreground);
                } else {
                    self.stand(ForegroundState::Background);
                }
            }
            let looks = matches!(self.place(), ForegroundState::Unknown | ForegroundState::Background);
            tokio::select! {
                _ = resized.recv() => {}
                // A shell has set modes of its own meanwhile, and may have continued us in the background.
                _ = continued.recv() => self.stand(ForegroundState::Unknown),
                _ = place.changed() => {}
                () = tokio::time::sleep(BACKGROUND_LOOK), if looks => {}
            }
        }
    }
}

async fn readable<T: AsRawFd>(end: &AsyncFd<T>) {
    if let Ok(mut guard) = end.readable().await {
        guard.clear_ready();
    }
}

/// Until everything is written.
async fn write_all<T: AsRawFd + AsFd>(end: &AsyncFd<T>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(end.get_ref(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let room = async {
                    if let Ok(mut guard) = end.writable().await {
                        guard.clear_ready();
                    }
                };
                let _room = tokio::time::timeout(RETRY, room).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
