//! The task that renews a leadership, and what it shares with its holder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use baton_api::{Backoff, Patience};
use baton_election::command::Renew;
use baton_election::document::{Leader, Phase};
use baton_election::lease::renewal_interval;
use baton_election::time::{Moment, Span};
use baton_election::{Answer, Credential, ElectionName, Margins, Refusal, Tenure, TenureState};
use baton_store::{BoxStream, Change, Key, StoreError, boot};
use futures_util::StreamExt;
use tokio::sync::watch;

use crate::coordinator::{Coordinator, Renewed};
use crate::error::Error;
use crate::grant::Grant;
use crate::leadership::Validity;
use crate::lease_state::{LeaseState, Status};
use crate::region::Region;

/// When a leader puts its own transition into the history: not at once, since it has better things to do.
const RECORD_AFTER: Span = Span::millis(50);

/// What the holder and the renewing task share. `ensure` reads it without a lock.
pub(crate) struct Shared {
    pub(crate) lease: LeaseState,
    /// The region under which it leads, if it leads under one.
    pub(crate) region: Option<Region>,
    /// The deadline of its own lease in nanoseconds on the boot-time clock; the lease state has the region's if that is earlier.
    pub(crate) lease_until: AtomicU64,
    pub(crate) progress: AtomicBool,
    pub(crate) spent_tokens: AtomicU64,
    /// In nanoseconds from the grant until the work began; zero until then.
    pub(crate) promotion: AtomicU64,
    pub(crate) phase: std::sync::Mutex<Option<Phase>>,
    pub(crate) validity: watch::Sender<Validity>,
    /// Told to the renewing task: renew at once.
    pub(crate) nudge: tokio::sync::Notify,
}

impl Shared {
    /// Tells of jeopardy and of the loss in time, whatever the renewing does: a store that hangs must not hide them.
    ///
    /// Returns why it is lost. `reserve` is what is left of the lease when a renewal is overdue.
    async fn run_out(&self, reserve: Span) -> String {
        // A short lease of a region leaves little at all times.
        let of_region =
            self.region.as_ref().map(|region| Margins::STANDARD.usable(region.ttl()).scaled(1, 2));
        let reserve = of_region.map_or(reserve, |of_region| reserve.min(of_region));
        loop {
            let deadline = self.lease.deadline();
            let now = boot::now();
            if now >= deadline {
                return self.why_run_out();
            }
            let overdue = now >= deadline - reserve;
            if overdue {
                self.lease.overdue();
            }
            let until = if overdue { deadline } else { deadline - reserve };
            if let Err(error) = boot::sleep_until(until).await {
                return format!("the clock cannot be waited for: {error}");
            }
        }
    }
}

impl Shared {
    fn why_run_out(&self) -> String {
        if let Some(why) = self.region.as_ref().and_then(Region::lost) {
            return why;
        }
        match &self.region {
            Some(region) if region.deadline() <= self.lease.deadline() => {
                format!("the lease of {} was not renewed in time", region.election())
            }
            Some(_) | None => self.lease.why_not_renewed(),
        }
    }

    /// What lease and region allow.
    fn allowed(&self) -> Moment {
        let own = Moment::from_nanos(self.lease_until.load(Ordering::Acquire));
        self.region.as_ref().map_or(own, |region| own.min(region.deadline()))
    }

    /// Follows the region: what it leads ends with it, and lasts as long as it lasts. Returns why it is lost.
    async fn follow_region(&self) -> String {
        let Some(mut region) = self.region.clone() else { return std::future::pending().await };
        loop {
            let (from, to) = (self.lease.deadline(), self.allowed());
            // What is lost has no deadline that could move.
            if boot::now() >= from.min(to) {
                return self.why_run_out();
            }
            if from != to {
                if !self.lease.moved(from, to) {
                    return self.why_run_out();
                }
                self.validity.send_modify(|validity| validity.deadline = to);
            }
            if let Some(why) = region.changed().await {
                return why;
            }
        }
    }
}

