//! What is done after a swap was answered, so that a process that ends right after it leaves nothing half done.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::store::Inner;

/// What is still being done for swaps that were answered.
#[derive(Default)]
pub(crate) struct Chores {
    under_way: Mutex<usize>,
    done: Condvar,
}

/// One swap with all that belongs to it; over when this is dropped.
pub(crate) struct Chore(pub(crate) Arc<Inner>);

impl Chore {
    /// What comes after it nobody needs to wait for.
    pub(crate) fn end(self) -> Arc<Inner> {
        Arc::clone(&self.0)
    }
}

impl Drop for Chore {
    fn drop(&mut self) {
        *self.0.chores.under_way.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.chores.done.notify_all();
    }
}

impl Chores {
    pub(crate) fn begin(inner: &Arc<Inner>) -> Chore {
        *inner.chores.under_way.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Chore(Arc::clone(inner))
    }

    /// How many are not over.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        *self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is left to do: a few files to write and remove, none to sync. Not for long, if the disk is sick.
    pub(crate) fn finish(&self) {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = Duration::from_millis(500);
        let _ = self.done.wait_timeout_while(under_way, bound, |under_way| *under_way > 0);
    }
}
