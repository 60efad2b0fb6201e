//! Leaders that are silent while their leases run. They are shown and told of; leases alone decide.
//!
//! Assumes that who leads rides on its session, or follows what it leads. A renewal is a sign of life as a heartbeat is. Does not see a leader that has no
//! session at this server.

use std::collections::{HashMap, HashSet};

use baton_api::describe::Suspicion;
use baton_election::time::Span;
use baton_election::{AgentName, ElectionName};

use super::suspicion::Arrivals;
use super::{Session, Sessions, load};
use crate::alerts::SuspectAgent;

/// The most leases that are looked at.
const LEASES: usize = 10_000;

/// A session that is silent, and what its agent may lead.
struct SilentAgent {
    agent: AgentName,
    arrivals: Arrivals,
    since: Span,
    asked: Span,
    elections: Vec<ElectionName>,
}

impl Sessions {
    /// Leaders for whom at least so much speaks that they are gone, while their leases run. A leader that was
    /// among them before stays until it is heard of or its lease ends, also if its session is forgotten.
    pub(crate) fn suspected_leaders(
        &self,
        least: Suspicion,
        before: HashMap<ElectionName, SuspectAgent>,
    ) -> HashMap<ElectionName, SuspectAgent> {
        let (silent, well) = self.silent(least, &before);
        let mut found: HashMap<ElectionName, SuspectAgent> = HashMap::new();
        for SilentAgent { agent, arrivals, since, asked, elections } in silent {
            if well.contains(&agent) {
                continue;
            }
            for election in elections {
                let Some(lease) = self.engine.lease(&election).filter(|lease| lease.agent == agent) else {
                    continue;
                };
                let suspicion = arrivals.suspicion(since.min(lease.age), asked);
                if suspicion >= least {
                    let (agent, epoch) = (agent.clone(), lease.epoch);
                    let leader =
                        SuspectAgent { agent, epoch, suspicion, silent: lease.age, left: lease.left };
                    found.insert(election, leader);
                }
            }
        }
        for (election, known) in before {
            if found.contains_key(&election) || well.contains(&known.agent) {
                continue;
            }
            let lease = self.engine.lease(&election);
            if let Some(lease) = lease.filter(|now| now.epoch == known.epoch && now.age >= known.silent) {
                found.insert(election, SuspectAgent { silent: lease.age, left: lease.left, ..known });
            }
        }
        found
    }

    /// The sessions that are silent, and which of their agents, or of these leaders, were heard of by another.
    fn silent(
        &self,
        least: Suspicion,
        before: &HashMap<ElectionName, SuspectAgent>,
    ) -> (Vec<SilentAgent>, HashSet<AgentName>) {
        let state = self.state();
        let mut room = LEASES;
        let is_late = |session: &Session| {
            self.engine.age(session.beat) > asked(session) && self.suspicion(session) >= least
        };
        let late: Vec<SilentAgent> = state
            .sessions
            .values()
            .filter(|session| is_late(session))
            .map(|session| {
                let rides = session.rides.iter().filter(|(_, ride)| ride.lost.is_none());
                let elections = rides.map(|(election, _)| election).chain(&session.follows);
                let elections: Vec<ElectionName> = elections.take(room).cloned().collect();
                room -= elections.len();
                SilentAgent {
                    agent: session.agent.clone(),
                    arrivals: session.arrivals.clone(),
                    since: self.engine.age(session.beat),
                    asked: asked(session),
                    elections,
                }
            })
            .collect();
        let mut asked_for: HashSet<&AgentName> = late.iter().map(|silent| &silent.agent).collect();
        asked_for.extend(before.values().map(|known| &known.agent));
        if asked_for.is_empty() {
            return (Vec::new(), HashSet::new());
        }
        let heard = state.sessions.values().filter(|session| asked_for.contains(&session.agent));
        let well = heard.filter(|session| !is_late(session)).map(|session| session.agent.clone()).collect();
        drop(asked_for);
        (late, well)
    }
}

/// How often it was asked to come.
pub(super) fn asked(session: &Session) -> Span {
    session.told.scaled(1, load::MISSED)
}
