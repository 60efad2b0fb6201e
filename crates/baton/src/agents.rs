//! The agents that are there: those with a session, those that lead, those that stand.
//!
//! Guarantees nothing that a lease does not: an agent that is shown as gone may be there, and the other way around. In a store without sessions
//! only those are known that lead or stand.

use std::collections::BTreeMap;

use baton_api::describe::{SUSPECT, Suspicion};
use baton_api::sessions::SessionView;
use baton_election::document::State;
use baton_election::{AgentName, ElectionName};
use baton_store::StoreError;
use futures_util::{StreamExt, stream};

use crate::coordinator::Coordinator;
use crate::error::Error;

/// The most elections that are looked at.
const MOST: usize = 10_000;
/// How many at once.
const AT_ONCE: usize = 16;

/// An agent, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentView {
    /// Who.
    pub agent: AgentName,
    /// Its sessions, if it has any; the one that was heard of last stands first.
    pub sessions: Vec<SessionView>,
    /// What it leads, by documents whose leases run.
    pub leads: Vec<ElectionName>,
    /// What it stands for, where a policy compares candidates, or waits in line for.
    pub stands_for: Vec<ElectionName>,
}

/// Whether an agent is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It was heard of when it should have been.
    Alive,
    /// It is later than it usually is.
    Late,
    /// It is so late that it is most likely gone.
    Suspected,
    /// It has no session: all that is known is that it leads or stands.
    Unknown,
}

impl Presence {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Presence::Alive => "alive",
            Presence::Late => "late",
            Presence::Suspected => "suspect",
            Presence::Unknown => "no-session",
        }
    }
}

/// From here on it is late: one in a hundred is.
const LATE: Suspicion = Suspicion::of_hundredths(200);

impl AgentView {
    fn new(agent: AgentName) -> AgentView {
        AgentView { agent, sessions: Vec::new(), leads: Vec::new(), stands_for: Vec::new() }
    }

    /// The suspicion level (φ); none without a session.
    pub fn suspicion(&self) -> Option<Suspicion> {
        self.sessions.iter().map(|session| session.suspicion).min()
    }

    /// Whether it is there.
    pub fn presence(&self) -> Presence {
        match self.suspicion() {
            None => Presence::Unknown,
            Some(suspicion) if suspicion >= SUSPECT => Presence::Suspected,
            Some(suspicion) if suspicion >= LATE => Presence::Late,
            Some(_) => Presence::Alive,
        }
    }
}

impl Coordinator {
    /// All agents that are known, by name.
    pub async fn agents(&self) -> Result<Vec<AgentView>, Error> {
        let mut all: BTreeMap<AgentName, AgentView> = BTreeMap::new();
        fn of<'a>(all: &'a mut BTreeMap<AgentName, AgentView>, agent: &AgentName) -> &'a mut AgentView {
            all.entry(agent.clone()).or_insert_with(|| AgentView::new(agent.clone()))
        }
        if self.server_sessions().is_ok() {
            for session in self.sessions().await? {
                of(&mut all, &session.agent).sessions.push(session);
            }
        }
        let mut elections = self.elections().await?;
        elections.truncate(MOST);
        let looks = elections.into_iter().map(|election| async move {
            let seen = self.look_at(&election).await;
            (election, seen)
        });
        let mut looks = stream::iter(looks).buffered(AT_ONCE);
        while let Some((election, seen)) = looks.next().await {
            let (leader, candidates) = match seen {
                Ok(seen) => seen,
                // What is wrong with one record says nothing of the others.
                Err(Error::Store(error)) if !error.is_passing() => continue,
                Err(error) => return Err(error),
            };
            if let Some(leader) = leader {
                of(&mut all, &leader).leads.push(election.clone());
            }
            candidates.iter().for_each(|agent| of(&mut all, agent).stands_for.push(election.clone()));
        }
        drop(looks);
        all.values_mut().for_each(|agent| agent.sessions.sort_by_key(|session| session.silent_ms));
        Ok(all.into_values().collect())
    }

    /// The leader of an election, and the candidates that stand for it.
    async fn look_at(&self, election: &ElectionName) -> Result<(Option<AgentName>, Vec<AgentName>), Error> {
        let view = self.view(election).await?;
        let awaiting = view.document.as_ref().filter(|document| document.state == State::AwaitingApproval);
        let leader = view.leader().or_else(|| awaiting?.leader.as_ref()).map(|leader| leader.agent.clone());
        let compares = view.document.as_ref().is_some_and(|document| document.policy.select.compares());
        if view.native {
            return Ok((leader, Vec::new()));
        }
        if !compares {
            // Whatever ails the notes of those who wait, the leader is shown.
            let waiting = self.candidates().waiting(election).await.unwrap_or_default();
            return Ok((leader, waiting.into_iter().map(|waiting| waiting.agent).collect()));
        }
        let candidates = match self.candidates().list(election).await {
            Ok(candidates) => candidates,
            Err(Error::Store(StoreError::Refused { .. })) => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok((leader, candidates.into_iter().map(|candidate| candidate.agent).collect()))
    }
}
