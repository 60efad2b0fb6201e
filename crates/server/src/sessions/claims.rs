//! What agents say that they lead. Nobody believes it: it is shown, and two who say so at once are told of.

use std::collections::HashMap;

use baton_api::sessions::{LeadershipClaim, MAX_CLAIMS};
use baton_election::time::Moment;
use baton_election::{ElectionName, Refusal};
use baton_store::boot;

use super::{Session, Sessions};
use crate::alerts::ClaimedLeader;

/// The most elections that are looked at, and the most who say of one that they lead it: two are too many.
const ELECTIONS: usize = 10_000;
const OF_ONE: usize = 32;

/// That a session says that it leads.
pub(super) struct StandingClaim {
    avowal: LeadershipClaim,
    /// When it said so first, without saying otherwise since, and when last.
    first: Moment,
    last: Moment,
}

impl StandingClaim {
    pub(super) fn shown(&self) -> LeadershipClaim {
        self.avowal.clone()
    }
}

/// Refuses more than one can say.
pub(super) fn check(leads: Option<&[LeadershipClaim]>) -> Result<(), Refusal> {
    match leads {
        Some(leads) if leads.len() > MAX_CLAIMS => Err(Refusal::invalid(
            format!("a session says of at most {MAX_CLAIMS} elections that it leads them"),
            "announce another session for the others",
        )),
        Some(_) | None => Ok(()),
    }
}

impl Session {
    /// Takes in what it leads by its own word. A new term is a new avowal.
    pub(super) fn avow(&mut self, leads: Option<Vec<LeadershipClaim>>) {
        let Some(leads) = leads else { return };
        let now = boot::now();
        let before = std::mem::take(&mut self.avowals);
        for avowal in leads {
            let first = before.iter().find(|known| known.avowal == avowal).map_or(now, |known| known.first);
            self.avowals.push(StandingClaim { avowal, first, last: now });
        }
    }
}

impl Sessions {
    /// What live sessions say that they lead, by election.
    pub(crate) fn avowals(&self) -> HashMap<ElectionName, Vec<ClaimedLeader>> {
        let state = self.state();
        let mut avowals: HashMap<ElectionName, Vec<ClaimedLeader>> = HashMap::new();
        for session in state.sessions.values().filter(|session| !session.avowals.is_empty()) {
            if !self.is_alive(session) {
                continue;
            }
            for StandingClaim { avowal, first, last } in &session.avowals {
                let avowed = ClaimedLeader {
                    agent: session.agent.clone(),
                    term: avowal.term,
                    first: *first,
                    last: *last,
                };
                if avowals.len() >= ELECTIONS && !avowals.contains_key(&avowal.election) {
                    continue;
                }
                let of_one = avowals.entry(avowal.election.clone()).or_default();
                if of_one.len() < OF_ONE {
                    of_one.push(avowed);
                }
            }
        }
        avowals
    }
}
