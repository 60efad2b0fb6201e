//! How much one may have: commands in a second, streams, sessions and connections at once.
//!
//! Counted are commands that are written to the disk, and new sessions, by whoever sends them: its token, else the agent that it names,
//! else the lease that it holds, by its key, else its address. Renewals are not counted, and the keeping of a hold only by that hold, so that no
//! limit on other things costs anybody a lease or a hold. What is refused here was not carried out. Where nobody shows a token, whoever
//! sends commands in the name of an agent uses up what that one may send; who has no key of a lease cannot for its holder.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_election::{AgentName, Credential, Incarnation, ResourceName, TokenId};
use baton_store::boot;

use super::identity::{Identity, Who};
use super::reply::Problem;

/// In how many parts the commands are counted, each behind a lock of its own.
const PARTS: usize = 16;
/// When a part has so many entries, those that count no longer are dropped.
const FIRST_TIDYING: usize = 1_024;
/// How long who has too many streams or connections is told to wait.
const LATER: Duration = Duration::from_secs(1);

/// What a command says of who sends it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Says<'a> {
    Agent(&'a AgentName),
    /// With its key: everybody who may look can see the rest.
    Lease(&'a Credential),
    /// By what a hold is known that it asks for.
    Hold(Incarnation),
    Nothing,
}

impl Says<'_> {
    /// None if it says nothing.
    fn hash_into(self, hasher: &mut impl Hasher) -> Option<()> {
        match self {
            Says::Agent(agent) => (1, agent).hash(hasher),
            Says::Lease(Credential { incarnation, key }) => (2, incarnation, key.0).hash(hasher),
            Says::Hold(incarnation) => (3, incarnation).hash(hasher),
            Says::Nothing => return None,
        }
        Some(())
    }
}

/// Commands in a second, by identity: each moves the identity's mark ahead, which time catches up with.
pub(super) struct Throttle {
    /// What a command costs, in nanoseconds; none if all are free.
    cost: Option<u64>,
    hasher: RandomState,
    parts: [Mutex<Part>; PARTS],
}

struct Part {
    /// Up to when an identity's commands are paid for, on the boot-time clock.
    marks: HashMap<u64, u64>,
    tidy_at: usize,
}

impl Default for Part {
    fn default() -> Part {
        Part { marks: HashMap::new(), tidy_at: FIRST_TIDYING }
    }
}

/// How far ahead a mark may be: a second's worth may come at once.
const BURST: u64 = 1_000_000_000;

impl Throttle {
    /// So many in a second; zero for as many as there are.
    pub(super) fn new(commands: u32) -> Throttle {
        let cost = (commands > 0).then(|| 1_000_000_000 / u64::from(commands));
        Throttle { cost, hasher: RandomState::new(), parts: Default::default() }
    }

    /// Lets one command through, or says when to come again.
    pub(super) fn take(&self, who: &Who, says: Says<'_>) -> Result<(), Problem> {
        self.take_by(self.number(who, says))
    }

    /// Lets a hold be kept or left, whatever else its holder sends.
    pub(super) fn take_for_hold(&self, resource: &ResourceName, hold: Incarnation) -> Result<(), Problem> {
        self.take_by(self.hasher.hash_one((resource, hold)))
    }

    fn take_by(&self, number: u64) -> Result<(), Problem> {
        let Some(cost) = self.cost else { return Ok(()) };
        self.take_at(boot::now().as_nanos(), number, cost)
            .map_err(|wait| Problem::too_many("more commands in a second than one identity may send", wait))
    }

    /// Two that collide share what they may have.
    fn number(&self, who: &Who, says: Says<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        match &who.identity {
            Identity::Bearer(entry) => entry.id.hash(&mut hasher),
            Identity::Anybody => {
                says.hash_into(&mut hasher).unwrap_or_else(|| network(who.peer).hash(&mut hasher));
            }
        }
        hasher.finish()
    }

    fn take_at(&self, now: u64, number: u64, cost: u64) -> Result<(), Duration> {
        #[expect(clippy::cast_possible_truncation, reason = "only the lower bits count")]
        let mut part = self.parts[number as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner);
        if part.marks.len() >= part.tidy_at {
            part.marks.retain(|_, mark| *mark > now);
            part.tidy_at = FIRST_TIDYING.max(2 * part.marks.len());
        }
        let mark = part.marks.entry(number).or_insert(now);
        let next = (*mark).max(now) + cost;
        if next > now + BURST {
            return Err(Duration::from_nanos(next - now - BURST));
        }
        *mark = next;
        Ok(())
    }
}

