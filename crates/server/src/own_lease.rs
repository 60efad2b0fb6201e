//! A server's own lease: whether it may still answer, and write what no take-over protects.
//!
//! Elections are protected by the store: the next server takes each over by a swap. Items, fences, logs and tokens are not, so that they are written only while
//! this lease holds. Does not guarantee that a swap which was begun in time lands in time: what is held up on its way to the store may land after the next
//! server's first look. It then changes only what that server has not written, since it is a swap too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use baton::Leadership;

/// What one server may do, for one turn as the active one.
pub(crate) struct OwnLease {
    /// None for a server that is alone with its store. Not kept alive from here: what is still under way must not renew it.
    lead: Option<Weak<Leadership>>,
    ended: AtomicBool,
}

impl OwnLease {
    /// Of a server that is alone with its store: it always holds.
    pub(crate) fn not_needed() -> OwnLease {
        OwnLease { lead: None, ended: AtomicBool::new(false) }
    }

    /// Of the active one of several, as long as somebody keeps the leadership.
    pub(crate) fn of(lead: &Arc<Leadership>) -> OwnLease {
        OwnLease { lead: Some(Arc::downgrade(lead)), ended: AtomicBool::new(false) }
    }

    /// The turn is over, whatever is left of the lease.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether it holds at this moment. Once it was over, it never does again.
    pub(crate) fn holds(&self) -> bool {
        let lasts = |lead: &Weak<Leadership>| lead.upgrade().is_some_and(|lead| lead.ensure(Duration::ZERO));
        !self.ended.load(Ordering::Acquire) && self.lead.as_ref().is_none_or(lasts)
    }
}
