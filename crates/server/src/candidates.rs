//! Candidates, where a policy compares them. They live in memory only: they enlist anew within seconds of a restart.
//!
//! Who has withdrawn or lapsed is not shown, and is forgotten before as many stand there as are remembered: so the memory that they take is
//! bounded by those who stand.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_election::time::Moment;
use baton_election::{AgentName, Candidate, ElectionName};
use baton_store::{Clock, Expect, Key, Reading, Record, StoreError, Swapped, Version, boot};

/// Below so many nobody is forgotten.
const FEW: usize = 64;

#[derive(Default)]
pub(crate) struct Candidates {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    enlisted: BTreeMap<(ElectionName, AgentName), Enlisted>,
    /// The last version given. One never comes back, not even to an agent that was forgotten.
    version: u64,
    /// At how many those who do not stand are forgotten next.
    enough: usize,
}

struct Enlisted {
    candidate: Candidate,
    version: u64,
    stamp: Moment,
}

impl Enlisted {
    fn stands(&self, now: Moment) -> bool {
        self.candidate.stands(now.since(self.stamp))
    }

    fn version(&self) -> Version {
        Version::new(&self.version.to_string())
    }
}

impl State {
    fn forget(&mut self, now: Moment) {
        if self.enlisted.len() >= self.enough.max(FEW) {
            self.enlisted.retain(|_, enlisted| enlisted.stands(now));
            self.enough = 2 * self.enlisted.len();
        }
    }
}

impl Candidates {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self, election: &ElectionName, agent: &AgentName) -> Reading {
        let asked_at = boot::now();
        let state = self.state();
        let found = state.enlisted.get(&(election.clone(), agent.clone()));
        Reading {
            age: found.map(|found| asked_at.since(found.stamp)),
            found: found.map(|found| (Record::Candidate(Box::new(found.candidate.clone())), found.version())),
            trace: None,
            asked_at,
            received_at: boot::now(),
        }
    }

    pub(crate) fn swap(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        expect: &Expect,
        next: &Record,
        clock: Clock,
    ) -> Result<Swapped, StoreError> {
        let Record::Candidate(candidate) = next else {
            return Err(StoreError::Refused {
                place: Key::Candidate(election.clone(), agent.clone()).to_string(),
                why: "it is no candidate".to_string(),
                hint: "this is a fault of the server".to_string(),
            });
        };
        let now = boot::now();
        let mut state = self.state();
        state.forget(now);
        let key = (election.clone(), agent.clone());
        let found = state.enlisted.get(&key);
        match (expect, found) {
            (Expect::Absent, None) => {}
            (Expect::Version(expected), Some(found)) if *expected == found.version() => {}
            (Expect::Absent | Expect::Version(_), Some(_) | None) => return Err(StoreError::Conflict),
        }
        let stamp = match (clock, found) {
            (Clock::Keep, Some(found)) => found.stamp,
            (Clock::Restart, Some(_)) | (Clock::Restart | Clock::Keep, None) => now,
        };
        state.version += 1;
        let enlisted = Enlisted { candidate: (**candidate).clone(), version: state.version, stamp };
        let version = enlisted.version();
        state.enlisted.insert(key, enlisted);
        Ok(Swapped { version })
    }

    /// At most so many of those who stand, in order: the first, or those after this one.
    pub(crate) fn list(&self, election: &ElectionName, after: Option<&Key>, limit: usize) -> Vec<Key> {
        let now = boot::now();
        let state = self.state();
        let standing = state.enlisted.iter().filter(|((of, _), one)| of == election && one.stands(now));
        let keys = standing.map(|((of, agent), _)| Key::Candidate(of.clone(), agent.clone()));
        keys.filter(|key| after.is_none_or(|after| key > after)).take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use baton_election::time::{Span, WallTime};
    use baton_election::{Incarnation, LeaseKey};

    use super::*;

    fn election() -> ElectionName {
        ElectionName::new("e").unwrap()
    }

    fn agent(number: usize) -> AgentName {
        AgentName::new(&format!("agent-{number}")).unwrap()
    }

    fn enlist(candidates: &Candidates, number: usize, withdrawn: bool) -> Result<Swapped, StoreError> {
        let candidate = Candidate {
            election: election(),
            agent: agent(number),
            incarnation: Incarnation([1; 8]),
            key_hash: LeaseKey([1; 16]).hash(),
            priority: 0,
            capabilities: std::collections::BTreeSet::new(),
            score: 0,
            load: 0,
            ttl: Span::secs(600),
            beat: 0,
            withdrawn,
            enlisted: WallTime::default(),
        };
        let next = Record::Candidate(Box::new(candidate));
        candidates.swap(&election(), &agent(number), &Expect::Absent, &next, Clock::Restart)
    }

    #[test]
    fn who_does_not_stand_is_not_shown_and_is_forgotten() {
        let candidates = Candidates::default();
        for number in 0..100 {
            enlist(&candidates, number, false).unwrap();
        }
        for number in 100..10_000 {
            enlist(&candidates, number, true).unwrap();
        }
        assert_eq!(candidates.list(&election(), None, usize::MAX).len(), 100);
        let remembered = candidates.state().enlisted.len();
        assert!(remembered <= 2 * 100 + FEW, "{remembered}");
        assert!(candidates.read(&election(), &agent(7)).found.is_some());
    }

    #[test]
    fn a_version_never_comes_back() {
        let candidates = Candidates::default();
        let first = enlist(&candidates, 0, true).unwrap().version;
        for number in 1..1_000 {
            enlist(&candidates, number, true).unwrap();
        }
        assert!(candidates.read(&election(), &agent(0)).found.is_none());
        assert_ne!(enlist(&candidates, 0, false).unwrap().version, first);
    }
}
