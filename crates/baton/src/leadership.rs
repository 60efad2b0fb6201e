//! A leadership, renewed in the background until it is lost, released or dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use baton_api::sessions::NotifyReport;
use baton_election::command::{Ending, Release};
use baton_election::document::{Checkpoint, Document, Phase};
use baton_election::time::Moment;
use baton_election::{AgentName, Answer, Credential, ElectionName, Epoch};
use baton_store::boot;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::coordinator::{Bid, CheckpointContent, Coordinator};
use crate::error::Error;
use crate::grant::Grant;
use crate::lease_state::{LeaseState, Status};
use crate::region::Region;
use crate::renewer::{Renewer, Shared};

/// The token of a leadership, and how long it is valid without another renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The token.
    pub token: Epoch,
    /// When the work must have stopped, on this machine's boot-time clock.
    pub deadline: Moment,
}

/// A leadership. Dropping it stops the renewals, and the lease runs out; [`Leadership::release`] is quicker.
pub struct Leadership {
    coordinator: Coordinator,
    election: ElectionName,
    agent: AgentName,
    credential: Credential,
    granted_at: Moment,
    grant: Grant,
    shared: Arc<Shared>,
    renewing: JoinHandle<()>,
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

impl Leadership {
    pub(crate) fn begin(
        coordinator: &Coordinator,
        election: &ElectionName,
        bid: &Bid,
        grant: Grant,
    ) -> Result<Leadership, Error> {
        let (lease, tenure) = LeaseState::begin(&grant)?;
        let deadline = lease.deadline();
        let shared = Arc::new(Shared {
            lease,
            region: grant.region.clone(),
            lease_until: AtomicU64::new(tenure.deadline().as_nanos()),
            progress: AtomicBool::new(false),
            spent_tokens: AtomicU64::new(0),
            promotion: AtomicU64::new(0),
            phase: std::sync::Mutex::new(None),
            validity: watch::Sender::new(Validity { token: grant.epoch, deadline }),
            nudge: tokio::sync::Notify::new(),
        });
        let granted_at = boot::now();
        let renewer = Renewer::new(coordinator, election, &grant, granted_at, tenure, &shared);
        Ok(Leadership {
            coordinator: coordinator.clone(),
            election: election.clone(),
            agent: bid.agent.clone(),
            credential: grant.credential,
            granted_at,
            grant,
            shared,
            renewing: tokio::spawn(renewer.run()),
        })
    }

    /// The fencing token. It can rise under a running leadership when an operator approves.
    pub fn token(&self) -> Epoch {
        self.shared.lease.token()
    }

    /// Whether this agent surely leads for at least `span` more. Local: no IO, no lock.
    pub fn ensure(&self, span: Duration) -> bool {
        self.shared.lease.ensure(span)
    }

    /// When the work must have stopped, on this machine's boot-time clock, unless a renewal comes.
    pub fn deadline(&self) -> Moment {
        self.shared.lease.deadline()
    }

    /// Waits until the leadership is lost, and says why.
    pub async fn lost(&self) -> String {
        self.shared.lease.lost().await
    }

    /// How the leadership stands, and every change of it.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.lease.status()
    }

    /// Why the lease was not renewed in time, in words: how the renewals fail, or that none was answered.
    pub fn why_not_renewed(&self) -> String {
        self.shared.lease.why_not_renewed()
    }

    /// Token and deadline, and every change of them.
    pub fn validity(&self) -> watch::Receiver<Validity> {
        self.shared.validity.subscribe()
    }

    /// The region under which it leads, if it leads under one.
    pub fn region(&self) -> Option<&Region> {
        self.shared.region.as_ref()
    }

    pub(crate) fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// The election.
    pub fn election(&self) -> &ElectionName {
        &self.election
    }

    /// The agent.
    pub fn agent(&self) -> &AgentName {
        &self.agent
    }

