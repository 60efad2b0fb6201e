//! A lease that rides on a session, as its holder sees it.

use std::sync::Arc;
use std::time::Duration;

use baton_api::sessions::{LeaseRef, NotifyReport, SessionLease};
use baton_election::command::{Ending, Release};
use baton_election::document::Document;
use baton_election::lease::renewal_interval;
use baton_election::time::Moment;
use baton_election::{Credential, ElectionName, Epoch, Incarnation, Tenure, TenureState};
use baton_store::boot;
use tokio::sync::watch;

use super::Inner;
use crate::error::Error;
use crate::grant::Grant;
use crate::lease_state::{LeaseState, Status};

/// A leadership whose lease rides on a session. Dropping it lets the lease run out; [`SessionLeadership::release`] is quicker.
pub struct SessionLeadership {
    inner: Arc<Inner>,
    election: ElectionName,
    incarnation: Incarnation,
    granted: Epoch,
    state: Arc<LeaseState>,
}

/// A lease, as the session keeps it.
pub(super) struct Lease {
    pub(super) ride: SessionLease,
    pub(super) tenure: Tenure,
    pub(super) state: Arc<LeaseState>,
    /// Whether the server knows that it rides.
    pub(super) confirmed: bool,
}

impl Lease {
    /// It was renewed by a heartbeat that was sent at this moment. False if it is lost all the same.
    pub(super) fn renewed(&mut self, asked_at: Moment) -> bool {
        let before = self.tenure.deadline();
        self.tenure.renewed(asked_at, boot::now()) != TenureState::Lost
            && self.state.renewed(before, self.tenure.deadline())
    }

    /// How it stands with an operator. A token that rose is told to the server by its new number.
    pub(super) fn changed(&mut self, epoch: Epoch, awaiting: bool) {
        self.state.heard(epoch, awaiting);
        if self.ride.token != epoch {
            (self.ride.token, self.confirmed) = (epoch, false);
        }
    }

    /// Nobody says that its token is refused.
    pub(super) fn unchanged(&self) {
        self.state.awaits(false);
    }

    /// It could not be renewed. False if it is lost.
    pub(super) fn overdue(&mut self, why: &str) -> bool {
        match self.tenure.standing(boot::now()) {
            TenureState::Lost => return false,
            TenureState::Jeopardy => self.state.tell(Status::Jeopardy(why.to_string())),
            TenureState::Safe | TenureState::Offered => {}
        }
        true
    }
}

impl SessionLeadership {
    pub(super) fn begin(
        inner: &Arc<Inner>,
        election: &ElectionName,
        grant: &Grant,
    ) -> Result<SessionLeadership, Error> {
        let (state, tenure) = LeaseState::begin(grant)?;
        let incarnation = grant.credential.incarnation;
        let ride = SessionLease { election: election.clone(), token: grant.epoch, incarnation };
        let state = Arc::new(state);
        let lease = Lease { ride, tenure, state: Arc::clone(&state), confirmed: false };
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
        Ok(SessionLeadership { inner, election, incarnation, granted: grant.epoch, state })
    }

    /// The election.
    pub fn election(&self) -> &ElectionName {
        &self.election
    }

    /// The fencing token. It can rise under a running leadership when an operator approves.
    pub fn token(&self) -> Epoch {
        self.state.token()
    }

    /// Whether this agent surely leads for at least `span` more. Local: no IO, no lock.
    pub fn ensure(&self, span: Duration) -> bool {
        self.state.ensure(span)
    }

    /// When the work must have stopped, on this machine's boot-time clock, unless a heartbeat renews it.
    pub fn deadline(&self) -> Moment {
        self.state.deadline()
    }

    /// Waits until the leadership is lost, and says why.
    pub async fn lost(&self) -> String {
        self.state.lost().await
    }

    /// How the leadership stands, and every change of it.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.state.status()
    }

    /// What proves to be the holder of this lease. It is a secret.
    pub fn credential(&self) -> Credential {
        Credential { incarnation: self.incarnation, key: self.inner.key }
    }

    /// Gives the leadership back. The work under it has stopped.
    pub async fn release(self, reason: &str) -> Result<Option<Document>, Error> {
        self.give_back(Ending::Stopped, reason).await
    }

    /// Gives the leadership back, since the work is done: nobody is missed from here on.
    pub async fn finish(self, reason: &str) -> Result<Option<Document>, Error> {
        self.give_back(Ending::Finished, reason).await
    }

    async fn give_back(self, ending: Ending, reason: &str) -> Result<Option<Document>, Error> {
        self.leave();
        self.inner.coordinator.leave(&self.election, self.given_back(ending, reason)).await
    }

    /// Gives the leadership back, and waits for at most so long until followers know.
    pub async fn leave_telling(
        self,
        ending: Ending,
        reason: &str,
        notify: Duration,
    ) -> Result<(Option<Document>, NotifyReport), Error> {
        self.leave();
        let release = self.given_back(ending, reason);
        self.inner.coordinator.leave_telling(&self.election, release, notify).await
    }

    fn given_back(&self, ending: Ending, reason: &str) -> Release {
        let reason = (!reason.is_empty()).then(|| reason.to_string());
        Release { epoch: self.token(), credential: self.credential(), reason, ending }
    }

    /// No heartbeat renews it from here on.
    fn leave(&self) {
        let mut state = self.inner.state();
        let mine = |lease: &super::Lease| lease.ride.incarnation == self.incarnation;
        if state.leases.get(&self.election).is_some_and(mine) {
            state.end(&self.election, "it was given up");
        } else {
            // A heartbeat may be on its way that adds it.
            let token = self.state.token().max(self.granted);
            state.dropping.push(LeaseRef { election: self.election.clone(), token });
        }
    }
}

impl Drop for SessionLeadership {
    fn drop(&mut self) {
        let state = self.inner.state();
        let mine = state.leases.get(&self.election).map(|lease| lease.ride.incarnation);
        drop(state);
        if mine == Some(self.incarnation) {
            self.leave();
        }
    }
}
