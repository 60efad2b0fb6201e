//! Processes as `/proc` shows them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::MARK;

/// Set for a CMD that outlives its lease: it leads only while its mode file says so, with the token in its file.
pub(crate) const OUTLIVES: &str = "E2E_OUTLIVES";
/// Set by a validator: it works with the token that it was started with, whatever the files say.
const VALIDATES: &str = "E2E_VALIDATES";

/// A process of a world. `started` tells it from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) started: u64,
    /// The token and the agent, if it belongs to the tree of a CMD.
    pub(crate) command: Option<Tree>,
}

/// The tree of a CMD that a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tree {
    pub(crate) token: u64,
    pub(crate) agent: String,
}

impl Process {
    /// The process with this number, if it carries the mark of the world and lives.
    pub(crate) fn look(pid: u32, mark: &str) -> Option<Process> {
        let environment = environment(pid)?;
        let value = |name: &str| {
            let entries = environment.split(|byte| *byte == 0);
            let mut found =
                entries.filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
            found.next_back().map(|value| String::from_utf8_lossy(value).into_owned())
        };
        if value(MARK)? != mark {
            return None;
        }
        let command = value("BATON_KEY").and_then(|_| {
            let token = match value(OUTLIVES).is_some() && value(VALIDATES).is_none() {
                false => value("BATON_TOKEN")?,
                true => leads_with(&value("BATON_MODE_FILE")?, &value("BATON_TOKEN_FILE")?)?,
            };
            Some(Tree { token: token.parse().ok()?, agent: value("BATON_AGENT")? })
        });
        Some(Process { pid, started: started(pid)?, command })
    }

    /// Whether it still lives, as what it was.
    pub(crate) fn lives(&self, mark: &str) -> bool {
        Process::look(self.pid, mark).as_ref() == Some(self)
    }

    pub(crate) fn signal(&self, kind: Signal) {
        signal(self.pid, kind);
    }
}

/// The token of a CMD that outlives its lease, while it leads.
fn leads_with(mode: &str, token: &str) -> Option<String> {
    let leads = fs::read_to_string(mode).ok()?.trim() == "leading";
    leads.then(|| fs::read_to_string(token).ok().map(|token| token.trim().to_string()))?
}

/// The processes of a world.
pub(crate) fn of_world(mark: &str) -> Vec<Process> {
    pids().filter(|pid| *pid != std::process::id()).filter_map(|pid| Process::look(pid, mark)).collect()
}

/// The processes of the trees of CMDs.
pub(crate) fn of_commands(mark: &str) -> Vec<Process> {
    of_world(mark).into_iter().filter(|process| process.command.is_some()).collect()
}

/// The processes of a world that are no wardens.
pub(crate) fn of_no_warden(mark: &str) -> Vec<Process> {
    of_world(mark).into_iter().filter(|process| !is_warden(process.pid)).collect()
}

/// The warden of a `baton run`.
pub(crate) fn warden(run: u32) -> Option<u32> {
    pids().find(|pid| parent(*pid) == Some(run) && is_warden(*pid))
}

fn is_warden(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(b"__warden")
}

/// Kills a `baton run` and its warden, as if at once: the warden must not find time to release.
pub(crate) fn kill_with_warden(run: &mut std::process::Child) {
    let warden = warden(run.id());
    for pid in warden.into_iter().chain([run.id()]) {
        signal(pid, Signal::STOP);
    }
    for pid in warden.into_iter().chain([run.id()]) {
        signal(pid, Signal::KILL);
    }
    run.wait().unwrap();
}

/// Whether a process is stopped (`T`), as opposed to running, gone or a zombie.
pub(crate) fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] == "T")
}

/// Whether a process has ended: gone, or a zombie.
pub(crate) fn has_ended(pid: u32) -> bool {
    stat(pid).is_none_or(|fields| fields[0] == "Z")
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = kill_process(pid, signal);
}

pub(crate) fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The environment of a process that lives; a zombie has none.
fn environment(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok().filter(|text| !text.is_empty())
}

pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid)?[1].parse().ok()
}

fn started(pid: u32) -> Option<u64> {
    stat(pid)?[19].parse().ok()
}

fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}
