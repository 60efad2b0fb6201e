//! Waiting in line until this agent leads.

use baton_election::document::State;
use baton_election::lease::renewal_interval;
use baton_election::time::{Moment, Span};
use baton_election::{Credential, Document, ElectionName, Epoch, Refusal};
use baton_store::{BoxStream, Change, Key, StoreError, boot};
use futures_util::StreamExt;

use crate::backoff::{Backoff, Patience, jitter};
use crate::coordinator::{Bid, Coordinator, Grant, mint_credential};
use crate::error::Error;
use crate::leadership::Leadership;
use crate::local::{First, Seen};

/// How long the second in line waits for the first to act, and so on down the line.
const STEP_DOWN_THE_LINE: Span = Span::millis(500);
/// How often a candidate looks even if nobody tells it of a change: a watch is a convenience, not a promise.
const LOOK_AGAIN: Span = Span::secs(10);
/// By when a leader has surely entered its leadership into the history, if it is well.
const ENTRY_IS_WRITTEN: Span = Span::millis(150);
/// Who is refused within this was not made to wait.
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

/// One wait in line.
struct Line<'a> {
    coordinator: &'a Coordinator,
    election: &'a ElectionName,
    campaign: &'a Campaign,
    credential: Credential,
    /// When the candidacy must be renewed; none while it does not stand.
    enlist_at: Option<Moment>,
    /// Since when the election is known to be free.
    noticed_at: Option<Moment>,
    /// When this credential first asked without being refused since: a grant that turns up later counts from there.
    asked_at: Option<Moment>,
    give_up_at: Option<Moment>,
    /// The epoch whose entry in the history was waited for once.
    entry_awaited: Option<Epoch>,
    /// Whether a change was just told of.
    changed: bool,
    /// Whether it has a place in the store's own line, behind another.
    waits_in_line: bool,
}

impl Coordinator {
    /// Waits until this agent leads. Each call is a new incarnation.
    ///
    /// A store that is out of reach is waited for; one that is corrupt or refuses ends the campaign.
    pub async fn campaign(&self, election: &ElectionName, campaign: Campaign) -> Result<Leadership, Error> {
        let give_up_at = campaign.wait.map(|wait| boot::now() + wait);
        loop {
            let grant = match self.queue(election, &campaign, mint_credential()?, give_up_at).await {
                // It was granted and lost the lease before it could know of it: begin anew.
                Err(Error::Refused(Refusal::Stale { .. })) => continue,
                outcome => outcome?,
            };
            if boot::now() < grant.deadline() {
                return Leadership::begin(self, election, &campaign.bid, grant);
            }
            // It was heard of too late to be used. Nothing was done under it; if this fails, it runs out.
            let reason = Some("the grant was heard of too late".to_string());
            let _ = self.hasty().release(election, grant.epoch, grant.credential, reason).await;
        }
    }

    /// Waits until this credential's holder is granted the lease, without renewing it from then on.
    pub async fn wait_for_grant(
        &self,
        election: &ElectionName,
        campaign: &Campaign,
        credential: Credential,
    ) -> Result<Grant, Error> {
        let give_up_at = campaign.wait.map(|wait| boot::now() + wait);
        self.queue(election, campaign, credential, give_up_at).await
    }

