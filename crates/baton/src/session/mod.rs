//! An agent that a server knows to be there: one heartbeat keeps all its leases, and the server knows what it has heard of.
//!
//! Assumes a server. Guarantees for each lease that rides on it what a [`crate::Leadership`] guarantees: its deadline counts from before
//! the heartbeat that renewed it was sent, a lease that an answer names or does not count is not taken for renewed, and what is lost stays
//! lost. Does not guarantee that the server remembers the session: it is announced anew, with all that rides on it.

mod claims;
mod heartbeat;
mod lease;
mod news;
mod notify;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_api::describe::Description;
use baton_api::elections::Sessions;
use baton_api::retried;
use baton_api::sessions::{
    Announce, EndSession, EndSessionResponse, LeadershipClaim, LeaseFailure, LeaseRef, MAX_FOLLOWS,
    MAX_SESSION_LEASES, MAX_WORD_BYTES, SessionLease, SessionView,
};
use baton_election::policy::Limits;
use baton_election::time::{Moment, Span};
use baton_election::{AgentName, Credential, ElectionName, Incarnation, LeaseKey, Refusal};
use baton_store::boot;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::campaign::Campaign;
use crate::coordinator::{Bid, Coordinator, mint_credential};
use crate::error::Error;
use crate::follow::{Follower, LeaderView, SeenAt};
use crate::grant::Grant;
use lease::Lease;
pub use lease::SessionLeadership;

/// A session, kept alive until it is ended or dropped. Who drops it gives up its leases, which run out at the server.
pub struct Session {
    inner: Arc<Inner>,
    tasks: [JoinHandle<()>; 3],
}

impl Drop for Session {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        // Nobody renews or is told of anything from here on.
        let mut state = self.inner.state();
        let left: Vec<ElectionName> = state.leases.keys().cloned().collect();
        left.iter().for_each(|election| drop(state.end(election, "its session was given up")));
        state.all_stale();
    }
}

/// What the session's tasks and its holder share.
struct Inner {
    coordinator: Coordinator,
    agent: AgentName,
    /// The key to the session, and to every lease that rides on it.
    key: LeaseKey,
    state: Mutex<State>,
    /// Beat at once.
    nudge: Notify,
    /// Ask for news at once.
    ask: Notify,
    /// What is followed has changed, or how long its leases last.
    look: Notify,
    /// When the server last answered.
    seen: Arc<SeenAt>,
}

struct State {
    id: Incarnation,
    /// Of the last request.
    number: u64,
    /// Whether the server knows this session, as far as this side knows.
    announced: bool,
    leases: BTreeMap<ElectionName, Lease>,
    /// What the server is to forget.
    dropping: Vec<LeaseRef>,
    follows: BTreeMap<ElectionName, Topic>,
    /// Whether the server knows what is followed.
    follows_known: bool,
    /// What of it the server does not follow: it is looked at, and asked for again with each heartbeat.
    unfollowed: BTreeSet<ElectionName>,
    health: Option<Value>,
    progress: Option<Value>,
    /// How it is, as it was said last, and whether the server is still to be told.
    description: Option<Description>,
    undescribed: bool,
    /// What it leads by its own word, beside what rides on it.
    leads: Option<Vec<LeadershipClaim>>,
    /// How long it takes until the next heartbeat, at most.
    every: Span,
    /// Whether the last heartbeat was answered.
    reached: bool,
}

/// An election that is followed.
struct Topic {
    known: watch::Sender<Arc<LeaderView>>,
    followers: usize,
    /// When its lease ends without a word: nobody tells of that.
    look_at: Moment,
    /// When the server last showed, or let stand, what is known of it.
    seen: Arc<SeenAt>,
}

impl Coordinator {
    /// The sessions of the server; refused where there is none.
    pub(crate) fn server_sessions(&self) -> Result<&dyn Sessions, Error> {
        let sessions = self.backend.sessions();
        sessions.ok_or_else(|| {
            Error::Refused(Refusal::invalid(
                format!("{} has no sessions: nobody there knows who follows", self.backend.location()),
                "use a server: `baton serve`, and --store http://HOST:PORT",
            ))
        })
    }

    /// Whether there is a server that knows who is there.
    pub fn has_sessions(&self) -> bool {
        self.server_sessions().is_ok()
    }

