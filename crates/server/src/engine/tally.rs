//! What there is, counted when somebody asks: a shard at a time, so that renewals wait for a sixty-fourth of it at most.

use std::sync::PoisonError;

use baton_election::document::State;
use baton_election::time::Span;
use baton_election::{AgentName, Document, ElectionName, Epoch};

use super::{Engine, Lookup};

/// The most elections whose lines are told one by one.
const LINES: usize = 10_000;

/// What there is.
#[derive(Default)]
pub(crate) struct Tally {
    /// Elections in memory.
    pub(crate) elections: u64,
    /// Leases that run.
    pub(crate) held: u64,
    /// Plain renewals since the start.
    pub(crate) renewed: u64,
    /// Candidates in line.
    pub(crate) waiting: u64,
    /// For which elections, up to a bound.
    pub(crate) lines: Vec<(ElectionName, u64)>,
    /// How often the server stood still.
    pub(crate) stalls: u64,
}

/// A lease that runs.
pub(crate) struct Lease {
    pub(crate) agent: AgentName,
    pub(crate) epoch: Epoch,
    /// How long ago it was renewed.
    pub(crate) age: Span,
    /// For how much longer it lasts at least.
    pub(crate) left: Span,
}

impl Engine {
    /// The lease of the leader of an election, as far as that is in memory.
    pub(crate) fn lease(&self, election: &ElectionName) -> Option<Lease> {
        let seen = self.shared.seen(election, |known, age| {
            let (agent, _, running) = known.compact.leader().filter(|(.., running)| age < running.ttl)?;
            let agent = AgentName::new(agent).ok()?;
            Some(Lease { agent, epoch: running.epoch, age, left: running.ttl.minus(age) })
        });
        match seen {
            Lookup::Known(lease) => lease,
            Lookup::Absent | Lookup::Unknown(_) => None,
        }
    }

    pub(crate) async fn tally(&self) -> Tally {
        let mut tally = Tally { stalls: self.shared.clock.stalls(), ..Tally::default() };
        for shard in &self.shared.shards {
            {
                let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                let now = self.shared.clock.now();
                let runs = |known: &&super::CachedElection| {
                    known.compact.lease().is_some_and(|lease| self.shared.clock.age(known.stamp, now) < lease)
                };
                tally.elections +=
                    shard.known.iter().filter(|known| !known.compact.is_retired()).count() as u64;
                tally.held += shard.known.iter().filter(runs).count() as u64;
                tally.renewed += shard.renewed;
                for (election, line) in &shard.lines {
                    tally.waiting += line.len() as u64;
                    if tally.lines.len() < LINES {
                        tally.lines.push((election.clone(), line.len() as u64));
                    }
                }
            }
            tokio::task::yield_now().await;
        }
        tally
    }

    /// How many agents wait in line, by election; up to a bound of elections.
    pub fn in_line(&self) -> Vec<(ElectionName, u64)> {
        let mut lines = Vec::new();
        for shard in &self.shared.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let room = LINES - lines.len();
            lines.extend(
                shard.lines.iter().take(room).map(|(election, line)| (election.clone(), line.len() as u64)),
            );
        }
        lines
    }

    /// For how long nobody has led an election, as far as that is in memory. None if somebody does, if nobody ever did, if the work is done, or
    /// if people stopped it.
    pub(crate) fn leaderless(&self, election: &ElectionName) -> Option<Span> {
        let seen = self.shared.seen(election, |known, age| {
            let runs = known.compact.running.is_some_and(|running| age < running.ttl);
            if runs { None } else { leaderless(&known.document(election), age) }
        });
        match seen {
            Lookup::Known(leaderless) => leaderless,
            Lookup::Absent | Lookup::Unknown(_) => None,
        }
    }
}

fn leaderless(document: &Document, age: Span) -> Option<Span> {
    document.last_transition.as_ref().filter(|_| document.finished().is_none())?;
    match document.state {
        State::Paused | State::AwaitingApproval => None,
        // Whose lease still runs leads, or is about to stop.
        State::Vacant | State::Held => {
            (document.lease_remaining(age) == Span::ZERO).then(|| document.vacancy(age))
        }
    }
}
