//! Candidates, where a policy compares them. They live in memory only: they enlist anew within seconds of a restart.
//!
//! A candidate that has withdrawn or lapsed is not shown. Such candidates are forgotten once there are twice
//! as many candidates as stood when some were last forgotten: so the memory that candidates take is bounded
//! by those who stand, of whom there are so many at most. One access token has at most a quarter of the
//! places, so that no token keeps the others out. Candidates without a token cannot be told apart, and share
//! what there is.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_election::time::{Moment, Span};
use baton_election::{AgentName, Candidate, ElectionName, TokenId};
use baton_store::{AgeStamp, Expect, Key, Reading, Record, StoreError, Swapped, Version, boot};

/// How long a candidate stands at a server unless it says so again, whatever it asks for.
pub(crate) const LONGEST: Span = Span::secs(5 * 60);
/// The most candidates of one election.
const MOST_OF_ONE: usize = 10_000;
/// The most candidates of all elections.
const MOST: usize = 100_000;
/// Which part of either one token may have: one in so many.
const PART_OF_A_TOKEN: usize = 4;
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
    fields: BTreeMap<ElectionName, Field>,
    /// How many candidates there are.
    count: usize,
    /// How many each token has.
    by_token: HashMap<TokenId, usize>,
    /// The last version given. One never comes back, not even to an agent that was forgotten.
    version: u64,
    /// At how many those who do not stand are forgotten next.
    enough: usize,
    /// When they were forgotten last.
    forgot: Option<Moment>,
}

/// The candidates of one election.
#[derive(Default)]
struct Field {
    enlisted: BTreeMap<AgentName, Enlisted>,
    by_token: HashMap<TokenId, usize>,
}

/// Why one more may not stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// There are as many as there may be.
    Full,
    /// Its token has as many as one may have.
    TokenFull,
}

impl NoRoom {
    pub(crate) fn why(self) -> &'static str {
        match self {
            NoRoom::Full => "there are as many candidates as there may be",
            NoRoom::TokenFull => "this token has as many candidates as one may have",
        }
    }
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
        self.fields.get(election)?.enlisted.get(agent)
    }

    fn put(&mut self, election: &ElectionName, agent: &AgentName, enlisted: Enlisted) {
        let through = enlisted.candidate.through;
        let field = self.fields.entry(election.clone()).or_default();
        let before = field.enlisted.insert(agent.clone(), enlisted);
        self.count += usize::from(before.is_none());
        if let Some(token) = before.and_then(|before| before.candidate.through) {
            one_less(&mut field.by_token, token);
            one_less(&mut self.by_token, token);
        }
        if let Some(token) = through {
            *field.by_token.entry(token).or_default() += 1;
            *self.by_token.entry(token).or_default() += 1;
        }
    }

    /// Forgets those who do not stand, if they may be many.
    fn forget(&mut self, now: Moment) {
        if self.count >= self.enough.max(FEW) {
            self.forget_all(now);
        }
    }

    fn forget_all(&mut self, now: Moment) {
        let State { fields, by_token, .. } = self;
        fields.retain(|_, field| {
            field.enlisted.retain(|_, enlisted| {
                let stands = enlisted.stands(now);
                if let Some(token) = enlisted.candidate.through.filter(|_| !stands) {
                    one_less(&mut field.by_token, token);
                    one_less(by_token, token);
                }
                stands
            });
            !field.enlisted.is_empty()
        });
        self.count = self.fields.values().map(|field| field.enlisted.len()).sum();
        self.enough = 2 * self.count;
        self.forgot = Some(now);
    }

    /// Whether this one is there, or one more may be.
    fn has_room(&mut self, candidate: &Candidate, now: Moment) -> Result<(), NoRoom> {
        let room = self.may_have(candidate);
        if room.is_ok() || self.forgot.is_some_and(|forgot| now.since(forgot) < LOOK) {
            return room;
        }
        self.forget_all(now);
        self.may_have(candidate)
    }

    fn may_have(&self, candidate: &Candidate) -> Result<(), NoRoom> {
        let Candidate { election, agent, through, .. } = candidate;
        let found = self.find(election, agent);
        if found.is_some_and(|found| found.candidate.through == *through) {
            return Ok(());
        }
        let field = self.fields.get(election);
        if let Some(token) = through {
            let of_one = field.and_then(|field| field.by_token.get(token)).copied().unwrap_or(0);
            let of_all = self.by_token.get(token).copied().unwrap_or(0);
            if of_one >= MOST_OF_ONE / PART_OF_A_TOKEN || of_all >= MOST / PART_OF_A_TOKEN {
                return Err(NoRoom::TokenFull);
            }
        }
        let of_one = field.map_or(0, |field| field.enlisted.len());
        match found.is_some() || of_one < MOST_OF_ONE && self.count < MOST {
            true => Ok(()),
            false => Err(NoRoom::Full),
        }
    }
}