    /// Announces an agent to the server, and keeps its session alive in the background.
    pub async fn announce(&self, agent: &AgentName) -> Result<Session, Error> {
        let Credential { incarnation, key } = mint_credential()?;
        let credential = Credential { incarnation, key };
        let announce =
            Announce { agent: agent.clone(), credential, number: 0, follows: Vec::new(), leases: Vec::new() };
        let sessions = self.server_sessions()?;
        let first = retried(self.patience, || sessions.announce(&announce)).await?;
        let inner = Arc::new(Inner {
            coordinator: self.clone(),
            agent: agent.clone(),
            key,
            state: Mutex::new(State {
                id: incarnation,
                number: 0,
                announced: true,
                leases: BTreeMap::new(),
                dropping: Vec::new(),
                follows: BTreeMap::new(),
                follows_known: true,
                unfollowed: BTreeSet::new(),
                health: None,
                progress: None,
                description: None,
                undescribed: false,
                leads: None,
                every: heartbeat::every(&first),
                reached: true,
            }),
            nudge: Notify::new(),
            ask: Notify::new(),
            look: Notify::new(),
            seen: Arc::default(),
        });
        inner.seen.now();
        let tasks = [
            tokio::spawn(heartbeat::keep_alive(Arc::clone(&inner), first)),
            tokio::spawn(news::listen(Arc::clone(&inner))),
            tokio::spawn(news::look_after(Arc::clone(&inner))),
        ];
        Ok(Session { inner, tasks })
    }

    /// All sessions of the server.
    pub async fn sessions(&self) -> Result<Vec<SessionView>, Error> {
        let sessions = self.server_sessions()?;
        Ok(retried(self.patience, || sessions.sessions()).await?)
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn credential(&self, state: &State) -> Credential {
        Credential { incarnation: state.id, key: self.key }
    }
}

impl Session {
    /// Whose.
    pub fn agent(&self) -> &AgentName {
        &self.inner.agent
    }

    /// Asks once for a lease that rides on this session.
    pub async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<SessionLeadership, Error> {
        let credential = self.credential_for(election, bid)?;
        let grant = self.inner.coordinator.acquire(election, bid, credential, None, None).await?;
        self.ride(election, &grant)
    }

    /// Waits in line for a lease that rides on this session.
    pub async fn campaign(
        &self,
        election: &ElectionName,
        campaign: &Campaign,
    ) -> Result<SessionLeadership, Error> {
        let give_up_at = campaign.wait.map(|wait| boot::now() + wait);
        loop {
            let credential = self.credential_for(election, &campaign.bid)?;
            let wait = give_up_at.map(|at| at.since(boot::now()));
            let campaign = Campaign { wait, ..campaign.clone() };
            match self.inner.coordinator.wait_for_grant(election, &campaign, credential).await {
                // It was granted and lost the lease before it could know of it: begin anew.
                Err(Error::Refused(Refusal::Stale { .. })) => {}
                outcome => return self.ride(election, &outcome?),
            }
        }
    }

    /// The session's key, and a life of its own for each lease.
    fn credential_for(&self, election: &ElectionName, bid: &Bid) -> Result<Credential, Error> {
        if bid.region.is_some() {
            return Err(Error::Refused(Refusal::invalid(
                "a lease under a region does not ride on a session",
                "campaign for it without one: its own renewals show the region's lease",
            )));
        }
        if bid.limits != Limits::default() {
            return Err(Error::Refused(Refusal::invalid(
                "a lease with limits of its own does not ride on a session",
                "campaign for it without one: its own renewals tell of tokens and progress",
            )));
        }
        if bid.agent != self.inner.agent {
            return Err(Error::Refused(Refusal::invalid(
                format!("the session is of {}, not of {}", self.inner.agent, bid.agent),
                "announce a session of its own",
            )));
        }
        let (leads, full) = {
            let state = self.inner.state();
            (state.leases.contains_key(election), state.leases.len() >= MAX_SESSION_LEASES)
        };
        if full {
            return Err(Error::Refused(Refusal::invalid(
                format!("at most {MAX_SESSION_LEASES} leases ride on one session"),
                "announce another session for the others",
            )));
        }
        if leads {
            return Err(Error::Refused(Refusal::invalid(
                format!("this session leads `{election}` already"),
                "release it first",
            )));
        }
        Ok(Credential { key: self.inner.key, ..mint_credential()? })
    }

