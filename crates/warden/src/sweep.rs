//! Ends whole trees of processes.
//!
//! Assumes that this process is the child subreaper of the trees, so that an orphan in them becomes its
//! child.
//!
//! Guarantees what [`Pass::clear`] says. The proof: a descendant's chain of parents leads to one of our
//! children, and when a link of the chain dies, the kernel gives its children, in the same step, to us or
//! to a subreaper further down the chain. So *no children* means *no descendants*, and nobody is left to
//! make new ones. In the warden, `wait` says that there are no children (`ECHILD`). In run, which may have
//! other children, the kernel's list and a look at all processes must both show none that was adopted.
//!
//! Does not guarantee to end a process of another user or one that hangs in the kernel: those are
//! [`Survivor`]s.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, pidfd_open, pidfd_send_signal, wait, waitpid,
};

use crate::child_registry::ChildRegistry;
use crate::process_tree::{self, ProcessId, ProcessTree};

/// Between two passes: long enough for killed processes to go, short beside any margin.
const PAUSE_MIN: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// `__WALL` of wait(2): also children that do not announce their end by SIGCHLD.
const ALL_CHILDREN: WaitOptions = WaitOptions::from_bits_retain(0x4000_0000);

/// A descendant that is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// Its command name.
    pub name: String,
    /// The system refused the signal: it belongs to another user.
    pub refused: bool,
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.refused { ": it belongs to another user" } else { "" };
        write!(f, "process {} ({}) does not end{why}", self.pid, self.name)
    }
}

/// Whose descendants are swept.
pub(crate) enum Reach {
    /// All of this process: the warden, with CMD and the validator; the validator's keeper.
    Everything,
    /// Those that are not below a child of this process's child registry: in run, all that it adopted; in the
    /// warden, CMD without the validator.
    Adopted(ChildRegistry),
}

/// What one pass found.
#[derive(Debug)]
pub(crate) struct Pass {
    /// No descendant within reach exists.
    pub(crate) clear: bool,
    /// The processes that existed when the pass began. Empty does not mean clear.
    pub(crate) survivors: Vec<Survivor>,
    /// Children that were reaped, with their status.
    pub(crate) reaped: Vec<(Pid, WaitStatus)>,
}

impl Reach {
    /// Kills every descendant within reach once, parents before children, and reaps.
    pub(crate) fn pass(&self) -> Pass {
        let survivors = self.signal(&[Signal::KILL]);
        let (no_children, reaped) = match self {
            Self::Everything => reap_everything(),
            Self::Adopted(registry) => reap_adopted(*registry),
        };
        Pass { clear: no_children, survivors, reaped }
    }

    /// Sends the signals to every descendant within reach, parents before children, so that no parent lives
    /// to replace a child.
    pub(crate) fn signal(&self, signals: &[Signal]) -> Vec<Survivor> {
        // What cannot be read cannot be signalled; the pass is then not clear, and the next one tries again.
        let Ok(tree) = ProcessTree::look() else { return Vec::new() };
        let me = getpid();
        let roots = match self {
            Self::Everything => tree.children(me),
            Self::Adopted(registry) => registry.adopted(&tree.children(me)),
        };
        signal_trees(&tree, me, roots, signals)
    }
}

/// Sends SIGKILL to what descends from one of our children, but not to the child itself.
pub(crate) fn kill_below(child: Pid) {
    let Ok(tree) = ProcessTree::look() else { return };
    signal_trees(&tree, child, tree.children(child), &[Signal::KILL]);
}

/// Sends SIGKILL to one of our children and to what descends from it.
pub(crate) fn kill_tree(child: Pid) {
    let Ok(tree) = ProcessTree::look() else { return };
    signal_trees(&tree, getpid(), vec![child], &[Signal::KILL]);
}

/// Waits between passes, longer and longer.
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Self {
        Self(PAUSE_MIN)
    }

    pub(crate) fn pause(&mut self) {
        std::thread::sleep(self.0);
        self.0 = (self.0 * 2).min(PAUSE_MAX);
    }
}

/// Visits the trees from the top, below `me`, which adopts what is orphaned in them. Bound: the number of processes that exist.
fn signal_trees(tree: &ProcessTree, me: Pid, roots: Vec<Pid>, signals: &[Signal]) -> Vec<Survivor> {
    let mut queue: VecDeque<(Pid, Pid)> = roots.into_iter().map(|root| (root, me)).collect();
    let mut seen = HashSet::new();
    let mut survivors = Vec::new();
    while let Some((pid, parent)) = queue.pop_front() {
        if !seen.insert(pid) {
            continue;
        }
        // Opened before it is looked at: if the pid is then given to another, the handle still means the
        // process that is gone, and the signal reaches nobody.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Some(stat) = process_tree::stat(pid) else { continue };
        if stat.parent != Some(parent) && stat.parent != Some(me) {
            continue;
        }
        // Read before the signal: the children of a process that dies move elsewhere.
        queue.extend(children_of(tree, stat.process).into_iter().map(|child| (child, pid)));
        let refused = signals.iter().any(|signal| pidfd_send_signal(&handle, *signal) == Err(Errno::PERM));
        survivors.push(Survivor { pid: pid.as_raw_pid().cast_unsigned(), name: stat.name, refused });
    }
    survivors
}

/// The children of this very process, not of one that was given its pid.
fn children_of(tree: &ProcessTree, process: ProcessId) -> Vec<Pid> {
    let children = tree.children(process.pid);
    let same = process_tree::stat(process.pid).is_some_and(|stat| stat.process == process);
    if same { children } else { Vec::new() }
}

/// Reaps all dead children; `true` if no children at all are left.
pub(crate) fn reap_everything() -> (bool, Vec<(Pid, WaitStatus)>) {
    let mut reaped = Vec::new();
    loop {
        match wait(WaitOptions::NOHANG | ALL_CHILDREN) {
            Ok(Some(dead)) => reaped.push(dead),
            Ok(None) => return (false, reaped),
            Err(Errno::INTR) => {}
            Err(error) => return (error == Errno::CHILD, reaped),
        }
    }
}

/// Reaps dead adopted children and leaves run's own to whoever waits for them; `true` if no adopted ones
/// are left.
fn reap_adopted(registry: ChildRegistry) -> (bool, Vec<(Pid, WaitStatus)>) {
    let me = getpid();
    let mut reaped = Vec::new();
    let Ok(mut tree) = ProcessTree::look() else { return (false, reaped) };
    // Bound: each round but the last takes a process away.
    loop {
        let before = reaped.len();
        let dead = |pid: Pid| waitpid(Some(pid), WaitOptions::NOHANG).ok().flatten();
        reaped.extend(registry.adopted(&tree.children(me)).into_iter().filter_map(dead));
        let Ok(next) = ProcessTree::look() else { return (false, reaped) };
        tree = next;
        if reaped.len() == before {
            break;
        }
    }
    // The lists are kept per thread and can hide a child while a thread ends or another child is reaped; a
    // look at all processes does not depend on threads. Both together must come out empty.
    let none_listed = registry.adopted(&tree.children(me)).is_empty();
    let none_seen = || {
        process_tree::scan().is_ok_and(|by_parent| {
            by_parent.get(&me).is_none_or(|children| registry.adopted(children).is_empty())
        })
    };
    (none_listed && none_seen(), reaped)
}
