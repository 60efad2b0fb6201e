//! The state of a lease, shared by the leader and the task that renews it.
//!
//! Guarantees that what is lost stays lost: a renewal that is answered late moves no deadline, and whoever was told that the deadline is past
//! is never told otherwise. Local: no IO, no lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use baton_election::time::Moment;
use baton_election::{Epoch, Margins, Tenure};
use baton_store::boot;
use tokio::sync::watch;

use crate::error::Error;
use crate::grant::Grant;

/// Why a leadership is in jeopardy or lost, where nothing else is known.
const UNANSWERED: &str = "no renewal was answered in time";

/// How a leadership stands, as told to those who listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The last renewal came back in time.
    Safe,
    /// A renewal is overdue; the lease still holds.
    Jeopardy(String),
    /// The lease holds, but the token is refused until an operator approves.
    AwaitingApproval,
    /// It is over.
    Lost(String),
}

/// The state of a lease, shared by its holder and the task that renews it.
pub(crate) struct LeaseState {
    /// The deadline in nanoseconds on the boot-time clock; zero once it is lost.
    deadline: AtomicU64,
    epoch: AtomicU64,
    /// The token is refused until an operator approves.
    awaiting: AtomicBool,
    status: watch::Sender<Status>,
}

impl LeaseState {
    /// A leader's with this grant, unless it was heard of too late.
    pub(crate) fn begin(grant: &Grant) -> Result<(LeaseState, Tenure), Error> {
        let tenure = Tenure::granted(grant.asked_at(), grant.ttl, Margins::STANDARD);
        let deadline = grant.deadline();
        if boot::now() >= deadline {
            return Err(Error::Lost("the grant arrived after its own deadline".to_string()));
        }
        let state = LeaseState {
            deadline: AtomicU64::new(deadline.as_nanos()),
            epoch: AtomicU64::new(grant.epoch.0),
            awaiting: AtomicBool::new(false),
            status: watch::Sender::new(Status::Safe),
        };
        Ok((state, tenure))
    }

    pub(crate) fn token(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    pub(crate) fn is_awaiting(&self) -> bool {
        self.awaiting.load(Ordering::Acquire)
    }

    /// Whether it surely leads for at least `span` more.
    pub(crate) fn ensure(&self, span: Duration) -> bool {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let now = boot::now().as_nanos();
        let until = self.deadline.load(Ordering::Acquire);
        if now >= until {
            // A renewal on its way comes too late.
            let _ = self.deadline.compare_exchange(until, 0, Ordering::AcqRel, Ordering::Acquire);
        }
        now.saturating_add(span) < until && !self.is_awaiting()
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Why it was not renewed in time.
    pub(crate) fn why_not_renewed(&self) -> String {
        match &*self.status.borrow() {
            Status::Jeopardy(why) | Status::Lost(why) => why.clone(),
            // It was this process that stood still.
            Status::Safe | Status::AwaitingApproval => UNANSWERED.to_string(),
        }
    }

    /// Waits until it is lost, and says why.
    pub(crate) async fn lost(&self) -> String {
        let mut status = self.status.subscribe();
        loop {
            if let Status::Lost(why) = &*status.borrow_and_update() {
                return why.clone();
            }
            if status.changed().await.is_err() {
                return "the renewing task is gone".to_string();
            }
        }
    }

    /// What an operator thinks of it, as it was last heard.
    pub(crate) fn heard(&self, token: Epoch, awaiting: bool) {
        self.epoch.store(token.0, Ordering::Release);
        self.awaiting.store(awaiting, Ordering::Release);
    }

    /// An operator must approve, or need not.
    pub(crate) fn awaits(&self, awaiting: bool) {
        self.awaiting.store(awaiting, Ordering::Release);
    }

    /// Its deadline moves, unless it is lost. Says whether it did.
    pub(crate) fn moved(&self, from: Moment, to: Moment) -> bool {
        let (from, to) = (from.as_nanos(), to.as_nanos());
        self.deadline.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// It was renewed: its deadline moves, unless it is lost. Says whether it did.
    pub(crate) fn renewed(&self, from: Moment, to: Moment) -> bool {
        let moved = self.moved(from, to);
        if moved {
            self.tell(if self.is_awaiting() { Status::AwaitingApproval } else { Status::Safe });
        }
        moved
    }

    /// Tells how it stands, unless it is lost.
    pub(crate) fn tell(&self, status: Status) {
        self.status.send_if_modified(|old| {
            let changed = *old != status && !matches!(old, Status::Lost(_));
            if changed {
                *old = status;
            }
            changed
        });
    }

    /// A renewal is overdue. What is known of it already stands.
    pub(crate) fn overdue(&self) {
        self.status.send_if_modified(|status| {
            let safe = *status == Status::Safe;
            if safe {
                *status = Status::Jeopardy(UNANSWERED.to_string());
            }
            safe
        });
    }

    /// It surely leads no longer; why is told by another.
    pub(crate) fn leave(&self) {
        self.deadline.store(0, Ordering::Release);
    }

    /// It is over. The first reason stands.
    pub(crate) fn lose(&self, why: &str) {
        self.leave();
        self.tell(Status::Lost(why.to_string()));
    }
}
