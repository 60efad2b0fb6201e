//! A server that was started for a measurement, and what it uses.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(30);

/// A server of our own. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts it; what it says goes to a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> std::io::Result<Process> {
        let log = std::fs::File::create(log)?;
        let command = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Process { child: command.spawn()? })
    }

    /// Waits until something is there, as long as the server runs.
    pub(crate) fn await_for<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> std::io::Result<T> {
        let begun = Instant::now();
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(std::io::Error::other(format!("{what} has ended: {status}")));
            }
            if begun.elapsed() > START {
                return Err(std::io::Error::other(format!("{what} does not answer")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What CPU it has used, in itself and for itself in the kernel.
    pub(crate) fn cpu(&self) -> std::io::Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        Ok(Duration::from_millis(stat(&text).iter().skip(OWN).take(2).sum::<u64>() * 10))
    }

    /// What memory it has, in bytes.
    pub(crate) fn memory(&self) -> std::io::Result<u64> {
        status(self.child.id(), "VmRSS:")
    }
}

/// The most memory that a process has had, in bytes.
pub(crate) fn peak_of(process: u32) -> std::io::Result<u64> {
    status(process, "VmHWM:")
}

/// What the kernel says of a process's memory, in bytes.
fn status(process: u32, what: &str) -> std::io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(what));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes * 1024)
        .ok_or_else(|| std::io::Error::other("the process has no memory"))
}

/// Where [`stat`] has what a process used, in itself and in the kernel, in ticks of 10 ms.
pub(crate) const OWN: usize = 11;

/// The numbers of `/proc/PID/stat` behind the name, which may hold spaces and parentheses; what is no number is zero.
pub(crate) fn stat(text: &str) -> Vec<u64> {
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.map(|field| field.parse().unwrap_or(0)).collect()
}
