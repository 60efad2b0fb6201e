//! The processes of an agent: its `baton run`, the warden below it, and the work below that.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use crate::warden_process;

/// How often `/proc` is looked at where nobody tells: a stop and the death of another's child make no sound.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Bounds on a hang.
const STOP_MAX: Duration = Duration::from_secs(2);
const ASKED_MAX: Duration = Duration::from_secs(3);
const SWEEP_MAX: Duration = Duration::from_secs(5);

/// The processes of one agent, as far as they exist.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) run: Pid,
    pub(super) warden: Option<Pid>,
    pub(super) work: Option<Pid>,
}

impl Family {
    pub(super) fn of(run: Pid) -> Family {
        let everybody = everybody();
        let child = |of: Pid, fits: &dyn Fn(Pid) -> bool| {
            everybody.iter().find(|one| one.parent == Some(of) && fits(one.pid)).map(|one| one.pid)
        };
        let warden = child(run, &|pid| is_warden(pid));
        let work = warden.and_then(|warden| child(warden, &|_| true));
        Family { run, warden, work }
    }

    /// The work first, so that nobody sees it without its keepers.
    pub(super) fn members(&self) -> impl Iterator<Item = Pid> {
        [self.work, self.warden, Some(self.run)].into_iter().flatten()
    }

    /// Stops them all. When this returns, none of them does anything.
    pub(super) async fn freeze(&self) -> bool {
        self.members().for_each(|pid| send(pid, Signal::STOP));
        let start = Instant::now();
        while !self.members().all(|pid| matches!(state(pid), None | Some('T' | 'Z'))) {
            if start.elapsed() > STOP_MAX {
                return false;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        true
    }
}

/// Best effort: whom it does not reach is gone.
pub(super) fn send(pid: Pid, signal: Signal) {
    let _ = kill_process(pid, signal);
}

/// Whether a process does not run any more. A zombie does not.
pub(super) fn is_gone(pid: Pid) -> bool {
    matches!(state(pid), None | Some('Z'))
}

/// Ends everything that descends from this process, which is its subreaper: asked first, then made to. Blocks.
pub(super) fn dismiss_all() {
    for pid in descendants() {
        send(pid, Signal::CONT);
        send(pid, Signal::TERM);
    }
    if !all_gone_within(ASKED_MAX, |_| {}) {
        all_gone_within(SWEEP_MAX, |pid| send(pid, Signal::KILL));
    }
}

fn all_gone_within(bound: Duration, urge: impl Fn(Pid)) -> bool {
    let start = Instant::now();
    loop {
        let left = descendants();
        if left.is_empty() {
            return true;
        }
        if start.elapsed() > bound {
            return false;
        }
        for pid in left {
            urge(pid);
            // Fails for those that are not our children yet.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

struct Process {
    pid: Pid,
    parent: Option<Pid>,
}

fn everybody() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw)
        .filter_map(|pid| {
            let parent = stat(pid)?.split_whitespace().nth(1)?.parse().ok().and_then(Pid::from_raw);
            Some(Process { pid, parent })
        })
        .collect()
}

fn descendants() -> Vec<Pid> {
    let everybody = everybody();
    let mut found = vec![getpid()];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(everybody.iter().filter(|one| one.parent == Some(parent)).map(|one| one.pid));
        at += 1;
    }
    found.split_off(1)
}

fn state(pid: Pid) -> Option<char> {
    stat(pid)?.chars().next()
}

/// What follows the program's name, which may itself hold spaces and brackets: state, parent, ….
fn stat(pid: Pid) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    Some(text.rsplit_once(") ")?.1.to_string())
}

fn is_warden(pid: Pid) -> bool {
    let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(warden_process::WARDEN.as_bytes())
}
