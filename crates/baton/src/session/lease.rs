//! A lease that rides on a session, as its holder sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use baton_election::document::Document;
use baton_election::lease::renewal_interval;
use baton_election::time::Moment;
use baton_election::{Credential, ElectionName, Epoch, Incarnation, Margins, Standing, Tenure};
use baton_store::boot;
use baton_store::sessions::{Notified, Ride, Which};
use tokio::sync::watch;

use super::Inner;
use crate::coordinator::Grant;
use crate::error::Error;
use crate::leadership::{Status, lost, surely};

/// A leadership whose lease rides on a session. Dropping it lets the lease run out; [`Riding::release`] is quicker.
pub struct Riding {
    inner: Arc<Inner>,
    election: ElectionName,
    incarnation: Incarnation,
    granted: Epoch,
    shared: Arc<Shared>,
}

/// What the holder and the session share. `ensure` reads it without a lock.
pub(super) struct Shared {
    /// The deadline in nanoseconds on the boot-time clock; zero once it is lost.
    deadline: AtomicU64,
    epoch: AtomicU64,
    awaiting: AtomicBool,
    status: watch::Sender<Status>,
}

/// A lease, as the session keeps it.
pub(super) struct Lease {
    pub(super) ride: Ride,
    pub(super) tenure: Tenure,
    pub(super) shared: Arc<Shared>,
    /// Whether the server knows that it rides.
    pub(super) confirmed: bool,
}

impl Shared {
    pub(super) fn lose(&self, why: &str) {
        self.deadline.store(0, Ordering::Release);
        self.status.send_if_modified(|status| {
            let first = !matches!(status, Status::Lost(_));
            if first {
                *status = Status::Lost(why.to_string());
            }
            first
        });
    }

    fn tell(&self, status: Status) {
        self.status.send_if_modified(|old| {
            let changed = *old != status && !matches!(old, Status::Lost(_));
            if changed {
                *old = status;
            }
            changed
        });
    }
}

impl Lease {
    /// It was renewed by a heartbeat that was sent at this moment. False if it is lost all the same.
    pub(super) fn renewed(&mut self, asked_at: Moment) -> bool {
        let before = self.tenure.deadline().as_nanos();
        if self.tenure.renewed(asked_at, boot::now()) == Standing::Lost {
            return false;
        }
        let after = self.tenure.deadline().as_nanos();
        let moved = self.shared.deadline.compare_exchange(before, after, Ordering::AcqRel, Ordering::Acquire);
        if moved.is_ok() {
            let awaiting = self.shared.awaiting.load(Ordering::Acquire);
            self.shared.tell(if awaiting { Status::AwaitingApproval } else { Status::Safe });
        }
        moved.is_ok()
    }

    /// How it stands with an operator. A token that rose is told to the server by its new number.
    pub(super) fn changed(&mut self, epoch: Epoch, awaiting: bool) {
        self.shared.awaiting.store(awaiting, Ordering::Release);
        self.shared.epoch.store(epoch.0, Ordering::Release);
        if self.ride.token != epoch {
            (self.ride.token, self.confirmed) = (epoch, false);
        }
    }

    /// Nobody says that its token is refused.
    pub(super) fn unchanged(&self) {
        self.shared.awaiting.store(false, Ordering::Release);
    }

    /// It could not be renewed. False if it is lost.
    pub(super) fn overdue(&mut self, why: &str) -> bool {
        match self.tenure.standing(boot::now()) {
            Standing::Lost => return false,
            Standing::Jeopardy => self.shared.tell(Status::Jeopardy(why.to_string())),
            Standing::Safe | Standing::Offered => {}
        }
        true
    }
}

impl Riding {
    pub(super) fn begin(inner: &Arc<Inner>, election: &ElectionName, grant: &Grant) -> Result<Riding, Error> {
        let tenure = Tenure::granted(grant.asked_at, grant.ttl, Margins::STANDARD);
        if boot::now() >= tenure.deadline() {
            return Err(Error::Lost("the grant arrived after its own deadline".to_string()));
        }
        let incarnation = grant.credential.incarnation;
        let ride = Ride { election: election.clone(), token: grant.epoch, incarnation };
        let shared = Arc::new(Shared {
            deadline: AtomicU64::new(tenure.deadline().as_nanos()),
            epoch: AtomicU64::new(grant.epoch.0),
            awaiting: AtomicBool::new(false),
            status: watch::Sender::new(Status::Safe),
        });
        let lease = Lease { ride, tenure, shared: Arc::clone(&shared), confirmed: false };
        let soon = {
            let mut state = inner.state();
            // An older one that the server ended, of which this session has not heard yet.
            state.end(election, "another lease of this session took its place");
            state.leases.insert(election.clone(), lease);
            renewal_interval(grant.ttl) < state.every
        };
        if soon {
            inner.nudge.notify_one();
        }
        let (inner, election) = (Arc::clone(inner), election.clone());
        Ok(Riding { inner, election, incarnation, granted: grant.epoch, shared })
    }

    /// The election.
    pub fn election(&self) -> &ElectionName {
        &self.election
    }

    /// The fencing token. It can rise under a running leadership when an operator approves.
    pub fn token(&self) -> Epoch {
        Epoch(self.shared.epoch.load(Ordering::Acquire))
    }

    /// Whether this agent surely leads for at least `span` more. Local: no IO, no lock.
    pub fn ensure(&self, span: Duration) -> bool {
        surely(&self.shared.deadline, span) && !self.shared.awaiting.load(Ordering::Acquire)
    }

    /// When the work must have stopped, on this machine's boot-time clock, unless a heartbeat renews it.
    pub fn deadline(&self) -> Moment {
        Moment::from_nanos(self.shared.deadline.load(Ordering::Acquire))
    }

    /// Waits until the leadership is lost, and says why.
    pub async fn lost(&self) -> String {
        lost(self.shared.status.subscribe()).await
    }

    /// How the leadership stands, and every change of it.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// What proves to be the holder of this lease. It is a secret.
    pub fn credential(&self) -> Credential {
        Credential { incarnation: self.incarnation, key: self.inner.key }
    }

    /// Gives the leadership back. The work under it has stopped.
    pub async fn release(self, reason: &str) -> Result<Document, Error> {
        self.leave();
        let reason = (!reason.is_empty()).then(|| reason.to_string());
        self.inner.coordinator.release(&self.election, self.token(), self.credential(), reason).await
    }

    /// The same, and waits for at most so long until followers know.
    pub async fn release_telling(
        self,
        reason: &str,
        notify: Duration,
    ) -> Result<(Document, Notified), Error> {
        self.leave();
        let reason = (!reason.is_empty()).then(|| reason.to_string());
        let coordinator = &self.inner.coordinator;
        coordinator.release_telling(&self.election, self.token(), self.credential(), reason, notify).await
    }

    /// No heartbeat renews it from here on.
    fn leave(&self) {
        let mut state = self.inner.state();
        let mine = |lease: &super::Lease| lease.ride.incarnation == self.incarnation;
        if state.leases.get(&self.election).is_some_and(mine) {
            state.end(&self.election, "it was given up");
        } else {
            // A heartbeat may be on its way that adds it.
            let token = Epoch(self.shared.epoch.load(Ordering::Acquire)).max(self.granted);
            state.dropping.push(Which { election: self.election.clone(), token });
        }
    }
}

impl Drop for Riding {
    fn drop(&mut self) {
        let state = self.inner.state();
        let mine = state.leases.get(&self.election).map(|lease| lease.ride.incarnation);
        drop(state);
        if mine == Some(self.incarnation) {
            self.leave();
        }
    }
}
