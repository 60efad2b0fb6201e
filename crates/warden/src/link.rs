//! The warden's end of the socket.
//!
//! Assumes a run that reads. Guarantees that whatever goes wrong with the socket counts as the end of run. Does
//! not guarantee that run hears a report.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::channel::{Inbox, line};
use crate::order::{Order, Report};
use crate::shim::AT_TERMINAL;
use crate::terminal::Modes;

/// Most that is read before acting: more than a socket holds, so that whatever was said before we woke is
/// heard.
const DRAIN_MAX: usize = 1 << 20;

/// What the warden knows of terminals.
#[derive(Default)]
pub(crate) struct Terminals {
    /// CMD's own, if it has one.
    pub(crate) cmd: Option<OwnTerminal>,
    /// How run's was before run made it raw.
    pub(crate) run: Option<Modes>,
}

impl Terminals {
    /// Run cannot restore its terminal: we do, unless a shell has taken it back. We are in another session, and so are not stopped for it.
    pub(crate) fn restore(&self) {
        let _restored = self.run.map(|modes| modes.restore(io::stdout()));
    }
}

/// CMD's own terminal: our stdin.
#[derive(Clone, Copy)]
pub(crate) struct OwnTerminal {
    pub(crate) stderr: bool,
}

impl OwnTerminal {
    /// CMD begins a session on it, and with that a process group.
    pub(crate) fn give_to(self, command: &mut Command) -> io::Result<()> {
        let own = || io::stdin().as_fd().try_clone_to_owned();
        command.arg(AT_TERMINAL).stdout(own()?);
        if self.stderr {
            command.stderr(own()?);
        }
        Ok(())
    }
}

pub(crate) struct Link {
    socket: UnixStream,
    inbox: Inbox,
    pub(crate) closed: bool,
    pub(crate) terminal: Terminals,
}

impl Link {
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixStream::connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, inbox: Inbox::default(), closed: false, terminal: Terminals::default() })
    }

    /// Reads what run has said so far.
    pub(crate) fn drain(&mut self) {
        let mut buffer = [0; 4096];
        let mut total = 0;
        while !self.closed && total < DRAIN_MAX {
            match self.socket.read(&mut buffer) {
                Ok(0) => self.closed = true,
                Ok(read) => {
                    self.inbox.push(&buffer[..read]);
                    total += read;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
    }

    pub(crate) fn next(&mut self) -> Option<Order> {
        self.inbox.pop().unwrap_or_else(|_| {
            self.closed = true;
            None
        })
    }

    /// Reports are few and short: a socket that does not take one belongs to a run that is not there.
    pub(crate) fn say(&mut self, report: &Report) {
        let said = line(report).map_err(io::Error::other).and_then(|line| self.socket.write_all(&line));
        self.closed |= said.is_err();
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
