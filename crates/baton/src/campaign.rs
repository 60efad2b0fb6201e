//! Waiting in line until this agent leads.

use baton_api::elections::{AskLease, Decides, Sighting, StartFrom};
use baton_api::{Backoff, Patience, jitter, served};
use baton_election::command::Acquire;
use baton_election::document::State;
use baton_election::lease::renewal_interval;
use baton_election::time::{Moment, Span};
use baton_election::{AgentName, Credential, Document, ElectionName, Epoch, Refusal};
use baton_store::{BoxStream, Change, Key, StoreError, boot};
use futures_util::StreamExt;

use crate::coordinator::{Bid, Coordinator, mint_credential, start_from};
use crate::error::Error;
use crate::grant::{Answered, Grant};
use crate::leadership::Leadership;
use crate::waiting::Note;

/// How long the second in line waits for the first to act, and so on down the line.
const STEP_DOWN_THE_LINE: Span = Span::millis(500);
/// How often a candidate looks even if nobody tells it of a change: a watch is a convenience, not a promise.
const LOOK_AGAIN: Span = Span::secs(10);
/// By when a leader has surely entered its leadership into the history, if it is well.
const ENTRY_IS_WRITTEN: Span = Span::millis(150);
/// A candidate that is refused within this span was not made to wait.
const ASKED_AT_ONCE: Span = Span::millis(200);
/// How long a candidate's record counts after its last beat.
const CANDIDACY: Span = Span::secs(15);

/// What an agent does to become the leader.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// What it asks for.
    pub bid: Bid,
    /// How long it waits; without it, for ever.
    pub wait: Option<Span>,
}

impl Campaign {
    /// Waits for ever.
    pub fn new(bid: Bid) -> Campaign {
        Campaign { bid, wait: None }
    }
}

/// Why a candidate waits, as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standby {
    /// Another leads, or its lease may still be running.
    Behind {
        /// Who.
        leader: AgentName,
        /// Its token.
        token: Epoch,
        /// How much longer its lease lasts unless it is renewed; the most that it can, where the store tells no ages.
        remaining: Span,
        /// Its leadership was ended; only its lease is waited for.
        ending: bool,
    },
    /// Something else, in words: a pause, an approval, a policy.
    Because(String),
    /// The store failed, or did not take what was written.
    Failing(String),
}

/// Whom to tell why a candidate waits. Told after every look; what is told twice is the same as before.
pub type TellStandby<'a> = &'a (dyn Fn(Standby) + Send + Sync);

/// What to do next, after a look.
enum Next {
    /// Ask for the lease, for this reason.
    Ask(Option<String>),
    /// Look again at a change, or at this moment.
    WaitUntil(Moment, &'static str),
}

/// Until when to wait, and why.
struct Wait {
    until: Moment,
    why: String,
    refusal: Option<Box<Refusal>>,
    /// How the store failed, if it did.
    failure: Option<StoreError>,
}

/// The run of one campaign, from its start to a grant or its end.
struct CampaignRun<'a> {
    coordinator: &'a Coordinator,
    election: &'a ElectionName,
    campaign: &'a Campaign,
    credential: Credential,
    /// When this wait began.
    since: Moment,
    /// When the candidacy must be renewed; none while it does not stand.
    enlist_at: Option<Moment>,
    /// Since when the election is known to be free.
    noticed_at: Option<Moment>,
    give_up_at: Option<Moment>,
    /// The epoch whose entry in the history was waited for once.
    entry_awaited: Option<Epoch>,
    /// Whether a change was just told of.
    changed: bool,
    /// Whether it has a place in the store's own line, behind another.
    waits_in_line: bool,
    /// When it last tried whether it could write.
    tried_at: Option<Moment>,
    /// Whom to tell why it waits.
    tell: Option<TellStandby<'a>>,
    /// That it waits, as others see it.
    note: Note,
}

impl Coordinator {
    /// Waits until this agent leads. Each call is a new incarnation.
    ///
    /// A store that is out of reach is waited for; one that is corrupt or refuses ends the campaign.
    pub async fn campaign(&self, election: &ElectionName, campaign: Campaign) -> Result<Leadership, Error> {
        let give_up_at = campaign.wait.map(|wait| boot::now() + wait);
        loop {
            match self.queue(election, &campaign, mint_credential()?, give_up_at, None).await {
                // It was granted and lost the lease before it could know of it: begin anew.
                Err(Error::Refused(Refusal::Stale { .. })) => {}
                outcome => return Leadership::begin(self, election, &campaign.bid, outcome?),
            }
        }
    }