fn one_less(counts: &mut HashMap<TokenId, usize>, token: TokenId) {
    let Some(count) = counts.get_mut(&token) else { return };
    *count -= 1;
    if *count == 0 {
        counts.remove(&token);
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
        let counts = state.fields.iter().map(|(election, field)| {
            let standing = field.enlisted.values().filter(|enlisted| enlisted.stands(now));
            (election.clone(), standing.count() as u64)
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
        clock: AgeStamp,
    ) -> Result<Swapped, StoreError> {
        let Record::Candidate(candidate) = next else {
            return Err(refused(election, agent, "it is no candidate", "this is a fault of the server"));
        };
        let now = boot::now();
        let mut state = self.state();
        state.forget(now);
        if let Err(no_room) = state.has_room(candidate, now) {
            return Err(refused(election, agent, no_room.why(), "try again when some have withdrawn"));
        }
        let found = state.find(election, agent);
        match (expect, found) {
            (Expect::Absent, None) => {}
            (Expect::Version(expected), Some(found)) if *expected == found.version() => {}
            (Expect::Absent | Expect::Version(_), Some(_) | None) => return Err(StoreError::Conflict),
        }
        let stamp = match (clock, found) {
            (AgeStamp::Preserve, Some(found)) => found.stamp,
            (AgeStamp::Reset, Some(_)) | (AgeStamp::Reset | AgeStamp::Preserve, None) => now,
        };
        state.version += 1;
        let enlisted = Enlisted { candidate: (**candidate).clone(), version: state.version, stamp };
        let version = enlisted.version();
        state.put(election, agent, enlisted);
        Ok(Swapped { version })
    }

    /// Whether one may stand. A candidate that is remembered may.
    pub(crate) fn has_room(&self, candidate: &Candidate) -> Result<(), NoRoom> {
        self.state().has_room(candidate, boot::now())
    }

    /// At most so many of those who stand, in order: the first, or those after this one.
    pub(crate) fn list(&self, election: &ElectionName, after: Option<&Key>, limit: usize) -> Vec<Key> {
        let now = boot::now();
        let state = self.state();
        let from = match after {
            Some(Key::Candidate(of, agent)) if of == election => Bound::Excluded(agent),
            Some(_) | None => Bound::Unbounded,
        };
        let of_one = state.fields.get(election).into_iter();
        let standing = of_one
            .flat_map(|field| field.enlisted.range::<AgentName, _>((from, Bound::Unbounded)))
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

    fn candidate(number: usize, withdrawn: bool) -> Candidate {
        Candidate {
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
            through: None,
        }
    }

    fn enlist(candidates: &Candidates, number: usize, withdrawn: bool) -> Result<Swapped, StoreError> {
        put(candidates, candidate(number, withdrawn))
    }

    fn enlist_by(candidates: &Candidates, token: u8, number: usize) -> Result<Swapped, StoreError> {
        put(candidates, Candidate { through: Some(TokenId([token; 6])), ..candidate(number, false) })
    }

    fn put(candidates: &Candidates, candidate: Candidate) -> Result<Swapped, StoreError> {
        let (election, agent) = (candidate.election.clone(), candidate.agent.clone());
        let expect = match candidates.read(&election, &agent).found {
            Some((_, version)) => Expect::Version(version),
            None => Expect::Absent,
        };
        let next = Record::Candidate(Box::new(candidate));
        candidates.swap(&election, &agent, &expect, &next, AgeStamp::Reset)
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
        assert_eq!(candidates.has_room(&candidate(MOST_OF_ONE, false)), Err(NoRoom::Full));
        assert!(matches!(enlist(&candidates, MOST_OF_ONE, false), Err(StoreError::Refused { .. })));
        assert_eq!(candidates.has_room(&candidate(7, false)), Ok(()), "who stands goes on");
        let elsewhere = Candidate { election: ElectionName::new("other").unwrap(), ..candidate(0, false) };
        assert_eq!(candidates.has_room(&elsewhere), Ok(()));
        let seventh = candidates.read(&election(), &agent(7)).found.unwrap();
        let Record::Candidate(mut candidate) = seventh.0 else { panic!("it is a candidate") };
        candidate.withdrawn = true;
        let (next, expect) = (Record::Candidate(candidate), Expect::Version(seventh.1));
        candidates.swap(&election(), &agent(7), &expect, &next, AgeStamp::Preserve).unwrap();
        candidates.state().forgot = None;
        enlist(&candidates, MOST_OF_ONE, false).unwrap();
        assert_eq!(candidates.state().count, MOST_OF_ONE);
    }

    #[test]
    fn one_token_has_a_quarter_of_the_places_and_others_stand() {
        let candidates = Candidates::default();
        let share = MOST_OF_ONE / PART_OF_A_TOKEN;
        let taken = (0..MOST_OF_ONE).filter(|number| enlist_by(&candidates, 1, *number).is_ok()).count();
        assert_eq!(taken, share);
        let refused = enlist_by(&candidates, 1, MOST_OF_ONE).unwrap_err();
        assert!(refused.to_string().contains("this token has as many candidates"), "{refused}");
        enlist_by(&candidates, 1, 7).expect("who stands goes on");
        enlist_by(&candidates, 2, MOST_OF_ONE).expect("another token has places of its own");
        enlist(&candidates, MOST_OF_ONE + 1, false).expect("nor is anybody without a token kept out");
        // A place that was given up is free again, for its token too.
        let withdrawn = Candidate { withdrawn: true, through: Some(TokenId([1; 6])), ..candidate(7, true) };
        put(&candidates, withdrawn).unwrap();
        candidates.state().forgot = None;
        enlist_by(&candidates, 1, MOST_OF_ONE + 2).unwrap();
        assert_eq!(candidates.state().by_token[&TokenId([1; 6])], share);
        // Of all elections together it has a quarter, too.
        for number in share..MOST / PART_OF_A_TOKEN {
            let election = ElectionName::new(&format!("e-{}", number / share)).unwrap();
            let through = Some(TokenId([1; 6]));
            put(&candidates, Candidate { election, through, ..candidate(number, false) }).unwrap();
        }
        let election = ElectionName::new("last").unwrap();
        let last = Candidate { election, through: Some(TokenId([1; 6])), ..candidate(0, false) };
        assert_eq!(candidates.has_room(&last), Err(NoRoom::TokenFull));
        assert_eq!(candidates.has_room(&Candidate { through: Some(TokenId([2; 6])), ..last }), Ok(()));
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
