//! A terminal that a test makes: it types, reads what is shown, changes the size, and looks at the modes.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::until;

pub(crate) struct Screen {
    keyboard: File,
    terminal: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Screen {
    /// A terminal whose text is read at once.
    pub(crate) fn new() -> Screen {
        let screen = Screen::held();
        let mut from = screen.keyboard.try_clone().unwrap();
        let shown = Arc::clone(&screen.shown);
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                shown.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        screen
    }

    /// A terminal that nobody reads.
    pub(crate) fn held() -> Screen {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        unlockpt(&master).unwrap();
        let terminal = ioctl_tiocgptpeer(&master, flags).unwrap();
        let screen = Screen { keyboard: master.into(), terminal, shown: Arc::default() };
        screen.resize(33, 101);
        screen
    }

    pub(crate) fn name(&self) -> String {
        ptsname(&self.keyboard, Vec::new()).unwrap().into_string().unwrap()
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keyboard, size).unwrap();
    }

    /// One end of the terminal, for a process.
    pub(crate) fn end(&self) -> Stdio {
        self.terminal.try_clone().unwrap().into()
    }

    /// The same command, controlled by this terminal and in its foreground. Its process is the one that is started. What is not said of stdin, stdout and stderr is the terminal.
    pub(crate) fn command(&self, call: &Command) -> Command {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(call.get_program()).args(call.get_args());
        for (name, value) in call.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(call.get_current_dir().unwrap()).env("TERM", "xterm");
        command.stdin(self.end()).stdout(self.end()).stderr(self.end());
        command
    }

    pub(crate) fn start(&self, call: &Command) -> Child {
        self.command(call).spawn().unwrap()
    }

    pub(crate) fn type_in(&self, keys: &str) {
        (&self.keyboard).write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until this is shown so many times.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str, times: usize) {
        until(&format!("`{text}` is shown {times} times"), || self.shown().matches(text).count() >= times);
    }

    /// Its modes, as `stty -a` says them.
    pub(crate) fn modes(&self) -> String {
        let said = Command::new("stty").arg("-a").stdin(self.end()).output().unwrap();
        String::from_utf8(said.stdout).unwrap()
    }
}