    async fn queue(
        &self,
        election: &ElectionName,
        campaign: &Campaign,
        credential: Credential,
        give_up_at: Option<Moment>,
    ) -> Result<Grant, Error> {
        let mut line = Line {
            coordinator: self,
            election,
            campaign,
            credential,
            enlist_at: None,
            noticed_at: None,
            asked_at: None,
            give_up_at,
            entry_awaited: None,
            changed: false,
            waits_in_line: false,
        };
        let outcome = match &campaign.bid.region {
            None => line.wait().await,
            Some(region) => tokio::select! {
                outcome = line.wait() => outcome,
                why = region.over() => Err(Error::Lost(why)),
            },
        };
        if let (Err(Error::Lost(why)), Some(_)) = (&outcome, &campaign.bid.region) {
            // It may have been granted in this very moment; nothing was done under it, and if this fails, it runs out.
            let _ = self.hasty().give_up(election, credential, why).await;
        }
        // Only who was told to wait stands there: a credential that leads is not given up by a failure.
        if outcome.is_err() && line.waits_in_line {
            let _ = self.hasty().release(election, Epoch(0), credential, None).await;
        }
        if line.enlist_at.is_some() {
            line.stand_down().await;
        }
        outcome
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

impl Line<'_> {
    async fn wait(&mut self) -> Result<Grant, Error> {
        let key = Key::Election(self.election.clone());
        let mut changes = self.watch(&key).await;
        let mut backoff = Backoff::new(Patience::default().endless());
        loop {
            let Wait { until, why, refusal, failure } = match self.advance().await {
                Ok(Ok(grant)) => return Ok(grant),
                Ok(Err(wait)) => {
                    backoff = Backoff::new(Patience::default().endless());
                    wait
                }
                Err(Error::Store(error)) if error.is_passing() => {
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
            tokio::select! {
                change = changes.next() => {
                    self.changed = change == Some(Change::Changed);
                    if change.is_none() {
                        changes = self.watch(&key).await;
                    }
                }
                slept = boot::sleep_until(until) => slept?,
            }
        }
    }

    async fn watch(&self, key: &Key) -> BoxStream<Change> {
        match self.coordinator.local.store.watch(key).await {
            Ok(changes) => changes,
            Err(_) => Box::pin(futures_util::stream::pending()),
        }
    }

    /// Looks once, and asks if it is time. Otherwise says until when to wait, and why.
    async fn advance(&mut self) -> Result<Result<Grant, Wait>, Error> {
        let told =
            if std::mem::take(&mut self.changed) { self.coordinator.local.told(self.election) } else { None };
        let seen = match told {
            Some(told) => told,
            None => self.coordinator.local.see(self.election).await?,
        };
        self.coordinator.local.only_unserved(seen.document.as_ref())?;
        let judged = self.judge(&seen).await?;
        let reason = match judged {
            Next::Ask(reason) => reason,
            Next::WaitUntil(until, why) => {
                return Ok(Err(Wait { until, why: why.to_string(), refusal: None, failure: None }));
            }
        };
        let noticed = *self.noticed_at.get_or_insert_with(boot::now);
        let bid = &self.campaign.bid;
        let asked_at = *self.asked_at.get_or_insert_with(boot::now);
        let begun = boot::now();
        let (asked, in_line) = self.ask(seen, reason, noticed).await;
        let refusal = match asked {
            Ok(grant) => return Ok(Ok(self.taken(grant, asked_at))),
            Err(Error::Refused(refusal)) => {
                self.asked_at = None;
                refusal
            }
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
        let until = boot::now() + wait.min(LOOK_AGAIN.plus(jitter(Span::secs(1))));
        Ok(Err(Wait { until, why: refusal.to_string(), refusal: Some(Box::new(refusal)), failure: None }))
    }

    fn taken(&self, grant: Grant, asked_at: Moment) -> Grant {
        if !grant.repeated {
            return grant;
        }
        // Perhaps of an earlier call, whose answer was lost. Who waited in the store's line stood there, but did not lead.
        Grant { asked_at: grant.asked_at.min(asked_at), repeated: !self.waits_in_line, ..grant }
    }

    /// Asks once. Where the store decides and nobody is compared, that is to wait in its line; says whether it was.
    async fn ask(&self, seen: Seen, reason: Option<String>, noticed: Moment) -> (Result<Grant, Error>, bool) {
        let bid = &self.campaign.bid;
        let compares = seen.document.as_ref().is_some_and(|document| document.policy.select.compares());
        if let Some(decider) = self.coordinator.store().decider().filter(|_| !compares) {
            let wait = self.give_up_at.map_or(LOOK_AGAIN, |at| at.since(boot::now()).min(LOOK_AGAIN));
            let (local, acquire) = (&self.coordinator.local, bid.acquire(self.credential));
            let asked = local.acquire_in_line(decider, self.election, &acquire, self.credential, wait).await;
            return (asked.map(|grant| Grant { region: bid.region.clone(), ..grant }), true);
        }
        let first = match seen.reading {
            Some(reading) => First::Seen(Box::new(reading)),
            None => First::Line(self.credential),
        };
        let asked =
            self.coordinator.acquire_from(first, self.election, bid, self.credential, reason, Some(noticed));
        (asked.await, false)
    }

    /// Whether the store has a line of its own, in which to ask is to stand.
    fn stands_in_line(&self) -> bool {
        self.coordinator.store().native().is_some()
    }

    /// What the document and the policy advise.
    async fn judge(&mut self, seen: &Seen) -> Result<Next, Error> {
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
        if !compares && self.coordinator.store().decider().is_some() && self.campaign.bid.region.is_none() {
            // To ask there is to wait in line; who shows a region does not wait there, and would only be refused.
            return Ok(Next::Ask(None));
        }
        let remaining = document.lease_remaining(seen.age);
        if document.lease_holder().is_some() && remaining > Span::ZERO {
            self.noticed_at = None;
            // The leader enters its leadership into the history a moment after it began, which nobody is told of. Who has seen the
            // entry need not look for it in the moment of succession.
            let recorded = match &document.last_transition {
                Some(last) => self.coordinator.local.learn_recorded(self.election, last).await,
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
        let ranking = self.coordinator.ranking(self.election, document).await?;
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
        let _ = self.coordinator.hasty().withdraw(self.election, agent, self.credential).await;
    }

    /// Keeps the candidacy alive.
    async fn stand(&mut self) -> Result<(), Error> {
        if self.enlist_at.is_some_and(|at| boot::now() < at) {
            return Ok(());
        }
        let bid = &self.campaign.bid;
        match self.coordinator.enlist(self.election, bid, self.credential, CANDIDACY).await {
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
