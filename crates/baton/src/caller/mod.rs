//! Leading without a process that renews: each call is a command, and the lease key is kept between them.
//!
//! Guarantees that of two callers with one agent name only one is told that it leads with a token, unless both calls are of one
//! session or one of them asked to repeat: each asks with a key of its own, and the election grants a lease to one key. A call
//! whose answer was lost is repeated with the same key by the next call of its session, so that one lease is granted.
//!
//! Does not guarantee anything about callers of one session: they are one caller.

mod keys;
mod session;

use std::fmt;

use baton_election::document::{Cause, Document};
use baton_election::time::Span;
use baton_election::{AgentName, ElectionName, Epoch, Refusal};

use crate::campaign::{Campaign, TellStandby};
use crate::coordinator::{Bid, Coordinator, View, mint_credential};
use crate::error::Error;
use crate::grant::Grant;
pub use keys::{KeptLease, KeyFile, LeaseKeys, NotKept};
pub use session::{CallerSession, MAX_SESSION_BYTES, SESSION_VARIABLE, SessionKind};

/// How long a call waits for the others in line where candidates are compared, once the nomination is over.
const IN_LINE: Span = Span::secs(3);

/// How often a call begins anew with another key.
const MAX_KEYS: usize = 16;

/// Somebody who leads by single calls.
#[derive(Clone)]
pub struct Caller<'a> {
    /// Where its keys are.
    pub keys: &'a LeaseKeys,
    /// Its session: a lease of the same session is its own.
    pub session: Option<CallerSession>,
    /// It says itself that the agent's lease is its own, whichever session asked for it.
    pub repeat: bool,
    /// Whom to tell why it waits.
    pub tell: Option<TellStandby<'a>>,
}

/// Why a call did not get the lease.
#[derive(Debug)]
pub enum NotGranted {
    /// The election refused it, or the store failed.
    Error(Error),
    /// The agent leads already, from another session.
    Elsewhere(Elsewhere),
    /// The agent's own former leadership was ended, and its lease may still be running.
    Ending {
        /// What was refused.
        error: Error,
        /// The agent.
        agent: AgentName,
        /// The election.
        election: ElectionName,
        /// What ended it.
        cause: Cause,
        /// The longest that the lease can last.
        left: Span,
    },
    /// The key could not be kept. Nothing was asked for, or the grant runs out by itself.
    NotKept(NotKept),
    /// Other calls of this session are at it.
    Busy,
}

/// A lease of the same agent that this call may not use.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// The agent.
    pub agent: AgentName,
    /// The election.
    pub election: ElectionName,
    /// Its token.
    pub token: Epoch,
    /// The longest that its lease can last.
    pub remaining: Span,
    /// The call that asked for it; none if this user has no key of it.
    pub holder: Option<Holder>,
    /// Whether this call has a session.
    pub has_session: bool,
}

/// The call that holds a lease, as its key says.
#[derive(Clone, Debug)]
pub struct Holder(pub Option<CallerSession>);

impl Caller<'_> {
    /// Asks for the lease, for at most `wait`. A lease that this caller holds already is renewed.
    pub async fn acquire(
        &self,
        coordinator: &Coordinator,
        election: &ElectionName,
        bid: &Bid,
        wait: Option<Span>,
    ) -> Result<Grant, NotGranted> {
        for _ in 0..MAX_KEYS {
            // Looked at first: a store that cannot be asked leaves no key behind.
            let view = coordinator.view(election).await?;
            let call = Call { caller: self, coordinator, election, bid, wait: in_line(&view, wait) };
            match call.once(&view, wait.is_some()).await {
                Ok(Some(grant)) => return Ok(grant),
                Ok(None) => {}
                // Another call of this session was granted it meanwhile, and its key is there by now.
                Err(NotGranted::Elsewhere(elsewhere)) if self.owns(&elsewhere) => {}
                Err(refused) => return Err(refused),
            }
        }
        Err(NotGranted::Busy)
    }

    /// Whether that lease is this caller's own.
    fn owns(&self, elsewhere: &Elsewhere) -> bool {
        let of = |Holder(session): &Holder| session.is_some() && *session == self.session;
        elsewhere.holder.as_ref().is_some_and(|holder| self.repeat || of(holder))
    }
}