    fn ride(&self, election: &ElectionName, grant: &Grant) -> Result<SessionLeadership, Error> {
        SessionLeadership::begin(&self.inner, election, grant)
    }

    /// Follows an election: the server knows when this agent has heard of a change, and who releases can wait for that. What
    /// [`Follower::leader`] shows is acknowledged as soon as it shows it.
    pub async fn follow(&self, election: &ElectionName) -> Result<Follower, Error> {
        news::follow(&self.inner, election).await
    }

    /// A word on its health, told with the next heartbeat. At most 1,024 bytes of JSON.
    pub fn health(&self, word: Value) -> Result<(), Error> {
        check_word(&word)?;
        self.inner.state().health = Some(word);
        Ok(())
    }

    /// A word on its progress, told with the next heartbeat. At most 1,024 bytes of JSON.
    pub fn progress(&self, word: Value) -> Result<(), Error> {
        check_word(&word)?;
        self.inner.state().progress = Some(word);
        Ok(())
    }

    /// How the agent is, told with the next heartbeat, and again to a server that has forgotten it.
    pub fn describe(&self, description: Description) -> Result<(), Error> {
        description.check()?;
        let mut state = self.inner.state();
        if state.description.as_ref() == Some(&description) {
            return Ok(());
        }
        let dependencies = state.description.as_ref().map(|known| &known.dependencies);
        let at_once = dependencies != Some(&description.dependencies);
        (state.description, state.undescribed) = (Some(description), true);
        if at_once {
            // A leader that cannot work must not wait for its turn to say so.
            self.inner.nudge.notify_one();
        }
        Ok(())
    }

    /// How long ago the server last answered. Local: no IO.
    pub fn unconfirmed_for(&self) -> Span {
        self.inner.seen.since()
    }

    /// Ends the session. If the work under all its leases has stopped, they are released; otherwise they run out.
    pub async fn end(self, stopped: bool) -> Result<EndSessionResponse, Error> {
        self.tasks.iter().for_each(JoinHandle::abort);
        let (credential, leases) = {
            let mut state = self.inner.state();
            let left: Vec<ElectionName> = state.leases.keys().cloned().collect();
            let ended = left.iter().filter_map(|election| state.end(election, "its session ended"));
            let leases: Vec<Lease> = ended.collect();
            (self.inner.credential(&state), leases)
        };
        let coordinator = &self.inner.coordinator;
        let (sessions, end) = (coordinator.server_sessions()?, EndSession { credential, stopped });
        let there = retried(coordinator.patience, || sessions.end(&end)).await?;
        let known = there.is_some();
        let mut ended = there.unwrap_or_default();
        // What the server did not know of is released one by one.
        for lease in leases.into_iter().filter(|lease| stopped && !(known && lease.confirmed)) {
            let SessionLease { election, token, incarnation } = lease.ride;
            let credential = Credential { incarnation, key: self.inner.key };
            let reason = Some("its session ended".to_string());
            match coordinator.release(&election, token, credential, reason).await {
                Ok(_) => ended.released += 1,
                Err(error) => ended.failed.push(LeaseFailure { election, token, why: error.to_string() }),
            }
        }
        Ok(ended)
    }
}

fn check_word(word: &Value) -> Result<(), Error> {
    if word.to_string().len() <= MAX_WORD_BYTES {
        return Ok(());
    }
    Err(Error::Refused(Refusal::invalid(
        format!("a word of more than {MAX_WORD_BYTES} bytes is not told with a heartbeat"),
        "say it shorter; a checkpoint takes more",
    )))
}

impl State {
    /// A lease is over. The server is told to forget it.
    fn end(&mut self, election: &ElectionName, why: &str) -> Option<Lease> {
        let lease = self.leases.remove(election)?;
        lease.state.lose(why);
        self.dropping.push(LeaseRef { election: election.clone(), token: lease.ride.token });
        Some(lease)
    }

    /// More than the server would take is not followed.
    fn check_follows(&self) -> Result<(), Error> {
        if self.follows.len() < MAX_FOLLOWS {
            return Ok(());
        }
        Err(Error::Refused(Refusal::invalid(
            format!("a session follows at most {MAX_FOLLOWS} elections"),
            "announce another session for the others",
        )))
    }
}
