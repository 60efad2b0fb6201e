//! Writes lines to stderr from a thread of its own.
//!
//! Assumes nothing of the reader: a terminal that is held, or a pipe that nobody empties, must not keep a heartbeat, a renewal or a warden
//! waiting. Guarantees that nothing here waits but [`LineWriter::finish`], which is bounded, and a bound on what waits to be written. Does not
//! guarantee that everything is read: lines that do not fit are left out, and a later line says how many.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::output::say_at_once;

/// Lines that wait to be written.
const WAITING_MAX: usize = 256;
/// How long the last words may take.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// The near end of the thread.
#[derive(Clone)]
pub(crate) struct LineWriter {
    lines: SyncSender<Entry>,
    /// Lines that were left out, until a line says so.
    missed: Arc<AtomicU64>,
}

enum Entry {
    Line(String),
    /// Everything before it is written.
    Done(SyncSender<()>),
}

impl LineWriter {
    pub(crate) fn start() -> io::Result<LineWriter> {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        // It ends with the last of its speakers; at the end of the process it may still hang.
        std::thread::Builder::new().name("line-writer".to_string()).spawn(move || write(waiting))?;
        Ok(LineWriter { lines, missed: Arc::default() })
    }

    /// Leaves a line to be written, after one that says how many were left out before it.
    pub(crate) fn write(&self, line: String, left_out: impl FnOnce(&str) -> String) {
        let missed = self.missed.swap(0, Ordering::Relaxed);
        if missed > 0 {
            let text = format!("{missed} lines were left out: nobody read what was written");
            self.push(missed, left_out(&text));
        }
        self.push(1, line);
    }

    /// Waits until everything is written, or soon.
    pub(crate) fn finish(&self) {
        let (done, written) = sync_channel(1);
        if self.lines.try_send(Entry::Done(done)).is_ok() {
            let _ = written.recv_timeout(LAST_WORDS_MAX);
        }
    }

    /// Leaves a line to be written that stands for so many; without room they are missed.
    fn push(&self, lines: u64, line: String) {
        match self.lines.try_send(Entry::Line(line)) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                self.missed.fetch_add(lines, Ordering::Relaxed);
            }
        }
    }
}

/// Writes lines for as long as there is a speaker.
fn write(waiting: Receiver<Entry>) {
    for word in waiting {
        match word {
            Entry::Line(line) => say_at_once(&line),
            Entry::Done(done) => {
                let _ = done.send(());
            }
        }
    }
}
