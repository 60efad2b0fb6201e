//! Run's own children, told apart from those it adopts.
//!
//! Run is a child subreaper, so that what a dead warden leaves behind becomes run's child. A seizure must
//! kill exactly those. The rule: **every child is adopted, unless it is in run's own session or was started through the child registry.**
//! The warden begins a session of its own before it starts CMD, and no process can join a session that exists: so nothing of CMD is ever
//! in run's session, and whatever run, its libraries and stores start is. A process that leaves the session and its parent (a daemon) is adopted.
//!
//! In the warden CMD shares the session. There only what was started through the child registry is its own: the validator's keeper.
//!
//! Guarantees that own children and their descendants are left alone, and that nothing of CMD is taken for own. Does not guarantee the first for a
//! daemon: once adopted, nothing tells it from one of CMD's.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, getpid, set_child_subreaper};

use crate::process_tree::{self, ProcessId, Session};

/// Makes orphaned descendants of this process its children. [`ChildRegistry::open`] does it too.
///
/// # Errors
/// What prctl(2) says; nothing has changed then.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// A handle to a child, as the standard library or tokio gives it.
pub trait ChildPid {
    /// Its process id, unless it has been waited for.
    fn child_pid(&self) -> Option<u32>;
}

impl ChildPid for std::process::Child {
    fn child_pid(&self) -> Option<u32> {
        Some(self.id())
    }
}

impl ChildPid for tokio::process::Child {
    fn child_pid(&self) -> Option<u32> {
        self.id()
    }
}

/// The children that this process started itself.
#[derive(Clone, Copy)]
pub struct ChildRegistry {
    own: &'static Mutex<Vec<ProcessId>>,
    /// The session in which all are own.
    session: Option<Session>,
}

/// One for the process, as its children are: two lists would each take the other's for adopted.
static OWN: Mutex<Vec<ProcessId>> = Mutex::new(Vec::new());

impl ChildRegistry {
    /// Makes this process a child subreaper and gives its child registry, the same at every call.
    ///
    /// # Errors
    /// What prctl(2) says, or that `/proc` does not show this process; nothing has changed then.
    pub fn open() -> io::Result<Self> {
        // Not by getsid(2): rustix panics at the 0 that it gives where the session's leader is outside of our pid namespace.
        let Some(stat) = process_tree::stat(getpid()) else {
            return Err(io::Error::other(
                "/proc does not show this process; it must be mounted, in this pid namespace",
            ));
        };
        become_subreaper()?;
        Ok(Self { own: &OWN, session: Some(stat.session) })
    }

    /// The child registry of a process whose session CMD shares.
    pub(crate) fn of_warden() -> Self {
        Self { own: &OWN, session: None }
    }

    /// Starts a child that a seizure leaves alone, whatever session it is in.
    ///
    /// # Errors
    /// Those of `spawn`; no child has been started then.
    pub fn spawn<C: ChildPid>(&self, spawn: impl FnOnce() -> io::Result<C>) -> io::Result<C> {
        // Held while the child is started, so that no seizure sees it unregistered.
        let mut own = self.lock();
        let child = spawn()?;
        own.retain(|process| is_there(*process));
        let stat = child.child_pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        own.extend(stat.and_then(process_tree::stat).map(|stat| stat.process));
        Ok(child)
    }

    /// Those of our children that were not started by us.
    pub(crate) fn adopted(&self, children: &[Pid]) -> Vec<Pid> {
        let own = self.lock();
        let in_session = |pid: &Pid| {
            self.session.is_some_and(|ours| process_tree::stat(*pid).is_some_and(|stat| stat.session == ours))
        };
        let is_own = |pid: &Pid| {
            own.iter().any(|process| process.pid == *pid && is_there(*process)) || in_session(pid)
        };
        children.iter().copied().filter(|pid| !is_own(pid)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ProcessId>> {
        // The list is whole between any two statements, also where a panic left it.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_there(process: ProcessId) -> bool {
    process_tree::stat(process.pid).is_some_and(|stat| stat.process == process)
}

#[cfg(test)]
mod tests {
    use super::ChildRegistry;
    use rustix::process::Pid;
    use std::process::Command;

    /// A store's helper is not known to the child registry; what has a session of its own may be CMD's.
    #[test]
    fn what_is_in_our_session_is_our_own_and_nothing_else_is() {
        let registry = ChildRegistry::open().unwrap();
        let mut helper = Command::new("sleep").arg("600").spawn().unwrap();
        let mut stranger = Command::new("setsid").args(["sleep", "600"]).spawn().unwrap();
        let pids = [Pid::from_child(&helper), Pid::from_child(&stranger)];
        let began = std::time::Instant::now();
        while registry.adopted(&pids).is_empty() {
            assert!(began.elapsed().as_secs() < 60, "never in a session of its own");
        }
        let adopted = registry.adopted(&pids);
        let in_warden = ChildRegistry::of_warden().adopted(&pids);
        for child in [&mut helper, &mut stranger] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(adopted, [pids[1]]);
        assert_eq!(in_warden, pids, "in the warden, CMD has the same session");
    }
}