/// One call.
struct Call<'a> {
    caller: &'a Caller<'a>,
    coordinator: &'a Coordinator,
    election: &'a ElectionName,
    bid: &'a Bid,
    wait: Option<Span>,
}

impl Call<'_> {
    /// Asks with one key. None if the caller shall begin anew.
    async fn once(&self, view: &View, waits: bool) -> Result<Option<Grant>, NotGranted> {
        let Some(kept) = self.own(view) else {
            let key = KeptLease::reserved(mint_credential()?, self.caller.session.clone());
            // Kept before it is asked with, so that a crash in between loses nothing.
            let reserved = self.caller.keys.reserve(self.election, &self.bid.agent, &key)?;
            return if reserved { self.ask_anew(&key).await.map(Some) } else { Ok(None) };
        };
        match Box::pin(self.ask(&kept)).await {
            Err(NotGranted::Error(error)) if !may_be_granted(&error) => {
                let began = waits && kept.epoch > Epoch(0);
                self.give_up_key(&kept, error, began).await?;
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// The key that this caller asks with again: the one that leads, else the first of its own.
    fn own(&self, view: &View) -> Option<KeptLease> {
        let Caller { keys, session, repeat, tell: _ } = self.caller;
        let all = keys.all(self.election, &self.bid.agent);
        let mut own: Vec<KeptLease> =
            all.into_iter().filter(|kept| *repeat || kept.is_of(session.as_ref())).collect();
        own.sort_by_key(|kept| !self.holds(kept, view));
        own.into_iter().next()
    }

    /// Whether the election shows this key's lease.
    fn holds(&self, kept: &KeptLease, view: &View) -> bool {
        let holder = view.document.as_ref().and_then(Document::lease_holder);
        let incarnation = self.coordinator.backend.incarnation_of(self.election, &kept.credential);
        holder.is_some_and(|holder| holder.incarnation == incarnation)
    }

    async fn ask(&self, key: &KeptLease) -> Result<Grant, NotGranted> {
        let (coordinator, election, bid) = (self.coordinator, self.election, self.bid);
        let grant = match self.wait {
            None => coordinator.acquire(election, bid, key.credential, None, None).await?,
            Some(_) => {
                let campaign = Campaign { bid: bid.clone(), wait: self.wait };
                match self.caller.tell {
                    Some(tell) => {
                        coordinator.wait_for_grant_telling(election, &campaign, key.credential, tell).await?
                    }
                    None => coordinator.wait_for_grant(election, &campaign, key.credential).await?,
                }
            }
        };
        let region = bid.region.as_ref().map(|region| region.election().clone());
        let lease = KeptLease { region, ..key.renewed(grant.epoch, grant.ttl, grant.asked_at()) };
        self.caller.keys.keep(election, &bid.agent, &lease)?;
        Ok(grant)
    }

    /// Asks with a key that nobody has used.
    async fn ask_anew(&self, key: &KeptLease) -> Result<Grant, NotGranted> {
        match Box::pin(self.ask(key)).await {
            Err(NotGranted::Error(error)) if !may_be_granted(&error) => {
                self.caller.keys.forget(self.election, &self.bid.agent, key);
                Err(self.explained(error).await)
            }
            outcome => outcome,
        }
    }

    /// Gives up a key that was refused, unless it is still of use. Nothing if the caller shall ask with another.
    async fn give_up_key(&self, kept: &KeptLease, error: Error, began: bool) -> Result<(), NotGranted> {
        let (election, agent) = (self.election, &self.bid.agent);
        let view = self.coordinator.view(election).await?;
        let holder = view.document.as_ref().and_then(Document::lease_holder);
        if self.holds(kept, &view) && holder.is_some_and(|holder| view.age < holder.lease()) {
            // The election waits for the end of this lease: whoever holds it still has to release with this key.
            return Err(match view.document.as_ref().map(|document| (document, &document.departure)) {
                Some((document, Some(departure)))
                    if matches!(error, Error::Refused(Refusal::Stale { .. })) =>
                {
                    NotGranted::Ending {
                        error,
                        agent: agent.clone(),
                        election: election.clone(),
                        cause: departure.cause,
                        left: document.lease_remaining(view.age),
                    }
                }
                _ => NotGranted::Error(error),
            });
        }
        self.caller.keys.forget(election, agent, kept);
        match error {
            // Its leadership is over.
            Error::Refused(Refusal::Stale { .. } | Refusal::WrongKey { .. }) => Ok(()),
            // Whoever waits begins anew.
            Error::Refused(_) if began => Ok(()),
            error => Err(self.explained(error).await),
        }
    }

    /// Why it was refused, where the agent itself leads with a key that this call may not use.
    async fn explained(&self, error: Error) -> NotGranted {
        let held = matches!(error, Error::Refused(Refusal::Held { .. }) | Error::WaitedLongEnough { .. });
        let Some(view) = (if held { self.coordinator.view(self.election).await.ok() } else { None }) else {
            return NotGranted::Error(error);
        };
        let Some(leader) = view.leader().filter(|leader| leader.agent == self.bid.agent) else {
            return NotGranted::Error(error);
        };
        let all = self.caller.keys.all(self.election, &self.bid.agent);
        let holder = all.into_iter().find(|kept| self.holds(kept, &view)).map(|kept| Holder(kept.session));
        NotGranted::Elsewhere(Elsewhere {
            agent: self.bid.agent.clone(),
            election: self.election.clone(),
            token: leader.epoch,
            remaining: view
                .document
                .as_ref()
                .map_or(Span::ZERO, |document| document.lease_remaining(view.age)),
            holder,
            has_session: self.caller.session.is_some(),
        })
    }
}

/// How long to wait in line: where candidates are compared, even a caller that does not want to.
fn in_line(view: &View, wait: Option<Span>) -> Option<Span> {
    let compares = view.document.as_ref().filter(|document| document.policy.select.compares());
    wait.or(compares.map(|document| document.policy.nomination.plus(IN_LINE)))
}

/// Whether a request that failed so may have been granted, or may yet be.
fn may_be_granted(error: &Error) -> bool {
    match error {
        Error::Store(error) => error.is_passing(),
        Error::System(_) => true,
        Error::Refused(_)
        | Error::Url(_)
        | Error::NoStore(_)
        | Error::Name(_)
        | Error::WaitedLongEnough { .. }
        | Error::Lost(_) => false,
    }
}

impl Elsewhere {
    /// The same as a refusal.
    pub fn refusal(&self) -> Refusal {
        let by = Some(self.agent.clone());
        Refusal::Held { by, epoch: self.token, remaining: self.remaining, ending: None }
    }

    /// What the caller can do about it.
    pub fn hint(&self) -> String {
        let other = "if that is another agent, choose another name with --as";
        match (&self.holder, self.has_session) {
            (None, _) => format!("{other}; this user has no key of that lease, so wait for its release"),
            (Some(_), true) => format!("{other}; if it is you, add --repeat"),
            (Some(_), false) => {
                format!("{other}; if it is you, add --repeat, or set {SESSION_VARIABLE} for all your calls")
            }
        }
    }
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Elsewhere { agent, election, token, .. } = self;
        write!(f, "{agent} already leads {election} with token {token}, from ")?;
        match &self.holder {
            None => f.write_str("another process"),
            Some(Holder(None)) => f.write_str("a call without a session"),
            Some(Holder(Some(session))) => write!(f, "another session ({session})"),
        }
    }
}

impl From<Error> for NotGranted {
    fn from(error: Error) -> NotGranted {
        NotGranted::Error(error)
    }
}

impl From<NotKept> for NotGranted {
    fn from(not_kept: NotKept) -> NotGranted {
        NotGranted::NotKept(not_kept)
    }
}
