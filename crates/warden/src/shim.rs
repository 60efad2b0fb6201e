//! The step between the warden and CMD: ties CMD's life to the warden's, then becomes CMD.
//!
//! Assumes that it was started by the warden. Guarantees that CMD's main process dies with the warden. Does
//! not guarantee that for CMD's descendants, nor if CMD's program is set-user-id or has file capabilities:
//! the kernel clears the death signal there.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getppid, ioctl_tiocsctty, set_parent_process_death_signal, setsid};

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
    /// The kernel did not give CMD its terminal.
    #[error("cannot give the command its terminal: {0}")]
    NoTerminal(#[source] io::Error),
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
            Self::NotAWarden | Self::WardenGone | Self::Untied(_) | Self::NoTerminal(_) => 125,
        }
    }
}

impl ShimError {
    pub(crate) fn of_program(program: OsString, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { program, source },
            _ => Self::NotExecutable { program, source },
        }
    }
}

/// What precedes the warden's pid if stdin is CMD's own terminal.
pub(crate) const AT_TERMINAL: &str = "terminal";
/// What precedes it if it is not.
pub const NO_TERMINAL: &str = "-";

/// Becomes CMD; returns only if that fails. `args` is what follows the hidden subcommand: whether CMD has a terminal, the warden's pid,
/// CMD and its arguments.
pub fn exec_shim(args: impl IntoIterator<Item = OsString>) -> ShimError {
    let mut args = args.into_iter();
    let at_terminal = match args.next() {
        Some(word) if word == AT_TERMINAL => true,
        Some(word) if word == NO_TERMINAL => false,
        Some(_) | None => return ShimError::NotAWarden,
    };
    let (warden, program, arguments) = match warden_of(args) {
        Ok(words) => words,
        Err(error) => return error,
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return ShimError::Untied(error.into());
    }
    // Checked after the signal is set: a warden that dies from here on takes us along.
    if getppid() != Some(warden) {
        return ShimError::WardenGone;
    }
    if at_terminal && let Err(error) = setsid().and_then(|_| ioctl_tiocsctty(io::stdin())) {
        return ShimError::NoTerminal(error.into());
    }
    let source = Command::new(&program).args(arguments).exec();
    ShimError::of_program(program, source)
}

/// The warden's pid, the program and its arguments.
pub(crate) fn warden_of(
    args: impl IntoIterator<Item = OsString>,
) -> Result<(Pid, OsString, Vec<OsString>), ShimError> {
    let mut args = args.into_iter();
    let warden =
        args.next().and_then(|arg| arg.to_str()?.parse().ok()).filter(|raw| *raw > 0).and_then(Pid::from_raw);
    let (Some(warden), Some(program)) = (warden, args.next()) else { return Err(ShimError::NotAWarden) };
    Ok((warden, program, args.collect()))
}