    /// Waits until this credential's holder is granted the lease, without renewing it from then on.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if it was granted and over before this client knew of it: another credential must ask.
    pub async fn wait_for_grant(
        &self,
        election: &ElectionName,
        campaign: &Campaign,
        credential: Credential,
    ) -> Result<Grant, Error> {
        let give_up_at = campaign.wait.map(|wait| boot::now() + wait);
        self.queue(election, campaign, credential, give_up_at, None).await
    }

    /// The same, telling why it waits while it does. Whoever is granted the lease at once is told nothing.
    pub async fn wait_for_grant_telling(
        &self,
        election: &ElectionName,
        campaign: &Campaign,
        credential: Credential,
        tell: TellStandby<'_>,
    ) -> Result<Grant, Error> {
        let give_up_at = campaign.wait.map(|wait| boot::now() + wait);
        self.queue(election, campaign, credential, give_up_at, Some(tell)).await
    }

    async fn queue(
        &self,
        election: &ElectionName,
        campaign: &Campaign,
        credential: Credential,
        give_up_at: Option<Moment>,
        tell: Option<TellStandby<'_>>,
    ) -> Result<Grant, Error> {
        let mut run = CampaignRun {
            coordinator: self,
            election,
            campaign,
            credential,
            since: boot::now(),
            enlist_at: None,
            noticed_at: None,
            give_up_at,
            entry_awaited: None,
            changed: false,
            waits_in_line: false,
            tried_at: None,
            tell,
            note: Note::new(self, election, &campaign.bid.agent, credential),
        };
        let outcome = match &campaign.bid.region {
            None => run.wait().await,
            Some(region) => tokio::select! {
                outcome = run.wait() => outcome,
                why = region.over() => Err(Error::Lost(why)),
            },
        };
        if let (Err(Error::Lost(why)), Some(_)) = (&outcome, &campaign.bid.region) {
            // It may have been granted in this very moment; nothing was done under it, and if this fails, it runs out.
            let _ = self.hasty().give_up(election, credential, why).await;
        }
        // Only who was told to wait stands there: a credential that leads is not given up by a failure.
        if outcome.is_err() && run.waits_in_line {
            let _ = self.hasty().release(election, Epoch(0), credential, None).await;
        }
        if run.enlist_at.is_some() {
            run.stand_down().await;
        }
        match outcome {
            Ok(grant) if boot::now() >= grant.deadline() => Err(self.hand_back(election, &grant).await),
            outcome => outcome,
        }
    }

    /// Gives back a lease that was heard of too late to be used, even by a renewal. Nothing was done under it; if this fails, it runs
    /// out.
    async fn hand_back(&self, election: &ElectionName, grant: &Grant) -> Error {
        let why = "the grant was heard of too late".to_string();
        let _ = self.hasty().release(election, grant.epoch, grant.credential, Some(why.clone())).await;
        Refusal::Stale { shown: grant.epoch, current: grant.epoch, leader: None, why }.into()
    }

    /// The same, without patience: for what is only a courtesy.
    pub(crate) fn hasty(&self) -> Coordinator {
        self.clone().patient(Patience { retries: Some(0), ..Patience::default() })
    }

    /// Leads on a lease that was granted to this credential.
    pub fn lead(&self, election: &ElectionName, bid: &Bid, grant: Grant) -> Result<Leadership, Error> {
        Leadership::begin(self, election, bid, grant)
    }
}

impl Standby {
    fn of(refusal: &Refusal) -> Standby {
        match refusal {
            Refusal::Held { by: Some(by), epoch, remaining, ending } => Standby::Behind {
                leader: by.clone(),
                token: *epoch,
                remaining: *remaining,
                ending: ending.is_some(),
            },
            other => Standby::Because(other.to_string()),
        }
    }
}

