//! Stops this process as Ctrl-Z would have, had its terminal not been raw.

use std::time::Duration;

use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{SignalKind, signal};

use crate::output::Failure;

/// The exit code of a command that the signal of Ctrl-Z ended.
pub(crate) const SUSPENDED: u8 = 128 + 20;
/// A process that still runs after this was not stopped: no shell could continue it, so the kernel discards the signal.
const NOT_STOPPED: Duration = Duration::from_secs(1);

/// Stops the whole job, so that its shell notices. Returns once the shell has continued it: `true`; `false` if there is no such shell.
pub(crate) async fn until_continued() -> Result<bool, Failure> {
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    kill_current_process_group(Signal::TSTP).map_err(std::io::Error::from)?;
    Ok(tokio::time::timeout(NOT_STOPPED, continued.recv()).await.is_ok())
}
