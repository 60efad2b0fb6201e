//! Run's own children, told apart from those it adopts.
//!
//! Run is a child subreaper, so that what a dead warden leaves behind becomes run's child. A seizure must
//! kill exactly those. The rule: **every child that was not started through the household is adopted.**
//! Forgetting to register a child kills one process too many at a seizure and never one too few.
//!
//! Assumes that run starts its other children through [`Household::spawn`]. Guarantees that these and their
//! descendants are left alone. Does not guarantee that for a descendant which left its parent (a daemon):
//! once adopted, nothing tells it from one of CMD's.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, getpid, set_child_subreaper};

use crate::family::{self, Kin};

/// Makes orphaned descendants of this process its children. [`Household::open`] does it too.
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

/// The children that run started itself.
#[derive(Clone, Copy)]
pub struct Household {
    own: &'static Mutex<Vec<Kin>>,
}

/// One for the process, as its children are: two lists would each take the other's for adopted.
static OWN: Mutex<Vec<Kin>> = Mutex::new(Vec::new());

impl Household {
    /// Makes this process a child subreaper and gives its household, the same at every call.
    ///
    /// # Errors
    /// What prctl(2) says; nothing has changed then.
    pub fn open() -> io::Result<Self> {
        become_subreaper()?;
        Ok(Self { own: &OWN })
    }

    /// Starts a child that a seizure leaves alone.
    ///
    /// # Errors
    /// Those of `spawn`; no child has been started then.
    pub fn spawn<C: ChildPid>(&self, spawn: impl FnOnce() -> io::Result<C>) -> io::Result<C> {
        // Held while the child is started, so that no seizure sees it unregistered.
        let mut own = self.lock();
        let child = spawn()?;
        own.retain(|kin| is_there(*kin));
        let stat = child.child_pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        own.extend(stat.and_then(family::stat).map(|stat| stat.kin));
        Ok(child)
    }

    /// Those of our children that were not started by us.
    pub(crate) fn adopted(&self, children: &[Pid]) -> Vec<Pid> {
        let own = self.lock();
        let is_own = |pid: &Pid| own.iter().any(|kin| kin.pid == *pid && is_there(*kin));
        children.iter().copied().filter(|pid| !is_own(pid)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kin>> {
        // The list is whole between any two statements, also where a panic left it.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_there(kin: Kin) -> bool {
    family::stat(kin.pid).is_some_and(|stat| stat.kin == kin)
}
