//! Candidates, where a policy compares them. They live in memory only: they enlist anew within seconds of a restart.
//!
//! Who has withdrawn or lapsed is not shown, and is forgotten before as many stand there as are remembered: so the memory that they take is
//! bounded by those who stand, of whom there are so many at most.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_election::time::{Moment, Span};
use baton_election::{AgentName, Candidate, ElectionName};
use baton_store::{Clock, Expect, Key, Reading, Record, StoreError, Swapped, Version, boot};

/// How long a candidate stands at a server unless it says so again, whatever it asks for.
pub(crate) const LONGEST: Span = Span::secs(5 * 60);
/// The most candidates of one election.
const MOST_OF_ONE: usize = 10_000;
/// The most candidates of all elections.
const MOST: usize = 100_000;
/// Below so many nobody is forgotten.
const FEW: usize = 64;
/// Where there is no room, how often those who do not stand are looked for.
const LOOK: Span = Span::secs(1);

#[derive(Default)]
pub(crate) struct Candidates {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    enlisted: BTreeMap<ElectionName, BTreeMap<AgentName, Enlisted>>,
    /// How many they are.
    count: usize,
    /// The last version given. One never comes back, not even to an agent that was forgotten.
    version: u64,
    /// At how many those who do not stand are forgotten next.
    enough: usize,
    /// When they were forgotten last.
    forgot: Option<Moment>,
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
    fn find(&self, election: &ElectionName, agent: &AgentName) -> Option<&Enlisted> {
        self.enlisted.get(election)?.get(agent)
    }

    /// Forgets those who do not stand, if they may be many.
    fn forget(&mut self, now: Moment) {
        if self.count >= self.enough.max(FEW) {
            self.forget_all(now);
        }
    }

    fn forget_all(&mut self, now: Moment) {
        self.enlisted.retain(|_, of| {
            of.retain(|_, enlisted| enlisted.stands(now));
            !of.is_empty()
        });
        self.count = self.enlisted.values().map(BTreeMap::len).sum();
        self.enough = 2 * self.count;
        self.forgot = Some(now);
    }

    /// Whether one is there, or one more may be.
    fn has_room(&mut self, election: &ElectionName, agent: &AgentName, now: Moment) -> bool {
        if self.may_have(election, agent) {
            return true;
        }
        if self.forgot.is_none_or(|forgot| now.since(forgot) >= LOOK) {
            self.forget_all(now);
        }
        self.may_have(election, agent)
    }

    fn may_have(&self, election: &ElectionName, agent: &AgentName) -> bool {
        let of_one = self.enlisted.get(election).map_or(0, BTreeMap::len);
        self.find(election, agent).is_some() || of_one < MOST_OF_ONE && self.count < MOST
    }
}

impl Candidates {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many stand for which elections.
    pub(crate) fn standing(&self) -> Vec<(ElectionName, u64)> {
        let now = boot::now();
        let state = self.state();
        let counts = state.enlisted.iter().map(|(election, of)| {
            (election.clone(), of.values().filter(|enlisted| enlisted.stands(now)).count() as u64)
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }

    pub(crate) fn read(&self, election: &ElectionName, agent: &AgentName) -> Reading {
        let asked_at = boot::now();
        let state = self.state();
        let found = state.find(election, agent);
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
            return Err(refused(election, agent, "it is no candidate", "this is a fault of the server"));
        };
        let now = boot::now();
        let mut state = self.state();
        state.forget(now);
        if !state.has_room(election, agent, now) {
            let why = "there are as many candidates as there may be";
            return Err(refused(election, agent, why, "try again when some have withdrawn"));
        }
        let found = state.find(election, agent);
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
        let before = state.enlisted.entry(election.clone()).or_default().insert(agent.clone(), enlisted);
        state.count += usize::from(before.is_none());
        Ok(Swapped { version })
    }

    /// Whether one may stand. Who is remembered may.
    pub(crate) fn has_room(&self, election: &ElectionName, agent: &AgentName) -> bool {
        self.state().has_room(election, agent, boot::now())
    }

    /// At most so many of those who stand, in order: the first, or those after this one.
    pub(crate) fn list(&self, election: &ElectionName, after: Option<&Key>, limit: usize) -> Vec<Key> {
        let now = boot::now();
        let state = self.state();
        let from = match after {
            Some(Key::Candidate(of, agent)) if of == election => Bound::Excluded(agent),
            Some(_) | None => Bound::Unbounded,
        };
        let of_one = state.enlisted.get(election).into_iter();
        let standing = of_one
            .flat_map(|of| of.range::<AgentName, _>((from, Bound::Unbounded)))
            .filter(|(_, one)| one.stands(now));
        standing.map(|(agent, _)| Key::Candidate(election.clone(), agent.clone())).take(limit).collect()
    }
}

fn refused(election: &ElectionName, agent: &AgentName, why: &str, hint: &str) -> StoreError {
    StoreError::Refused {
        place: Key::Candidate(election.clone(), agent.clone()).to_string(),
        why: why.to_string(),
        hint: hint.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use baton_election::time::WallTime;
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
        let remembered = candidates.state().count;
        assert!(remembered <= 2 * 100 + FEW, "{remembered}");
        assert!(candidates.read(&election(), &agent(7)).found.is_some());
    }

    #[test]
    fn so_many_stand_and_no_more_until_some_withdraw() {
        let candidates = Candidates::default();
        for number in 0..MOST_OF_ONE {
            enlist(&candidates, number, false).unwrap();
        }
        assert!(!candidates.has_room(&election(), &agent(MOST_OF_ONE)));
        assert!(matches!(enlist(&candidates, MOST_OF_ONE, false), Err(StoreError::Refused { .. })));
        assert!(candidates.has_room(&election(), &agent(7)), "who stands goes on");
        assert!(candidates.has_room(&ElectionName::new("other").unwrap(), &agent(0)));
        let seventh = candidates.read(&election(), &agent(7)).found.unwrap();
        let Record::Candidate(mut candidate) = seventh.0 else { panic!("it is a candidate") };
        candidate.withdrawn = true;
        let (next, expect) = (Record::Candidate(candidate), Expect::Version(seventh.1));
        candidates.swap(&election(), &agent(7), &expect, &next, Clock::Keep).unwrap();
        candidates.state().forgot = None;
        enlist(&candidates, MOST_OF_ONE, false).unwrap();
        assert_eq!(candidates.state().count, MOST_OF_ONE);
    }

    #[test]
    fn parts_of_a_list_follow_each_other() {
        let candidates = Candidates::default();
        for number in 0..10 {
            enlist(&candidates, number, number == 3).unwrap();
        }
        let all = candidates.list(&election(), None, usize::MAX);
        assert_eq!(all.len(), 9);
        let first = candidates.list(&election(), None, 4);
        let rest = candidates.list(&election(), first.last(), usize::MAX);
        assert_eq!([first, rest].concat(), all);
        assert!(candidates.list(&ElectionName::new("d").unwrap(), None, 4).is_empty());
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