/// How many of something one has at once.
pub(super) struct Counter<K: Hash + Eq> {
    most: usize,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

/// One of them, until it is dropped.
pub(super) struct Place<K: Hash + Eq> {
    key: K,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Hash + Eq + Copy> Counter<K> {
    pub(super) fn new(most: usize) -> Counter<K> {
        Counter { most, counts: Arc::default() }
    }

    /// One more, unless there are too many.
    pub(super) fn enter(&self, key: K) -> Option<Place<K>> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key).or_insert(0);
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place { key, counts: Arc::clone(&self.counts) })
    }
}

impl<K: Hash + Eq> Drop for Place<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// Whose an address is, as far as it tells: who has one of IPv6 has its whole /64.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(long) => Ipv6Addr::from_bits(long.to_bits() & (u128::MAX << 64)).into(),
    }
}

/// Streams, by token. Without one they are bounded by the connections alone.
pub(super) type Streams = Counter<TokenId>;
/// Connections, by network.
pub(super) type Peers = Counter<IpAddr>;

/// What who has too many streams is told.
pub(super) fn too_many_streams() -> Problem {
    Problem::too_many("this token has as many streams as one may have", LATER)
}

/// What who has too many sessions is told.
pub(super) fn too_many_sessions() -> Problem {
    Problem::too_many("this token, or without one this agent, has as many sessions as one may have", LATER)
}

/// What who stands where too many do is told.
pub(super) fn too_many_candidates() -> Problem {
    Problem::too_many("there are as many candidates as there may be", LATER)
}

/// What who has too many connections is told.
pub(super) fn too_many_connections() -> Problem {
    Problem::too_many("this address has as many connections as one may have", LATER)
}

#[cfg(test)]
mod tests {
    use baton_election::LeaseKey;

    use super::*;

    #[test]
    fn a_second_is_let_through_at_once_and_then_as_many_as_time_goes_by() {
        let throttle = Throttle::new(10);
        let (cost, start) = (throttle.cost.unwrap(), 5_000_000_000);
        let let_through =
            |at: u64, number| (0..100).filter(|_| throttle.take_at(at, number, cost).is_ok()).count();
        assert_eq!(let_through(start, 1), 10);
        assert_eq!(let_through(start, 2), 10, "another is not concerned");
        assert_eq!(let_through(start + 300_000_000, 1), 3);
        let wait = throttle.take_at(start + 300_000_000, 1, cost).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert_eq!(let_through(start + 60_000_000_000, 1), 10, "what was not used is not saved up");
    }

    #[test]
    fn who_has_not_the_key_of_a_lease_uses_up_nothing_of_its_holder() {
        let throttle = Throttle::new(10);
        let who = Who { identity: Identity::Anybody, peer: [127, 0, 0, 1].into(), sign_in: None };
        let [holder, other] =
            [[1; 16], [2; 16]].map(|key| Credential { incarnation: Incarnation([7; 8]), key: LeaseKey(key) });
        while throttle.take(&who, Says::Lease(&other)).is_ok() {}
        throttle.take(&who, Says::Lease(&holder)).unwrap();
    }

    #[test]
    fn identities_that_count_no_longer_are_forgotten() {
        let throttle = Throttle::new(1_000);
        let cost = throttle.cost.unwrap();
        for number in 0..100_000 {
            throttle.take_at(number * 1_000_000, number, cost).unwrap();
        }
        let kept: usize = throttle.parts.iter().map(|part| part.lock().unwrap().marks.len()).sum();
        assert!(kept <= PARTS * FIRST_TIDYING, "{kept}");
    }

    #[test]
    fn who_has_one_address_of_ipv6_has_many() {
        let same =
            ["2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff"].map(|one| network(one.parse().unwrap()));
        assert_eq!(same[0], same[1]);
        let others = ["2001:db8:0:2::1", "192.0.2.1", "192.0.2.2"].map(|one| network(one.parse().unwrap()));
        assert!(
            others.iter().enumerate().all(|(number, one)| *one != same[0] && !others[..number].contains(one))
        );
    }

    #[test]
    fn places_are_given_back() {
        let counter: Counter<u8> = Counter::new(2);
        let one = counter.enter(1).unwrap();
        let _two = counter.enter(1).unwrap();
        assert!(counter.enter(1).is_none());
        assert!(counter.enter(2).is_some());
        drop(one);
        assert!(counter.enter(1).is_some());
        assert_eq!(counter.counts.lock().unwrap().len(), 1, "who has none is forgotten");
    }
}
