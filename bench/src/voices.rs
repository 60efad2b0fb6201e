//! Processes that say things, line by line, each with the moment at which it was heard.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use baton_store::boot;
use rustix::process::{Pid, Signal, kill_process};

/// From asking a process to end to killing it.
const GRACE: Duration = Duration::from_secs(5);

/// A line on the standard output of one of them.
pub(crate) struct Said {
    /// The number of the process, counted from its start: 0, 1, 2, …
    pub(crate) who: usize,
    /// When the line was read, in nanoseconds of the boot-time clock.
    pub(crate) heard: u64,
    pub(crate) line: String,
}

/// The processes. Those that still run are ended when this is dropped: asked first, killed if they do not heed it.
pub(crate) struct Voices {
    children: Vec<(usize, Child)>,
    started: usize,
    said: Receiver<Said>,
    tell: Sender<Said>,
    /// What all of them write to standard error: read only to explain a failure.
    complaints: File,
}

impl Voices {
    pub(crate) fn new() -> std::io::Result<Voices> {
        let (tell, said) = channel();
        Ok(Voices { children: Vec::new(), started: 0, said, tell, complaints: tempfile::tempfile()? })
    }

    /// The number that the next process will have.
    pub(crate) fn next_number(&self) -> usize {
        self.started
    }

    pub(crate) fn start(&mut self, command: &mut Command) -> std::io::Result<usize> {
        let complaints = self.complaints.try_clone()?;
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints).spawn()?;
        let who = self.started;
        self.started += 1;
        if let Some(out) = child.stdout.take() {
            let tell = self.tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let heard = boot::now().as_nanos();
                    if tell.send(Said { who, heard, line }).is_err() {
                        return;
                    }
                }
            });
        }
        self.children.push((who, child));
        Ok(who)
    }

    /// The next line, waited for; an error says what was waited for in vain.
    pub(crate) fn next(&mut self, limit: Duration, what: &str) -> std::io::Result<Said> {
        let begun = Instant::now();
        loop {
            let ended = self.children.iter_mut().all(|(_, child)| !matches!(child.try_wait(), Ok(None)));
            // What the last of them said may still be on its way here.
            if let Ok(said) = self.said.recv_timeout(Duration::from_millis(500)) {
                return Ok(said);
            }
            if ended || begun.elapsed() > limit {
                let so = if ended { "all have ended" } else { "nothing was heard in time" };
                let last = self.last_complaints();
                return Err(std::io::Error::other(format!("{what}: {so}; their last complaint: {last}")));
            }
        }
    }

    /// What was said and not yet taken, without waiting.
    pub(crate) fn so_far(&self) -> impl Iterator<Item = Said> + '_ {
        self.said.try_iter()
    }

    /// Those that were not killed here: number and process id.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.children.iter().map(|(who, child)| (*who, child.id()))
    }

    /// Kills one of them, without warning.
    pub(crate) fn kill(&mut self, who: usize) -> std::io::Result<()> {
        let Some(place) = self.children.iter().position(|(number, _)| *number == who) else {
            return Err(std::io::Error::other(format!("process {who} is gone already")));
        };
        let (_, mut child) = self.children.remove(place);
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// What they last wrote to standard error.
    pub(crate) fn last_complaints(&self) -> String {
        const AT_MOST: usize = 1_500;
        let length = self.complaints.metadata().map_or(0, |metadata| metadata.len());
        let mut text = vec![0; AT_MOST];
        let read = self.complaints.read_at(&mut text, length.saturating_sub(AT_MOST as u64)).unwrap_or(0);
        String::from_utf8_lossy(&text[..read]).trim().to_string()
    }
}

impl Drop for Voices {
    fn drop(&mut self) {
        let running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        for (_, child) in &mut self.children {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|_| running(child)) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        // Whoever ends by itself takes along what it has started.
        let begun = Instant::now();
        while begun.elapsed() < GRACE && self.children.iter_mut().any(|(_, child)| running(child)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        for (_, child) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