    /// What proves to be the holder of this lease. It is a secret.
    pub fn credential(&self) -> Credential {
        self.credential
    }

    /// The lease as it was granted.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Says that there was progress; the next renewal tells.
    pub fn progress(&self) {
        self.shared.progress.store(true, Ordering::Release);
    }

    /// Says how many model tokens were used since the grant; the next renewal tells.
    pub fn spent_tokens(&self, total: u64) {
        self.shared.spent_tokens.fetch_max(total, Ordering::AcqRel);
    }

    /// Says that the work has begun.
    pub fn serving(&self) {
        let since = boot::now().since(self.granted_at).as_nanos().max(1);
        let _ = self.shared.promotion.compare_exchange(0, since, Ordering::AcqRel, Ordering::Acquire);
        self.shared.nudge.notify_one();
    }

    /// Says how far this leader is; the next renewal tells, and it is sent at once.
    pub fn enter(&self, phase: Phase) {
        *self.shared.phase.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(phase);
        self.shared.nudge.notify_one();
    }

    /// Leaves something for the successor.
    pub async fn checkpoint(&self, content: &CheckpointContent) -> Result<Answer, Error> {
        let answer =
            self.coordinator.checkpoint(&self.election, self.token(), self.credential, content).await?;
        if self.shared.region.is_some() {
            // It restarted no clock: the next renewal would count the time before it as idle.
            self.progress();
        }
        if let Answer::Checkpointed { awaiting_approval: true, .. } = answer {
            self.shared.lease.awaits(true);
            self.shared.nudge.notify_one();
        }
        Ok(answer)
    }

    /// What the predecessor left, if anything.
    pub fn inherited(&self) -> Option<&Checkpoint> {
        self.grant.document.checkpoint.as_deref()
    }

    /// Takes on what the predecessor left.
    pub async fn acknowledge(&self, checkpoint: &Checkpoint) -> Result<Answer, Error> {
        let answer =
            self.coordinator.acknowledge(&self.election, self.token(), self.credential, checkpoint).await?;
        let mut said = self.shared.phase.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The acknowledgement is what ends it, and no later renewal may say otherwise.
        said.take_if(|phase| *phase == Phase::Synchronising);
        Ok(answer)
    }

    /// Gives the leadership back. The work under it has stopped.
    pub async fn release(self, reason: &str) -> Result<Option<Document>, Error> {
        self.leave(Ending::Stopped, reason).await
    }

    /// Gives the leadership back, since the work is done: nobody is missed from here on.
    pub async fn finish(self, reason: &str) -> Result<Option<Document>, Error> {
        self.leave(Ending::Finished, reason).await
    }

    async fn leave(self, ending: Ending, reason: &str) -> Result<Option<Document>, Error> {
        self.stop_renewing();
        self.coordinator.leave(&self.election, self.given_back(ending, reason)).await
    }

    /// Gives the leadership back, and then waits for at most so long until those who follow it know; needs a server.
    pub async fn leave_telling(
        self,
        ending: Ending,
        reason: &str,
        notify: Duration,
    ) -> Result<(Option<Document>, NotifyReport), Error> {
        self.stop_renewing();
        let release = self.given_back(ending, reason);
        self.coordinator.leave_telling(&self.election, release, notify).await
    }

    fn given_back(&self, ending: Ending, reason: &str) -> Release {
        let reason = (!reason.is_empty()).then(|| reason.to_string());
        Release { epoch: self.token(), credential: self.credential, reason, ending }
    }

    /// Gives the leadership back and keeps it for a successor for one lease. The work under it has stopped.
    pub async fn pass(self, to: &AgentName, reason: &str) -> Result<Option<Document>, Error> {
        self.stop_renewing();
        let reason = (!reason.is_empty()).then(|| reason.to_string());
        self.coordinator.pass(&self.election, self.token(), self.credential, to, reason).await
    }

    fn stop_renewing(&self) {
        self.shared.lease.leave();
        self.renewing.abort();
    }
}
