//! What run and the warden say to each other, one JSON value per line.
//!
//! Assumes that both ends are the same executable. Guarantees that no line above [`MAX_LINE`] is built up
//! in memory and that a ticket is not printed. Does not guarantee that arguments which are not UTF-8 can be
//! said.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::BootTime;
use crate::status_files::StatusFiles;
use crate::terminal::Modes;

/// Longest line, in bytes. Linux allows about 2 MiB of arguments by default; the rest is for JSON's escapes.
pub(crate) const MAX_LINE: usize = 8 << 20;

/// What the warden must know to release the lease when run is gone. Opaque here, and secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(String);

impl Ticket {
    /// Wraps what the `release` of [`crate::serve`] will be given.
    #[must_use]
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}

/// What to run, until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Program and arguments; the program is looked up in `PATH`.
    pub command: Vec<String>,
    /// Added to the environment of run.
    pub env: Vec<(String, String)>,
    /// When the tree must be gone.
    pub deadline: BootTime,
    /// Between SIGTERM and the end, in milliseconds.
    pub grace_ms: u64,
    /// Given to `release` if run cannot release.
    pub ticket: Ticket,
}

impl Start {
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

/// Another lease for a CMD that outlived its last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lead {
    /// When CMD must not lead any more.
    pub deadline: BootTime,
    /// How long before that it is told, in milliseconds; and from SIGTERM to the end.
    pub grace_ms: u64,
    /// Given to `release` if run cannot release.
    pub ticket: Ticket,
    /// What CMD is shown.
    pub status_files: StatusFiles,
}

impl Lead {
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

/// A second command, beside CMD or after it, that has the leader's secret files too: it judges what CMD did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// Program and arguments; the program is looked up in `PATH`.
    pub command: Vec<String>,
    /// Added to the environment of run.
    pub env: Vec<(String, String)>,
}

/// From run to the warden.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum Order {
    /// What CMD is shown: before `Start`, from its start; later, other secret files for a CMD that leads.
    Show(StatusFiles),
    /// Before `Start`: the warden's stdin is CMD's terminal, and its stdout is run's.
    Terminal {
        /// CMD's stderr is its terminal too; otherwise it is the warden's.
        stderr: bool,
    },
    /// Run makes its terminal raw, which was like this before: restore it if run cannot.
    Modes(Modes),
    /// Run CMD. Once per warden.
    Start(Start),
    /// CMD leads again.
    Lead(Lead),
    /// The lease was renewed.
    Deadline {
        /// The new deadline.
        deadline: BootTime,
    },
    /// Run a validator, beside CMD or after it. One at a time.
    Validate(Validation),
    /// End the validator, with everything that it started.
    EndValidation,
    /// SIGTERM to CMD, then SIGKILL after the grace.
    Stop,
    /// SIGKILL to CMD and to the validator.
    Kill,
    /// The lease has been released, or is none of the warden's business: leave.
    Dismiss,
}

/// From the warden to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "kebab-case")]
pub enum Report {
    /// CMD was started.
    Started {
        /// Its main process.
        pid: u32,
    },
    /// The answer to [`Order::Deadline`], [`Order::Lead`] and [`Order::Validate`]; how run knows that the warden is not stopped.
    Kept {
        /// The deadline in force.
        deadline: BootTime,
    },
    /// SIGTERM was sent to the tree.
    Terminating {
        /// By order, or because of the deadline.
        why: EndCause,
    },
    /// CMD has been shown that it does not lead, and goes on. It has no deadline until [`Order::Lead`].
    ReadOnly,
    /// CMD has been shown that it leads again.
    Leading,
    /// CMD has a terminal of its own, and its main process has stopped itself.
    Suspended,
    /// CMD and every descendant of it are gone. A validator may still be at work.
    Ended {
        /// How the main process ended.
        how: CommandExit,
        /// Who ended it.
        why: EndCause,
    },
    /// The validator and every descendant of it are gone. Each [`Order::Validate`] has one.
    Validated {
        /// How it ended.
        how: CommandExit,
        /// [`EndCause::Finished`] if it ended by itself: only then is it an answer.
        why: EndCause,
        /// The last line that it printed.
        said: String,
    },
    /// This process survives SIGKILL: it belongs to another user or hangs in the kernel. The warden goes on
    /// trying; nothing has been released, and `Ended` comes only if it goes.
    Unkillable {
        /// Its process id.
        pid: u32,
        /// Its command name.
        name: String,
    },
}

/// How CMD's main process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommandExit {
    /// It exited with this code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// It never ran; the reason.
    Unstarted(String),
}

impl CommandExit {
    /// The exit code a shell would give.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exit(code) => u8::try_from(*code).unwrap_or(1),
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(128),
            Self::Unstarted(_) => 126,
        }
    }
}

/// Why CMD ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndCause {
    /// Its main process ended by itself.
    Finished,
    /// Run ordered it.
    Stopped,
    /// The lease was not renewed in time.
    Deadline,
    /// Run died.
    Orphaned,
    /// CMD could not be shown whether it leads.
    Unshown,
}

#[cfg(test)]
mod tests {
    use super::{CommandExit, Order, Start, Ticket};
    use crate::clock::BootTime;

    #[test]
    fn a_ticket_is_not_printed() {
        let start = Start {
            command: vec!["true".into()],
            env: vec![],
            deadline: BootTime::from_ns(1),
            grace_ms: 0,
            ticket: Ticket::new("hunter2"),
        };
        assert!(!format!("{:?}", Order::Start(start)).contains("hunter2"));
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(CommandExit::Exit(3).exit_code(), 3);
        assert_eq!(CommandExit::Signal(9).exit_code(), 137);
        assert_eq!(CommandExit::Unstarted(String::new()).exit_code(), 126);
    }
}
