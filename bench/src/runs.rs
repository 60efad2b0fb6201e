//! Candidates of one election: `baton run`, each with a CMD that says when it began.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use baton_store::boot;
use rustix::process::{Pid, Signal, kill_process};

use crate::voices::{Said, Voices};

/// What all of them are candidates for.
pub(crate) const ELECTION: &str = "bench";
/// How long anything is waited for: a bound on a hang.
const HANG: Duration = Duration::from_secs(60);

/// CMD: says when it began, and does nothing until it is ended; or, told how many milliseconds it lasts, says when it ends.
pub(crate) fn stamp(arguments: &[String]) -> std::io::Result<()> {
    let began = boot::now().as_nanos();
    let token = std::env::var("BATON_TOKEN").unwrap_or_default();
    let say = |what: &str, at: u64| {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{what} {token} {at}")?;
        stdout.flush()
    };
    say("began", began)?;
    let lasts = arguments.first().and_then(|lasts| lasts.parse().ok());
    match lasts.map(Duration::from_millis) {
        Some(lasts) => {
            std::thread::sleep(lasts);
            say("ended", boot::now().as_nanos())
        }
        None => loop {
            std::thread::park();
        },
    }
}

/// What a CMD said.
pub(crate) struct Stamp {
    /// Whose CMD.
    pub(crate) run: usize,
    /// `began`, or `ended`.
    pub(crate) ended: bool,
    /// When, in nanoseconds of the boot-time clock.
    pub(crate) at: u64,
}

impl Stamp {
    pub(crate) fn of(said: &Said) -> Option<Stamp> {
        let words: Vec<&str> = said.line.split(' ').collect();
        let [what @ ("began" | "ended"), _, at] = words[..] else { return None };
        Some(Stamp { run: said.who, ended: what == "ended", at: at.parse().ok()? })
    }
}

/// What the candidates are given.
pub(crate) struct Terms<'a> {
    pub(crate) baton: &'a Path,
    pub(crate) store: String,
    pub(crate) ttl: &'static str,
    /// How long CMD lasts; without it, until it is ended.
    pub(crate) lasts: Option<Duration>,
}

/// The candidates, and what their CMDs say.
pub(crate) struct Runs {
    /// Before the folder: what uses it ends first.
    voices: Voices,
    folder: tempfile::TempDir,
    baton: PathBuf,
    store: String,
    ttl: &'static str,
    lasts: Option<Duration>,
    /// Leaderships that nobody asked for: on a machine that is too slow for the lease a leader loses it without a crash.
    unasked: usize,
}

impl Runs {
    /// Starts two. The folder is theirs.
    pub(crate) fn start(terms: Terms<'_>, folder: tempfile::TempDir) -> std::io::Result<Runs> {
        let Terms { baton, store, ttl, lasts } = terms;
        let baton = fs::canonicalize(baton)?;
        let mut runs = Runs { folder, baton, store, ttl, lasts, unasked: 0, voices: Voices::new()? };
        runs.spawn()?;
        runs.spawn()?;
        Ok(runs)
    }

    /// How often a leadership changed without a crash.
    pub(crate) fn unasked(&self) -> usize {
        self.unasked
    }

    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// One more candidate.
    pub(crate) fn spawn(&mut self) -> std::io::Result<()> {
        let mut command = Command::new(&self.baton);
        command
            .args(["run", ELECTION, "--ttl", self.ttl, "--store", &self.store, "--"])
            .arg(std::env::current_exe()?)
            .arg("--stamp")
            .args(self.lasts.map(|lasts| lasts.as_millis().to_string()))
            .env("BATON_STATE_DIR", self.folder.path().join("state"))
            .env("XDG_RUNTIME_DIR", self.folder.path());
        self.voices.start(&mut command).map(|_| ())
    }

    /// What is said next.
    pub(crate) fn next(&mut self) -> std::io::Result<Stamp> {
        loop {
            let said = self.voices.next(HANG, "no candidate took over")?;
            if let Some(stamp) = Stamp::of(&said) {
                return Ok(stamp);
            }
        }
    }

    /// Waits for a CMD that begins after this moment; returns when it did.
    pub(crate) fn began_after(&mut self, moment: u64) -> std::io::Result<u64> {
        loop {
            let stamp = self.next()?;
            if !stamp.ended && stamp.at > moment {
                return Ok(stamp.at);
            }
            self.note_unasked(&stamp)?;
        }
    }

    /// Whether the leadership has changed since the last CMD that was waited for, though nobody crashed.
    pub(crate) fn changed_unasked(&mut self) -> std::io::Result<bool> {
        let before = self.unasked;
        let stamps: Vec<Stamp> = self.voices.so_far().filter_map(|said| Stamp::of(&said)).collect();
        for stamp in &stamps {
            self.note_unasked(stamp)?;
        }
        Ok(self.unasked > before)
    }

    fn note_unasked(&mut self, stamp: &Stamp) -> std::io::Result<()> {
        if stamp.ended {
            return Ok(());
        }
        self.unasked += 1;
        let said = self.voices.last_complaints();
        writeln!(
            std::io::stderr(),
            "a leadership changed without a crash; the candidates' last words:\n{said}"
        )
    }

    /// Kills the run whose CMD runs at the moment, and leaves its warden to act. Returns when.
    pub(crate) fn kill_run(&mut self) -> std::io::Result<u64> {
        let (run, _) = self.leader()?;
        let killed = boot::now().as_nanos();
        self.voices.kill(run)?;
        Ok(killed)
    }

    /// Kills it and its warden, so that nobody releases. Returns when.
    pub(crate) fn kill_run_and_warden(&mut self) -> std::io::Result<u64> {
        let (run, warden) = self.leader()?;
        let pid = i32::try_from(warden).ok().and_then(Pid::from_raw);
        let warden = pid.ok_or_else(|| std::io::Error::other("a warden without a process id"))?;
        let killed = boot::now().as_nanos();
        // The warden first stopped, then both killed, so that neither acts on the death of the other.
        let _ = kill_process(warden, Signal::STOP);
        self.voices.kill(run)?;
        let _ = kill_process(warden, Signal::KILL);
        Ok(killed)
    }

    /// The run whose CMD runs at the moment, and its warden.
    fn leader(&self) -> std::io::Result<(usize, u32)> {
        let begun = Instant::now();
        while begun.elapsed() < HANG {
            for (run, pid) in self.voices.running() {
                for warden in children(pid) {
                    if !children(warden).is_empty() {
                        return Ok((run, warden));
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(std::io::Error::other(format!(
            "no run has a CMD; last complaint: {}",
            self.voices.last_complaints()
        )))
    }
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}
