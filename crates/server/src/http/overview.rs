//! Elections in one line each: for those who look at many at once.

use std::collections::HashMap;

use baton_api::describe::{SUSPECT, Suspicion};
use baton_api::summary::{
    ActSummary, AttendanceEvent, DepartureSummary, ElectionSummary, HolderSummary, Participation,
};
use baton_api::waiting::{MOST_SHOWN, WaitingCandidate};
use baton_election::document::{Document, Leader};
use baton_election::time::Span;
use baton_election::{AgentName, ElectionName, Epoch};
use baton_store::{Key, Prefix, Store};

use super::Service;
use super::calls::Call;
use super::pace::Pace;
use super::reply::{Problem, Reply, json as answer};

/// The most elections of one answer.
const MOST: usize = 1_000;

fn holder(leader: &Leader) -> HolderSummary {
    HolderSummary {
        agent: leader.agent.clone(),
        token: leader.epoch,
        phase: leader.phase,
        contact: leader.contact.as_deref().map(ToString::to_string),
        ttl_ms: leader.lease().as_millis(),
        offered: leader.offered,
        region: leader.region.as_deref().cloned(),
        suspicion: None,
    }
}

/// An election in one line, given the age of its last beat.
pub(super) fn row(document: &Document, age: Span) -> ElectionSummary {
    let leaderless = document.leaderless(age);
    ElectionSummary {
        election: document.election.clone(),
        state: document.state,
        token: document.epoch,
        leader: document.leader.as_ref().map(holder),
        outgoing: document.outgoing.as_ref().map(holder),
        lease_ms: document.lease_remaining(age).as_millis(),
        task: document.task.as_deref().map(ToString::to_string),
        reserved_for: document.reserved_for.as_ref().map(|kept| kept.agent.clone()),
        paused: document.paused.clone(),
        question: document.approval.question.clone(),
        departure: document.departure.as_ref().map(|departure| DepartureSummary {
            agent: departure.agent.clone(),
            cause: departure.cause,
            reason: departure.reason.clone(),
            at: departure.at,
        }),
        degraded: leaderless.is_some(),
        finished: document.finished(),
        leaderless_since: leaderless.and_then(|leaderless| leaderless.since),
        last_transition: document.last_transition.as_deref().cloned(),
        participation: None,
        in_line: None,
        last_act: document.last_act.as_ref().map(|last| ActSummary {
            number: last.number,
            act: last.act.clone(),
            by: last.by,
            at: last.at,
            ended: last.ended.clone(),
        }),
        forgotten: document.is_retired(),
        trouble: None,
    }
}

/// Adds the suspicion level of the leader, if it has a session.
fn suspecting(mut row: ElectionSummary, agents: &HashMap<AgentName, Suspicion>) -> ElectionSummary {
    if let Some(leader) = &mut row.leader {
        leader.suspicion = agents.get(&leader.agent).copied();
    }
    row
}

impl Service {
    /// An election in one line, with what its followers know.
    async fn row_now(&self, document: &Document, age: Span) -> ElectionSummary {
        let in_line = Some(self.in_line(&document.election, MOST_SHOWN).await.len());
        ElectionSummary {
            participation: self.participation(&document.election),
            in_line,
            ..row(document, age)
        }
    }

    /// Those who wait in line to lead: at this server, or, if it only observes, in the store.
    pub(super) async fn in_line(&self, election: &ElectionName, limit: usize) -> Vec<WaitingCandidate> {
        match self.engine.store().waiters() {
            Some(waiters) if self.engine.observes() => {
                waiters.waiting(election, limit).await.unwrap_or_default()
            }
            Some(_) | None => self.engine.waiting(election, limit),
        }
    }

    fn participation(&self, election: &ElectionName) -> Option<Participation> {
        let (acknowledged, expected) = self.sessions.participation(election)?;
        Some(Participation { acknowledged, expected })
    }

    /// How many agents know of the leader of an election and how many wait, given how much speaks against
    /// agents.
    pub(super) async fn attended(
        &self,
        document: &Document,
        agents: &HashMap<AgentName, Suspicion>,
    ) -> AttendanceEvent {
        let leader = document.leader.as_ref();
        let suspicion = leader.and_then(|leader| agents.get(&leader.agent)).copied();
        AttendanceEvent {
            election: document.election.clone(),
            participation: self.participation(&document.election),
            in_line: self.in_line(&document.election, MOST_SHOWN).await.len(),
            suspicion: suspicion.filter(|suspicion| *suspicion >= SUSPECT),
        }
    }

    /// Elections in the order of their names: the first that this one may see, or those after `after`. Fewer than were asked for are
    /// the last.
    pub(super) async fn overview(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let limit = call.limit(MOST)?;
        self.engine.look_for_new().await;
        let after = call.parameter("after").map(|after| Prefix::Elections.key(&after)).transpose();
        let mut after = after.map_err(baton::Error::from)?;
        let (agents, mut rows) = (self.sessions.suspicions(|_| true), Vec::new());
        let pace = Pace::default();
        loop {
            let part = self.store.list_part(&Prefix::Elections, after.as_ref(), MOST).await?;
            let is_last = part.len() < MOST;
            self.reads.looked_at(call.who, part.len());
            for key in &part {
                pace.breathe().await;
                let Key::Election(election) = key else { continue };
                if rows.len() == limit || !call.who.identity.sees(election.as_str()) {
                    continue;
                }
                match self.engine.view(election).await {
                    Ok(view) => {
                        if let Some(document) = view.document.as_ref().filter(|one| !one.is_retired()) {
                            rows.push(suspecting(self.row_now(document, view.age).await, &agents));
                        }
                    }
                    Err(error) if error.is_passing() => return Err(error.into()),
                    // What is wrong with one election hides none of the others.
                    Err(error) => {
                        let nothing = Document::new(election.clone(), self.engine.info().id, Epoch(0), &[]);
                        rows.push(ElectionSummary {
                            trouble: Some(error.to_string()),
                            ..row(&nothing, Span::ZERO)
                        });
                    }
                }
            }
            if is_last || rows.len() == limit {
                return answer(&rows);
            }
            after = part.last().cloned();
        }
    }
}
