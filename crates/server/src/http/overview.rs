//! Elections in one line each: for those who look at many at once.

use std::collections::HashMap;

use baton_api::describe::{SUSPECT, Suspicion};
use baton_api::waiting::{MOST_SHOWN, Waiting};
use baton_election::document::{Cause, Document, Leader, Pause, Phase, Question, State, Transition};
use baton_election::operator::PublicKey;
use baton_election::region::Region;
use baton_election::time::{Span, WallTime};
use baton_election::{AgentName, ElectionName, Epoch};
use baton_store::{Key, Prefix, Store};
use schemars::JsonSchema;
use serde::Serialize;

use super::Service;
use super::calls::Call;
use super::pace::Pace;
use super::reply::{Problem, Reply, json as answer};

/// The most elections of one answer.
const MOST: usize = 1_000;

/// An election as a list shows it: without the state that its checkpoint carries, which may be large.
#[derive(Serialize, JsonSchema)]
pub(super) struct Row {
    election: ElectionName,
    state: State,
    epoch: Epoch,
    /// Who holds the lease while it lasts.
    leader: Option<Holder>,
    /// Whose leadership was ended from outside while its lease may still be running.
    outgoing: Option<Holder>,
    /// How much longer the lease of either may last.
    lease_ms: u64,
    task: Option<String>,
    reserved_for: Option<AgentName>,
    paused: Option<Pause>,
    /// What an operator is asked, if anything.
    question: Option<Question>,
    /// How the last leadership ended, while there is no new one.
    departure: Option<Departed>,
    /// Nobody leads what somebody led, and its work is not done.
    degraded: bool,
    /// When the last leader said that its work is done, if nobody has led since.
    finished: Option<WallTime>,
    /// Since when, for people, if that is known.
    leaderless_since: Option<WallTime>,
    last_transition: Option<Transition>,
    /// How many of those who follow know of the last change of leader. Not told with changes.
    participation: Option<Participation>,
    /// How many agents wait in line to lead, up to a bound. Not told with changes.
    in_line: Option<usize>,
    /// The last act of an operator.
    last_act: Option<Acted>,
    /// An operator retired it: it is in no list. Only told with changes.
    forgotten: bool,
    /// Why it cannot be read: then nothing else is known of it.
    trouble: Option<String>,
}

/// Who holds a lease.
#[derive(Serialize, JsonSchema)]
struct Holder {
    agent: AgentName,
    epoch: Epoch,
    phase: Phase,
    contact: Option<String>,
    ttl_ms: u64,
    /// It leads after one renewal.
    offered: bool,
    /// The region from which it leads, if it leads from one.
    region: Option<Region>,
    /// The suspicion level (φ), if the agent has a session. For people: the lease alone decides. Not sent with changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    suspicion: Option<Suspicion>,
}

/// How many agents know of the leader of an election, how many wait in line, and whether the leader is
/// suspected to be gone: what changes without a change of the election.
#[derive(Clone, PartialEq, Serialize)]
pub(super) struct Attended {
    election: ElectionName,
    participation: Option<Participation>,
    /// How many agents wait in line to lead, up to a bound.
    in_line: usize,
    /// Only of one who is suspected: of the others it is another at every look.
    suspicion: Option<Suspicion>,
}

/// Who knows of the last change of leader, of those with a session that followed when it happened.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
struct Participation {
    acknowledged: u64,
    expected: u64,
}

/// What an operator did.
#[derive(Serialize, JsonSchema)]
struct Acted {
    number: u64,
    act: String,
    by: PublicKey,
    at: WallTime,
    ended: Option<AgentName>,
}

/// How a leadership ended.
#[derive(Serialize, JsonSchema)]
struct Departed {
    agent: AgentName,
    cause: Cause,
    reason: String,
    at: WallTime,
}

fn holder(leader: &Leader) -> Holder {
    Holder {
        agent: leader.agent.clone(),
        epoch: leader.epoch,
        phase: leader.phase,
        contact: leader.contact.as_deref().map(ToString::to_string),
        ttl_ms: leader.lease().as_millis(),
        offered: leader.offered,
        region: leader.region.as_deref().cloned(),
        suspicion: None,
    }
}

/// An election in one line, given the age of its last beat.
pub(super) fn row(document: &Document, age: Span) -> Row {
    let leaderless = document.leaderless(age);
    Row {
        election: document.election.clone(),
        state: document.state,
        epoch: document.epoch,
        leader: document.leader.as_ref().map(holder),
        outgoing: document.outgoing.as_ref().map(holder),
        lease_ms: document.lease_remaining(age).as_millis(),
        task: document.task.as_deref().map(ToString::to_string),
        reserved_for: document.reserved_for.as_ref().map(|kept| kept.agent.clone()),
        paused: document.paused.clone(),
        question: document.approval.question.clone(),
        departure: document.departure.as_ref().map(|departure| Departed {
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
        last_act: document.last_act.as_ref().map(|last| Acted {
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

impl Row {
    /// With how much speaks against its leader, of all agents that have sessions.
    fn suspecting(mut self, agents: &HashMap<AgentName, Suspicion>) -> Row {
        if let Some(leader) = &mut self.leader {
            leader.suspicion = agents.get(&leader.agent).copied();
        }
        self
    }
}

impl Service {
    /// An election in one line, with what its followers know.
    async fn row_now(&self, document: &Document, age: Span) -> Row {
        let in_line = Some(self.in_line(&document.election, MOST_SHOWN).await.len());
        Row { participation: self.participation(&document.election), in_line, ..row(document, age) }
    }

    /// Those who wait in line to lead: at this server, or, if it only observes, in the store.
    pub(super) async fn in_line(&self, election: &ElectionName, limit: usize) -> Vec<Waiting> {
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
    ) -> Attended {
        let leader = document.leader.as_ref();
        let suspicion = leader.and_then(|leader| agents.get(&leader.agent)).copied();
        Attended {
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
            let part = self.behind.list_part(&Prefix::Elections, after.as_ref(), MOST).await?;
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
                            rows.push(self.row_now(document, view.age).await.suspecting(&agents));
                        }
                    }
                    Err(error) if error.is_passing() => return Err(error.into()),
                    // What is wrong with one election hides none of the others.
                    Err(error) => {
                        let nothing = Document::new(election.clone(), self.engine.info().id, Epoch(0), &[]);
                        rows.push(Row { trouble: Some(error.to_string()), ..row(&nothing, Span::ZERO) });
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