/// The task that renews.
pub(crate) struct Renewer {
    coordinator: Coordinator,
    election: ElectionName,
    credential: Credential,
    granted_at: Moment,
    /// When the document, as it was last heard of, reaches a limit by time.
    limit_at: Option<Moment>,
    tenure: Tenure,
    shared: Arc<Shared>,
}

impl Drop for Renewer {
    /// Whatever ends the task, the leadership is not renewed from then on.
    fn drop(&mut self) {
        self.shared.lease.lose("its renewals have stopped");
    }
}

impl Renewer {
    pub(crate) fn new(
        coordinator: &Coordinator,
        election: &ElectionName,
        grant: &Grant,
        granted_at: Moment,
        tenure: Tenure,
        shared: &Arc<Shared>,
    ) -> Renewer {
        Renewer {
            coordinator: coordinator.clone().patient(Patience { retries: Some(0), ..Patience::default() }),
            election: election.clone(),
            credential: grant.credential,
            granted_at,
            limit_at: grant.document.limit_in().map(|limit| granted_at + limit),
            tenure,
            shared: Arc::clone(shared),
        }
    }

    pub(crate) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let reserve = self.tenure.deadline().since(self.tenure.jeopardy_at());
        let why = tokio::select! {
            why = self.renew_until_lost() => why,
            why = shared.run_out(reserve) => why,
            why = shared.follow_region() => why,
        };
        shared.lease.lose(&why);
    }

    async fn renew_until_lost(&mut self) -> String {
        let key = Key::Election(self.election.clone());
        let watch = within(self.due(), self.coordinator.backend.watch(&key)).await;
        let mut changes: BoxStream<Change> = match watch {
            Some(Ok(changes)) => changes,
            Some(Err(_)) | None => Box::pin(futures_util::stream::pending()),
        };
        let mut recorded = false;
        loop {
            let due = self.due();
            tokio::select! {
                _ = boot::sleep_until(self.granted_at + RECORD_AFTER), if !recorded => {
                    // One try on time; the next comes with the next renewal, and the successor makes up for both.
                    recorded = true;
                    let _ = within(due, self.record()).await;
                    continue;
                }
                slept = boot::sleep_until(due) => if let Err(error) = slept {
                    return format!("the clock cannot be waited for: {error}");
                },
                () = self.shared.nudge.notified() => {}
                change = changes.next() => match change {
                    // Our own renewals are heard of too; only a change of leader concerns us.
                    Some(_) if within(due, self.still_ours()).await == Some(true) => continue,
                    Some(_) => {}
                    None => changes = Box::pin(futures_util::stream::pending()),
                },
            }
            if let Err(why) = self.renew().await {
                return why;
            }
            let _ = within(self.due(), self.record()).await;
        }
    }

    /// When the next renewal is due: in time, and as soon as it shows that a limit is reached.
    fn due(&self) -> Moment {
        self.limit_at.into_iter().fold(self.tenure.renew_at(), Moment::min)
    }

    async fn still_ours(&self) -> bool {
        match self.coordinator.view(&self.election).await {
            Ok(view) => view.document.is_some_and(|document| {
                let leader = document.leader.as_ref();
                let awaiting = document.state == baton_election::State::AwaitingApproval;
                leader.is_some_and(|leader| self.is_ours(leader))
                    && awaiting == self.shared.lease.is_awaiting()
            }),
            Err(_) => true,
        }
    }

    fn is_ours(&self, leader: &Leader) -> bool {
        leader.incarnation == self.coordinator.backend.incarnation_of(&self.election, &self.credential)
            && leader.epoch == self.shared.lease.token()
    }

    /// Puts this leadership's transition, as it stands, into the history, so that the successor need not.
    async fn record(&self) -> Result<(), Error> {
        Ok(self.coordinator.backend.enter_history(&self.election).await?)
    }

    /// Renews, again and again if the store fails, until it is answered or too late.
    async fn renew(&mut self) -> Result<(), String> {
        // A lease is not lost to a wait that was longer than what made it necessary: many tries fit into what is left of it.
        let longest = self.tenure.ttl().scaled(1, 20).min(Span::secs(1));
        let mut backoff = Backoff::new(Patience { longest, ..Patience::default() }.endless());
        loop {
            let progress = self.shared.progress.swap(false, Ordering::AcqRel);
            let patience = boot::now() + renewal_interval(self.tenure.ttl());
            let answered = within(patience, self.ask(progress)).await;
            match answered.unwrap_or_else(|| Err(self.unanswered())) {
                Ok(renewed) => return self.answered(&renewed),
                Err(Error::Refused(refusal)) => return Err(refused(&refusal)),
                Err(error) => {
                    self.shared.progress.fetch_or(progress, Ordering::AcqRel);
                    self.overdue(&error)?;
                }
            }
            let delay = backoff.next().unwrap_or(Span::secs(1));
            let until = (boot::now() + delay).min(self.tenure.deadline());
            boot::sleep_until(until).await.map_err(|error| error.to_string())?;
        }
    }

    /// Renews once, showing the region as it stands.
    async fn ask(&self, progress: bool) -> Result<Renewed, Error> {
        let mut renewal = self.renewal(progress);
        if let Some(region) = &self.shared.region {
            renewal.region = Some(region.shown_to(&self.coordinator).await?);
        }
        self.coordinator.renew(&self.election, &renewal).await
    }

    fn unanswered(&self) -> Error {
        let (location, why) = (self.coordinator.backend.location(), "it does not answer".to_string());
        StoreError::Unknown { location, why }.into()
    }

    fn renewal(&self, progress: bool) -> Renew {
        let promotion = self.shared.promotion.load(Ordering::Acquire);
        let spent = self.shared.spent_tokens.load(Ordering::Acquire);
        let phase = *self.shared.phase.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Renew {
            epoch: self.shared.lease.token(),
            credential: self.credential,
            progress,
            spent_tokens: (spent > 0).then_some(spent),
            phase,
            promotion: (promotion > 0).then(|| Span::nanos(promotion)),
            region: None,
        }
    }

    fn answered(&mut self, renewed: &Renewed) -> Result<(), String> {
        match &renewed.answer {
            Answer::Renewed { epoch, awaiting_approval, .. } => {
                let (now, before) = (boot::now(), self.shared.lease.deadline());
                let too_late = || Err("a renewal was answered after the deadline".to_string());
                if self.tenure.renewed(renewed.asked_at, now) == TenureState::Lost {
                    return too_late();
                }
                self.tenure.lasts(renewed.ttl.unwrap_or(self.tenure.ttl()));
                self.limit_at = renewed.limit_in.map(|limit| now + limit);
                self.shared.lease.heard(*epoch, *awaiting_approval);
                self.shared.lease_until.store(self.tenure.deadline().as_nanos(), Ordering::Release);
                let deadline = self.shared.allowed();
                // What is lost has no deadline that could move.
                if now >= before || !self.shared.lease.renewed(before, deadline) {
                    return too_late();
                }
                self.shared.validity.send_replace(Validity { token: *epoch, deadline });
                Ok(())
            }
            Answer::Ended { cause, reason } => Err(format!("it was ended ({cause}): {reason}")),
            other => unreachable!("a renewal is answered as one, not with {other:?}"),
        }
    }

    fn overdue(&mut self, error: &Error) -> Result<(), String> {
        match self.tenure.standing(boot::now()) {
            TenureState::Lost => Err(failed(error)),
            TenureState::Jeopardy => {
                self.shared.lease.tell(Status::Jeopardy(failed(error)));
                Ok(())
            }
            TenureState::Safe | TenureState::Offered => Ok(()),
        }
    }
}

/// What this future gives, if it gives it in time. Nothing may delay a renewal.
pub(crate) async fn within<T>(until: Moment, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        _ = boot::sleep_until(until) => None,
    }
}

/// Why a renewal did not succeed. A refusal is not the last word: the token or the certificate may be replaced before the deadline.
fn failed(error: &Error) -> String {
    match error {
        Error::Store(StoreError::Refused { place, why, .. }) => format!("{place} refuses renewals: {why}"),
        other => other.to_string(),
    }
}

fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Stale { why, .. } => why.clone(),
        other => other.to_string(),
    }
}
