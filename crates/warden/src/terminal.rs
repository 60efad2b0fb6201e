//! The terminal of run, and the pseudo terminal of CMD.
//!
//! Assumes Linux 4.13 or later (`TIOCGPTPEER`). Guarantees that the modes of a terminal are changed only by a process that may change them
//! without being stopped, and are restored only while they are still the raw ones of run: a shell that took the terminal back has set its
//! own. Does not guarantee the last against a shell that sets its modes between the look and the change.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, getpid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr,
    tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize,
};
use serde::{Deserialize, Serialize};

use crate::process_tree;

/// What run changes of a terminal, as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modes {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    min: u8,
    time: u8,
}

impl Modes {
    /// The modes in force.
    ///
    /// # Errors
    /// What tcgetattr(3) says.
    pub fn of(terminal: impl AsFd) -> io::Result<Modes> {
        Ok(Modes::in_force(&tcgetattr(terminal)?))
    }

    /// Whether run made the terminal raw, from these modes, and nobody has changed it since.
    ///
    /// # Errors
    /// What tcgetattr(3) says.
    pub fn is_raw(&self, terminal: impl AsFd) -> io::Result<bool> {
        let mut raw = tcgetattr(terminal)?;
        let in_force = Modes::in_force(&raw);
        self.write_to(&mut raw);
        raw.make_raw();
        Ok(in_force == Modes::in_force(&raw))
    }

    /// Passes every byte on as it is, both ways: the line discipline of CMD's terminal does what this one did.
    ///
    /// # Errors
    /// What tcgetattr(3) and tcsetattr(3) say; nothing has changed then.
    pub fn make_raw(&self, terminal: impl AsFd) -> io::Result<()> {
        let mut raw = tcgetattr(&terminal)?;
        self.write_to(&mut raw);
        raw.make_raw();
        // Without a wait for what is not written yet: a terminal that is held would never end it.
        Ok(tcsetattr(terminal, OptionalActions::Now, &raw)?)
    }

    /// Takes back [`Modes::make_raw`], unless somebody else has changed the modes since.
    ///
    /// # Errors
    /// What tcgetattr(3) and tcsetattr(3) say; nothing has changed then.
    pub fn restore(&self, terminal: impl AsFd) -> io::Result<()> {
        if !self.is_raw(&terminal)? {
            return Ok(());
        }
        let mut before = tcgetattr(&terminal)?;
        self.write_to(&mut before);
        Ok(tcsetattr(terminal, OptionalActions::Now, &before)?)
    }

    fn in_force(termios: &Termios) -> Modes {
        Modes {
            input: termios.input_modes.bits(),
            output: termios.output_modes.bits(),
            control: termios.control_modes.bits(),
            local: termios.local_modes.bits(),
            min: termios.special_codes[SpecialCodeIndex::VMIN],
            time: termios.special_codes[SpecialCodeIndex::VTIME],
        }
    }

    fn write_to(&self, termios: &mut Termios) {
        termios.input_modes = InputModes::from_bits_retain(self.input);
        termios.output_modes = OutputModes::from_bits_retain(self.output);
        termios.control_modes = ControlModes::from_bits_retain(self.control);
        termios.local_modes = LocalModes::from_bits_retain(self.local);
        termios.special_codes[SpecialCodeIndex::VMIN] = self.min;
        termios.special_codes[SpecialCodeIndex::VTIME] = self.time;
    }
}

/// Run's terminal, and a pseudo terminal for CMD.
pub struct Terminal {
    /// A file description of our own, so that it can be non-blocking: stdin's belongs to the shell too.
    pub(crate) outer: File,
    pub(crate) master: OwnedFd,
    pub(crate) slave: OwnedFd,
    /// Whether stderr is the same terminal.
    pub(crate) has_stderr: bool,
}

impl Terminal {
    /// Opens both, if stdin and stdout are the terminal that controls this process; else there is none.
    ///
    /// # Errors
    /// The system has no pseudo terminal to give.
    pub fn open() -> io::Result<Option<Terminal>> {
        if !controls_us(io::stdin())? || !controls_us(io::stdout())? {
            return Ok(None);
        }
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        let outer =
            options.read(true).write(true).custom_flags(flags.bits().cast_signed()).open("/dev/tty")?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        ioctl_fionbio(&master, true)?;
        if is_in_foreground(&outer) {
            // In the background the modes are those of the shell's own line editor.
            tcsetattr(&slave, OptionalActions::Now, &tcgetattr(&outer)?)?;
        }
        copy_size(&outer, &master);
        Ok(Some(Terminal { outer, master, slave, has_stderr: controls_us(io::stderr())? }))
    }

    /// Whether stderr is the same terminal: then CMD's is its own terminal too.
    #[must_use]
    pub fn has_stderr(&self) -> bool {
        self.has_stderr
    }
}

/// Whether this is the terminal that controls this process. One whose foreground group is outside of our pid namespace is none: we could not
/// tell whether we may use it.
fn controls_us(file: impl AsFd) -> io::Result<bool> {
    match tcgetpgrp(file) {
        Ok(_) => Ok(true),
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::BADF | Errno::INVAL | Errno::IO) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether this process may use its terminal without being stopped for it.
pub(crate) fn is_in_foreground(terminal: impl AsFd) -> bool {
    let own = process_tree::stat(getpid()).and_then(|stat| stat.group);
    own.is_some() && tcgetpgrp(terminal).ok() == own
}

/// CMD's terminal is as large as run's. CMD is told by the kernel if that is new.
pub(crate) fn copy_size(outer: impl AsFd, master: impl AsFd) {
    if let Ok(size) = tcgetwinsize(outer) {
        let _copied = tcsetwinsize(master, size);
    }
}

/// Whether this key makes the kernel stop CMD: its terminal makes a signal of it, CMD itself is in the foreground there, and does not ignore it.
/// A program that reads keys one by one, and a job of a shell that is CMD, have it for themselves.
pub(crate) fn suspends(key: u8, master: impl AsFd, main: Pid) -> bool {
    let Ok(modes) = tcgetattr(&master) else { return false };
    let makes_signal = modes.local_modes.contains(LocalModes::ISIG)
        && modes.special_codes[SpecialCodeIndex::VSUSP] == key
        && key != 0;
    makes_signal && tcgetpgrp(&master) == Ok(main) && !process_tree::ignores_stop(main)
}

#[cfg(test)]
mod tests {
    use super::Modes;
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    use std::os::fd::OwnedFd;

    fn terminal() -> (OwnedFd, OwnedFd) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = openpt(flags).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        (master, slave)
    }

    #[test]
    fn raw_modes_are_taken_back_whole() {
        let (_master, slave) = terminal();
        let before = Modes::of(&slave).unwrap();
        before.make_raw(&slave).unwrap();
        assert!(before.is_raw(&slave).unwrap());
        assert!(!tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHO));
        let said: Modes = serde_json::from_str(&serde_json::to_string(&before).unwrap()).unwrap();
        said.restore(&slave).unwrap();
        assert_eq!(Modes::of(&slave).unwrap(), before);
    }

    #[test]
    fn modes_that_somebody_else_has_set_are_left_alone() {
        let (_master, slave) = terminal();
        let before = Modes::of(&slave).unwrap();
        before.make_raw(&slave).unwrap();
        let mut shells = tcgetattr(&slave).unwrap();
        shells.local_modes.insert(LocalModes::ISIG);
        tcsetattr(&slave, OptionalActions::Now, &shells).unwrap();
        before.restore(&slave).unwrap();
        assert!(!tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHO));
    }
}
