//! The signals that ask `baton run`, or `baton peer`, to stop.

use futures_util::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::Failure;

/// The exit code of a command that SIGINT ended.
const INTERRUPTED: u8 = 128 + 2;

/// SIGTERM, SIGINT and SIGHUP. The first that came is remembered: a process that was asked to stop starts nothing more.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    asked: Option<u8>,
}

impl Signals {
    pub(crate) fn listen() -> Result<Signals, Failure> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            asked: None,
        })
    }

    /// Waits for the next of them, and returns the exit code of a command that it ended.
    pub(crate) async fn next(&mut self) -> u8 {
        let code = tokio::select! {
            _ = self.terminate.recv() => 128 + 15,
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.hang_up.recv() => 128 + 1,
        };
        *self.asked.get_or_insert(code)
    }

    /// The person at CMD's terminal asked for the same.
    pub(crate) fn note_interrupt(&mut self) {
        self.asked.get_or_insert(INTERRUPTED);
    }

    /// Whether one has come since the start, also while nobody waited: the exit code of a command that it ended.
    pub(crate) fn asked(&mut self) -> Option<u8> {
        self.asked.or_else(|| self.next().now_or_never())
    }
}
