//! Take-over after a kill, from the outside: when the successor's CMD runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use baton::Coordinator;
use baton_election::{ElectionName, Span};
use baton_store::boot;

use crate::figures::{Figure, percentile, short};

/// CMD: says when it began, then does nothing until it is ended.
pub(crate) fn stamp() -> std::io::Result<()> {
    let began = boot::now().as_nanos();
    let token = std::env::var("BATON_TOKEN").unwrap_or_default();
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{token} {began}")?;
    stdout.flush()?;
    loop {
        std::thread::park();
    }
}

/// Two candidates on one store, and what their CMDs say.
struct Pair {
    folder: tempfile::TempDir,
    baton: PathBuf,
    runs: Vec<Child>,
    began: Receiver<(u64, u64)>,
    tell: std::sync::mpsc::Sender<(u64, u64)>,
}

impl Pair {
    fn start(baton: &Path) -> std::io::Result<Pair> {
        let (tell, began) = channel();
        let baton = fs::canonicalize(baton)?;
        let mut pair = Pair { folder: tempfile::tempdir_in(".")?, baton, runs: Vec::new(), began, tell };
        pair.spawn()?;
        pair.spawn()?;
        Ok(pair)
    }

    fn store(&self) -> String {
        format!("file:{}", self.folder.path().join("s").display())
    }

    fn spawn(&mut self) -> std::io::Result<()> {
        let mut child = Command::new(&self.baton)
            .args(["run", "bench", "--ttl", "1s", "--store", &self.store(), "--"])
            .arg(std::env::current_exe()?)
            .arg("--stamp")
            .env("BATON_STATE_DIR", self.folder.path().join("state"))
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(out) = child.stdout.take() {
            let tell = self.tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let mut numbers = line.split(' ').filter_map(|number| number.parse::<u64>().ok());
                    if let Some(stamp) = numbers.next().zip(numbers.next()) {
                        let _ = tell.send(stamp);
                    }
                }
            });
        }
        self.runs.push(child);
        Ok(())
    }

    /// Waits for the next CMD to begin; returns when it did.
    fn next(&self) -> std::io::Result<u64> {
        let told = self.began.recv_timeout(Duration::from_secs(60));
        told.map(|(_, began)| began).map_err(|_| std::io::Error::other("no candidate took over in a minute"))
    }

    /// The run whose CMD runs at the moment, and its warden.
    fn leader(&self) -> std::io::Result<(usize, u32)> {
        for (place, run) in self.runs.iter().enumerate() {
            for warden in children(run.id()) {
                if !children(warden).is_empty() {
                    return Ok((place, warden));
                }
            }
        }
        Err(std::io::Error::other("no run has a CMD"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for run in &mut self.runs {
            let _ = run.kill();
            let _ = run.wait();
        }
    }
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The warden releases.
pub(crate) fn after_run_is_killed(baton: &Path) -> std::io::Result<Figure> {
    const ROUNDS: usize = 100;
    let mut pair = Pair::start(baton)?;
    pair.next()?;
    let mut values = Vec::new();
    for _ in 0..ROUNDS {
        settle();
        let (place, _) = pair.leader()?;
        let killed = boot::now().as_nanos();
        pair.runs[place].kill()?;
        let began = pair.next()?;
        values.push(Duration::from_nanos(began.saturating_sub(killed)));
        pair.runs.remove(place).wait()?;
        pair.spawn()?;
    }
    let beside = format!("p50 {} over {ROUNDS}", short(percentile(&mut values, 0.5)));
    let p99 = percentile(&mut values, 0.99);
    Ok(Figure::at_most("take-over after SIGKILL of run, p99", p99, Duration::from_millis(100), beside))
}

/// Nobody releases: the lease runs out.
pub(crate) fn after_both_are_killed(baton: &Path) -> std::io::Result<Figure> {
    const ROUNDS: usize = 60;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut pair = Pair::start(baton)?;
    pair.next()?;
    let mut values = Vec::new();
    for _ in 0..ROUNDS {
        settle();
        let (place, warden) = pair.leader()?;
        if let Some(pid) = i32::try_from(warden).ok().and_then(rustix::process::Pid::from_raw) {
            // The warden first stopped, then both killed, so that neither acts on the death of the other.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::STOP);
            pair.runs[place].kill()?;
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let lease_end = runtime.block_on(lease_end(&pair.store()))?;
        let began = pair.next()?;
        values.push(Duration::from_nanos(began.saturating_sub(lease_end)));
        pair.runs.remove(place).wait()?;
        pair.spawn()?;
    }
    let beside = format!("p50 {} over {ROUNDS}", short(percentile(&mut values, 0.5)));
    let p99 = percentile(&mut values, 0.99);
    let what = "take-over after SIGKILL of run and warden, past the lease, p99";
    Ok(Figure::at_most(what, p99, Duration::from_millis(30), beside))
}

/// When the lease that stands in the store ends, on the boot-time clock.
async fn lease_end(store: &str) -> std::io::Result<u64> {
    let failed = |error: baton::Error| std::io::Error::other(error.to_string());
    let coordinator = Coordinator::connect(store).await.map_err(failed)?;
    let Ok(election) = ElectionName::new("bench") else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let asked = boot::now();
    let view = coordinator.view(&election).await.map_err(failed)?;
    let remaining = view.document.map_or(Span::ZERO, |document| document.lease_remaining(view.age));
    Ok((asked + remaining).as_nanos())
}

/// The moment of the kill is drawn at random, and the new candidate has time to get in line.
fn settle() {
    let mut byte = [0; 1];
    let drawn = getrandom::fill(&mut byte).map_or(128, |()| u64::from(byte[0]));
    std::thread::sleep(Duration::from_millis(150 + drawn));
}