impl CampaignRun<'_> {
    async fn wait(&mut self) -> Result<Grant, Error> {
        let key = Key::Election(self.election.clone());
        let mut changes = self.watch(&key).await;
        // Changes of what the store knows of itself, while everything is paused.
        let mut stops: Option<BoxStream<Change>> = None;
        let mut backoff = Backoff::new(Patience::default().endless());
        loop {
            let Wait { until, why, refusal, failure } = match self.advance().await {
                Ok(Ok(grant)) => return Ok(grant),
                Ok(Err(wait)) => {
                    backoff = Backoff::new(Patience::default().endless());
                    wait
                }
                Err(Error::Store(error)) if error.is_passing() => {
                    self.tell(|| Standby::Failing(error.to_string()));
                    let delay = backoff.next().unwrap_or(Span::secs(5));
                    Wait {
                        until: boot::now() + delay,
                        why: format!("the store fails: {error}"),
                        refusal: None,
                        failure: Some(error),
                    }
                }
                Err(error) => return Err(error),
            };
            let paused = matches!(refusal.as_deref(), Some(Refusal::Paused { .. }));
            if !paused {
                stops = None;
            } else if stops.is_none() && self.coordinator.decides() == Decides::Here {
                // That everything goes on changes no election which is not paused itself. What changed before this watch began shows at once.
                stops = Some(self.watch(&Key::Store).await);
                continue;
            }
            // A candidacy that is overdue was looked after just before, and is when it is waited for the next time.
            let enlist_at = self.enlist_at.filter(|at| *at > boot::now());
            let until = enlist_at.map_or(until, |at| until.min(at));
            if let (Some(give_up_at), Some(wait)) = (self.give_up_at, self.campaign.wait)
                && boot::now() >= give_up_at
            {
                // Nobody held it, as far as anybody knows.
                return Err(match failure {
                    Some(failure) => failure.into(),
                    None => Error::WaitedLongEnough { wait, why, refusal },
                });
            }
            let until = self.give_up_at.map_or(until, |at| until.min(at));
            if self.enlist_at.is_none() {
                self.note.write();
            }
            tokio::select! {
                change = changes.next() => {
                    self.changed = change == Some(Change::Changed);
                    if change.is_none() {
                        changes = self.watch(&key).await;
                    }
                }
                () = told(&mut stops) => {}
                slept = boot::sleep_until(until) => slept?,
            }
        }
    }

    async fn watch(&self, key: &Key) -> BoxStream<Change> {
        match self.coordinator.backend.watch(key).await {
            Ok(changes) => changes,
            Err(_) => Box::pin(futures_util::stream::pending()),
        }
    }

    /// Looks once, and asks if it is time. Otherwise says until when to wait, and why.
    async fn advance(&mut self) -> Result<Result<Grant, Wait>, Error> {
        let told = if std::mem::take(&mut self.changed) {
            self.coordinator.backend.last_pushed(self.election)
        } else {
            None
        };
        let seen = match told {
            Some(told) => told,
            None => self.coordinator.backend.view(self.election).await?,
        };
        served::only_unserved(seen.document.as_ref(), &|| self.coordinator.backend.location())?;
        let judged = self.judge(&seen).await?;
        let reason = match judged {
            Next::Ask(reason) => {
                // To ask a server may be to wait there for long.
                self.tell_behind(&seen);
                reason
            }
            Next::WaitUntil(until, why) => {
                self.try_to_write().await?;
                if !self.tell_behind(&seen) {
                    self.tell(|| Standby::Because(why.to_string()));
                }
                return Ok(Err(Wait { until, why: why.to_string(), refusal: None, failure: None }));
            }
        };
        let noticed = *self.noticed_at.get_or_insert_with(boot::now);
        let bid = &self.campaign.bid;
        let begun = boot::now();
        let (asked, in_line) = self.ask(seen, reason, noticed).await;
        let refusal = match asked {
            Ok(grant) if self.waits_in_line => return Ok(Ok(grant.after_a_wait_in_line())),
            Ok(grant) => return Ok(Ok(grant)),
            Err(Error::Refused(refusal)) => refusal,
            Err(error) => return Err(error),
        };
        let wait = match &refusal {
            // The place in line lasts only as long as its lease.
            Refusal::Held { .. } if self.stands_in_line() => {
                self.waits_in_line = true;
                renewal_interval(bid.ttl.unwrap_or(LOOK_AGAIN))
            }
            // The wait was in the line there.
            Refusal::Held { .. } if in_line && boot::now().since(begun) > ASKED_AT_ONCE => Span::ZERO,
            Refusal::Held { remaining, .. } => {
                self.noticed_at = None;
                *remaining
            }
            Refusal::NotEligible { retry_in: Some(span), .. } => *span,
            Refusal::NotEligible { retry_in: None, .. }
            | Refusal::Paused { .. }
            | Refusal::AwaitingApproval { .. } => LOOK_AGAIN,
            Refusal::Stale { .. }
            | Refusal::WrongKey { .. }
            | Refusal::UnknownElection { .. }
            | Refusal::NoSuchItem { .. }
            | Refusal::OutOfTurn { .. }
            | Refusal::Exhausted { .. }
            | Refusal::Invalid { .. } => return Err(refusal.into()),
        };
        self.tell(|| Standby::of(&refusal));
        let until = boot::now() + wait.min(LOOK_AGAIN.plus(jitter(Span::secs(1))));
        Ok(Err(Wait { until, why: refusal.to_string(), refusal: Some(Box::new(refusal)), failure: None }))
    }

    fn tell(&self, standby: impl FnOnce() -> Standby) {
        if let Some(tell) = self.tell {
            tell(standby());
        }
    }

    /// Tells whose lease it waits for, if it waits for one. Says whether it does.
    fn tell_behind(&self, seen: &Sighting) -> bool {
        let Some(document) = &seen.document else { return false };
        let remaining = document.lease_remaining(seen.age.plus(boot::now().since(seen.asked_at)));
        let other =
            document.lease_holder().filter(|leader| leader.incarnation != self.credential.incarnation);
        let Some(leader) = other.filter(|_| remaining > Span::ZERO) else { return false };
        self.tell(|| Standby::Behind {
            leader: leader.agent.clone(),
            token: leader.epoch,
            remaining,
            ending: document.leader.is_none(),
        });
        true
    }

    /// Finds out before the wait, and now and then during it, what would fail when the turn comes.
    async fn try_to_write(&mut self) -> Result<(), Error> {
        if self.tried_at.is_none_or(|at| boot::now().since(at) >= LOOK_AGAIN) {
            self.coordinator.backend.writable(&Key::Election(self.election.clone())).await?;
            self.tried_at = Some(boot::now());
        }
        Ok(())
    }

    /// Asks once. Where the store decides and nobody is compared, that is to wait in its line; says whether it was.
    async fn ask(
        &self,
        seen: Sighting,
        reason: Option<String>,
        noticed: Moment,
    ) -> (Result<Grant, Error>, bool) {
        let bid = &self.campaign.bid;
        let compares = seen.document.as_ref().is_some_and(|document| document.policy.select.compares());
        if self.coordinator.decides() == Decides::Server && !compares {
            let wait = self.give_up_at.map_or(LOOK_AGAIN, |at| at.since(boot::now()).min(LOOK_AGAIN));
            return (self.ask_in_line(wait).await, true);
        }
        // The place in the store's own line is kept from one request to the next.
        let wait = self.stands_in_line().then_some(Span::ZERO);
        let asked = self.coordinator.acquire_from(
            start_from(seen),
            self.election,
            bid,
            self.credential,
            reason,
            Some(noticed),
            wait,
        );
        (asked.await, false)
    }

    async fn ask_in_line(&self, wait: Span) -> Result<Grant, Error> {
        let (bid, coordinator) = (&self.campaign.bid, self.coordinator);
        let seen = coordinator.known_before_asking(self.election);
        let waited = Some(boot::now().since(self.since).whole_millis());
        let acquire = Acquire { seen, waited, ..bid.acquire(self.credential) };
        let (start, wait) = (StartFrom::Read, Some(wait));
        let ask = AskLease { acquire: &acquire, credential: self.credential, start, wait };
        let executed = coordinator.backend.acquire(coordinator.patience, self.election, ask).await?;
        let answered = Answered::new(executed, self.credential, bid.region.clone());
        coordinator.confirmed(self.election, answered).await
    }

    /// Whether the store has a line of its own, in which to ask is to stand.
    fn stands_in_line(&self) -> bool {
        self.coordinator.decides() == Decides::Store
    }

    /// What the document and the policy advise.
    async fn judge(&mut self, seen: &Sighting) -> Result<Next, Error> {
        let Some(document) = &seen.document else { return Ok(Next::Ask(None)) };
        if self.stands_in_line() {
            return Ok(Next::Ask(None));
        }
        let compares = document.policy.select.compares();
        // Whom the policy bars must not stand in the way of the others.
        if compares && !self.is_barred(document).await? {
            self.stand().await?;
        } else if self.enlist_at.take().is_some() {
            self.stand_down().await;
        }
        if document.leader.as_ref().is_some_and(|leader| leader.incarnation == self.credential.incarnation) {
            // Granted by a request whose answer was lost.
            return Ok(Next::Ask(None));
        }
        if matches!(document.state, State::Paused | State::AwaitingApproval) {
            // Asking tells whose word is waited for.
            return Ok(Next::Ask(None));
        }
        if !compares && self.coordinator.decides() == Decides::Server && self.campaign.bid.region.is_none() {
            // To ask there is to wait in line; who shows a region does not wait there, and would only be refused.
            return Ok(Next::Ask(None));
        }
        let remaining = document.lease_remaining(seen.age);
        if document.lease_holder().is_some() && remaining > Span::ZERO {
            self.noticed_at = None;
            // The leader enters its leadership into the history a moment after it began, and nobody is told
            // of the entry. A candidate that has seen the entry need not look for it in the moment of
            // succession.
            let recorded = match &document.last_transition {
                Some(last) => self.coordinator.backend.is_in_history(self.election, last).await,
                None => true,
            };
            let entered = !recorded && self.entry_awaited != Some(document.epoch);
            self.entry_awaited = Some(document.epoch);
            let wait = if entered { remaining.min(ENTRY_IS_WRITTEN) } else { remaining.min(LOOK_AGAIN) };
            let why = match &document.leader {
                Some(_) => "another leads",
                None => "the last leadership has ended, but its lease may still be running",
            };
            return Ok(Next::WaitUntil(seen.asked_at + wait, why));
        }
        if document.state == State::Vacant || document.state == State::Held {
            self.noticed_at.get_or_insert(seen.asked_at);
        }
        if !compares {
            return Ok(Next::Ask(None));
        }
        let free_for = document.vacancy(seen.age);
        if free_for < document.policy.nomination {
            let until = seen.asked_at + document.policy.nomination.minus(free_for);
            return Ok(Next::WaitUntil(until, "candidates may still enlist"));
        }
        let ranking = self.coordinator.candidates().ranking(self.election, document).await?;
        let mine = ranking.iter().position(|ranked| ranked.incarnation == self.credential.incarnation);
        // While another life of this agent stands under its name, this one comes right after it.
        let other = || ranking.iter().rposition(|ranked| ranked.agent == self.campaign.bid.agent);
        let Some((place, ranked)) = mine.map(|at| (at, at)).or_else(|| other().map(|at| (at + 1, at))) else {
            // Ruled out by the policy: asking tells why.
            return Ok(Next::Ask(None));
        };
        let ahead = u64::try_from(place).unwrap_or(u64::MAX);
        let turn = document.policy.nomination.plus(STEP_DOWN_THE_LINE.scaled(ahead, 1));
        if free_for < turn {
            return Ok(Next::WaitUntil(
                seen.asked_at + turn.minus(free_for),
                "another candidate is preferred",
            ));
        }
        let reason = &ranking[ranked].reason;
        let late = if place > 0 { "; those ahead of it did not act" } else { "" };
        Ok(Next::Ask(Some(format!("{reason}{late}"))))
    }

    /// Whether the policy bars it for what fails of all that it depends on, or for an open circuit breaker.
    async fn is_barred(&self, document: &Document) -> Result<bool, Error> {
        let (policy, Bid { agent, failing, .. }) = (&document.policy, &self.campaign.bid);
        if policy.depends.iter().any(|name| failing.contains(name)) {
            return Ok(true);
        }
        let open = self.coordinator.toolbox(self.election).open_breakers(agent, policy).await?;
        Ok(policy.barring(&open).is_some())
    }

    /// Best effort: a record that is not withdrawn lapses.
    async fn stand_down(&self) {
        let agent = &self.campaign.bid.agent;
        let _ = self.coordinator.hasty().candidates().withdraw(self.election, agent, self.credential).await;
    }

    /// Keeps the candidacy alive.
    async fn stand(&mut self) -> Result<(), Error> {
        if self.enlist_at.is_some_and(|at| boot::now() < at) {
            return Ok(());
        }
        let bid = &self.campaign.bid;
        match self.coordinator.candidates().enlist(self.election, bid, self.credential, CANDIDACY).await {
            Ok(_) => {
                self.enlist_at = Some(boot::now() + CANDIDACY.scaled(1, 3));
                Ok(())
            }
            // Another life of this agent stands under the same name, until it lapses or withdraws.
            Err(Error::Refused(Refusal::Held { remaining, .. })) => {
                self.enlist_at = Some(boot::now() + remaining);
                Ok(())
            }
            Err(Error::Store(StoreError::Conflict)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Waits for the next change, if anybody tells of any. Where nobody does any more, the next look finds it.
async fn told(changes: &mut Option<BoxStream<Change>>) {
    let Some(stream) = changes else { return std::future::pending().await };
    if stream.next().await.is_none() {
        *stream = Box::pin(futures_util::stream::pending());
        stream.next().await;
    }
}
