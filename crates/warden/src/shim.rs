//! The step between the warden and CMD: ties CMD's life to the warden's, then becomes CMD.
//!
//! Assumes that it was started by the warden. Guarantees that CMD's main process dies with the warden. Does
//! not guarantee that for CMD's descendants, nor if CMD's program is set-user-id or has file capabilities:
//! the kernel clears the death signal there.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Why CMD could not be started. CMD has not run in any of these cases.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// Not started by a warden.
    #[error("this command is started by `baton run` only")]
    NotAWarden,
    /// The warden died in between; nobody would end CMD.
    #[error("the warden is gone; not starting the command")]
    WardenGone,
    /// The kernel refused the death signal.
    #[error("cannot tie the command's life to the warden's: {0}")]
    Untied(#[source] io::Error),
    /// No such program.
    #[error("{}: {source}", program.display())]
    NotFound {
        /// As given by the user.
        program: OsString,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program that cannot be executed.
    #[error("{}: {source}", program.display())]
    NotExecutable {
        /// As given by the user.
        program: OsString,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ShimError {
    /// What a shell would exit with.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::NotAWarden | Self::WardenGone | Self::Untied(_) => 125,
        }
    }
}

/// Becomes CMD; returns only if that fails. `args` is what follows the hidden subcommand: the warden's pid,
/// CMD and its arguments.
pub fn exec_shim(args: impl IntoIterator<Item = OsString>) -> ShimError {
    let mut args = args.into_iter();
    let warden =
        args.next().and_then(|arg| arg.to_str()?.parse().ok()).filter(|raw| *raw > 0).and_then(Pid::from_raw);
    let (Some(warden), Some(program)) = (warden, args.next()) else { return ShimError::NotAWarden };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return ShimError::Untied(error.into());
    }
    // Checked after the signal is set: a warden that dies from here on takes us along.
    if getppid() != Some(warden) {
        return ShimError::WardenGone;
    }
    let source = Command::new(&program).args(args).exec();
    if source.kind() == io::ErrorKind::NotFound {
        ShimError::NotFound { program, source }
    } else {
        ShimError::NotExecutable { program, source }
    }
}
