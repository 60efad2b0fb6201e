//! Who descends from whom, read from `/proc`.
//!
//! Assumes that `/proc` is mounted and shows our own descendants. Guarantees that a [`ProcessId`] names one
//! process for ever, also when its pid is given to another. Does not guarantee a consistent picture:
//! processes fork and die while it is read, so that nothing here proves that a tree is gone; see
//! [`crate::sweep`] for what does.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;

use rustix::process::{Pid, Signal};

/// The most descendants that are looked at.
const MOST: usize = 4_096;

/// One process: a pid and its start, in clock ticks since boot. The pair is not used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessId {
    pub(crate) pid: Pid,
    pub(crate) started: u64,
}

/// A session: the process id of its leader. It is 0, as for everybody in it, where the leader is outside of our pid namespace,
/// as in a container that somebody entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session(i32);

/// What `/proc/PID/stat` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) process: ProcessId,
    /// `None` for a process whose parent is outside of our pid namespace.
    pub(crate) parent: Option<Pid>,
    /// `None` for a process group that is outside of our pid namespace.
    pub(crate) group: Option<Pid>,
    pub(crate) session: Session,
    pub(crate) name: String,
}

/// Reads one process; `None` if there is none, or none that we may see.
pub(crate) fn stat(pid: Pid) -> Option<Stat> {
    let bytes = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    parse_stat(&String::from_utf8_lossy(&bytes))
}

/// `pid (name) state parent … started …`; the name may hold spaces and parentheses.
fn parse_stat(text: &str) -> Option<Stat> {
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let parent = fields.nth(1)?;
    // Fields 5, 6 and 22 of proc(5); the state is field 3 and the parent field 4.
    let group = fields.next()?;
    let session = fields.next()?;
    let started = fields.nth(15)?;
    Some(Stat {
        process: ProcessId { pid: pid_from(pid)?, started: started.parse().ok()? },
        parent: pid_from(parent),
        group: pid_from(group),
        session: Session(session.parse().ok()?),
        name: name.to_owned(),
    })
}

/// Whether a process ignores the signal that Ctrl-Z makes, as shells do.
pub(crate) fn ignores_stop(pid: Pid) -> bool {
    let text = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap_or_default();
    let ignored = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (Signal::TSTP.as_raw() - 1) != 0
}

fn pid_from(text: &str) -> Option<Pid> {
    text.parse::<i32>().ok().filter(|raw| *raw > 0).and_then(Pid::from_raw)
}

/// Finds children: by the kernel's own lists where it keeps them, else by looking at every process.
pub(crate) enum ProcessTree {
    Lists,
    Scan(HashMap<Pid, Vec<Pid>>),
}

impl ProcessTree {
    /// Chooses the way for one look at the tree. Without the lists (`CONFIG_PROC_CHILDREN`) the whole of
    /// `/proc` is read, here.
    pub(crate) fn look() -> io::Result<Self> {
        if fs::exists("/proc/thread-self/children")? { Ok(Self::Lists) } else { Ok(Self::Scan(scan()?)) }
    }

    /// The children of a process; empty if it is gone.
    pub(crate) fn children(&self, parent: Pid) -> Vec<Pid> {
        match self {
            Self::Lists => listed_children(parent).unwrap_or_default(),
            Self::Scan(by_parent) => by_parent.get(&parent).cloned().unwrap_or_default(),
        }
    }

    /// All that descend from a process, its children first.
    pub(crate) fn descendants(&self, of: Pid) -> Vec<Pid> {
        let mut found = self.children(of);
        let mut seen: HashSet<Pid> = found.iter().copied().collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).copied().filter(|_| found.len() < MOST) {
            found.extend(self.children(parent).into_iter().filter(|pid| seen.insert(*pid)));
            next += 1;
        }
        found.truncate(MOST);
        found
    }
}

/// All that descend from a process, its children first; none if `/proc` cannot be read.
#[must_use]
pub fn descendants(of: Pid) -> Vec<Pid> {
    ProcessTree::look().map(|tree| tree.descendants(of)).unwrap_or_default()
}

/// The children of all threads of a process.
fn listed_children(parent: Pid) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{}/task", parent.as_raw_pid()))? {
        // A thread that ends hands its children to another; the next look finds them there.
        if let Ok(text) = fs::read_to_string(task?.path().join("children")) {
            children.extend(text.split_ascii_whitespace().filter_map(pid_from));
        }
    }
    Ok(children)
}

/// Every process's children, by looking at every process.
pub(crate) fn scan() -> io::Result<HashMap<Pid, Vec<Pid>>> {
    let mut by_parent: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(pid_from) else { continue };
        if let Some(parent) = stat(pid).and_then(|stat| stat.parent) {
            by_parent.entry(parent).or_default().push(pid);
        }
    }
    Ok(by_parent)
}

#[cfg(test)]
mod tests {
    use super::{ProcessTree, Session, listed_children, parse_stat, scan, stat};
    use rustix::process::{Pid, getpid};

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        let text = "42 (a) S 1 (x) S 7 41 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        let stat = parse_stat(text).unwrap();
        assert_eq!(stat.process.pid, Pid::from_raw(42).unwrap());
        assert_eq!(stat.name, "a) S 1 (x");
        assert_eq!((stat.parent, stat.session), (Pid::from_raw(7), Session(42)));
        assert_eq!(stat.group, Pid::from_raw(41));
        assert_eq!(stat.process.started, 98_765);
    }

    #[test]
    fn a_parent_outside_of_the_namespace_is_none() {
        assert_eq!(parse_stat("42 (a) S 0 42 42 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 5 0").unwrap().parent, None);
    }

    #[test]
    fn both_ways_see_a_child() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let by_list = listed_children(getpid()).unwrap();
        let by_scan = ProcessTree::Scan(scan().unwrap()).children(getpid());
        let seen = stat(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(by_list.contains(&pid), "{by_list:?}");
        assert!(by_scan.contains(&pid), "{by_scan:?}");
        assert_eq!(seen.unwrap().parent, Some(getpid()));
        assert_eq!(stat(pid), None);
    }
}
