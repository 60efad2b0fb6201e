//! How much one may have: commands in a second, streams, sessions and connections at once.
//!
//! Counted are commands that are written to the disk, and new sessions, by whoever sends them: its token, else the agent that it names,
//! else the lease that it holds, by its key, else its address or its user at the Unix socket. Renewals are not counted, and the keeping of a hold only by that hold, so that no
//! limit on other things costs anybody a lease or a hold. What is refused here was not carried out. Where nobody shows a token, whoever
//! sends commands in the name of an agent uses up what that one may send; who has no key of a lease cannot for its holder.
//!
//! Looks are counted by token, in rows, and paid for afterwards: who is in debt waits. What is not a look is not refused for that.
//!
//! Requests without a token, where one is needed, and those to public routes are counted by address, and at the Unix socket by user, before their
//! bodies are read.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_door::Counter;
use baton_election::{AgentName, Credential, ResourceName, TokenId};
use baton_store::boot;

use super::identity::{Caller, Identity};
use super::peer::Peer;
use super::reply::Problem;
use crate::candidates::NoRoom;

/// In how many parts the commands are counted, each behind a lock of its own.
const PARTS: usize = 16;
/// When a part has so many entries, those that count no longer are dropped.
const FIRST_TIDYING: usize = 1_024;
/// How long who has too many streams is told to wait.
const LATER: Duration = Duration::from_secs(1);

/// What a command says of its sender.
#[derive(Clone, Copy, Debug)]
pub(super) enum ThrottleKey<'a> {
    Agent(&'a AgentName),
    /// With its key: everybody who may look can see the rest.
    Lease(&'a Credential),
    /// The hold that it asks for, with its key.
    Hold(&'a Credential),
    Nothing,
}

impl ThrottleKey<'_> {
    /// None if it says nothing.
    fn hash_into(self, hasher: &mut impl Hasher) -> Option<()> {
        match self {
            ThrottleKey::Agent(agent) => (1, agent).hash(hasher),
            ThrottleKey::Lease(Credential { incarnation, key }) => (2, incarnation, key.0).hash(hasher),
            ThrottleKey::Hold(Credential { incarnation, key }) => (3, incarnation, key.0).hash(hasher),
            ThrottleKey::Nothing => return None,
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

impl Part {
    /// Drops what counts no longer, now and then.
    fn tidy(&mut self, now: u64) {
        if self.marks.len() >= self.tidy_at {
            self.marks.retain(|_, mark| *mark > now);
            self.tidy_at = FIRST_TIDYING.max(2 * self.marks.len());
        }
    }
}

impl Default for Part {
    fn default() -> Part {
        Part { marks: HashMap::new(), tidy_at: FIRST_TIDYING }
    }
}

/// How far ahead a mark may be: a second's worth may come at once.
const BURST: u64 = 1_000_000_000;
/// How far ahead a mark is put at most by one look.
const LONGEST_DEBT: u64 = 30_000_000_000;

impl Throttle {
    /// So many in a second; zero for as many as there are.
    pub(super) fn new(commands: u32) -> Throttle {
        let cost = (commands > 0).then(|| 1_000_000_000 / u64::from(commands));
        Throttle { cost, hasher: RandomState::new(), parts: Default::default() }
    }

    /// Lets one command through, or says when to come again.
    pub(super) fn take(&self, who: &Caller, says: ThrottleKey<'_>) -> Result<(), Problem> {
        self.take_by(self.number(who, says))
    }

    /// Lets a hold be kept or left, whatever else its holder sends.
    pub(super) fn take_for_hold(&self, resource: &ResourceName, hold: &Credential) -> Result<(), Problem> {
        self.take_by(self.hasher.hash_one((resource, hold.incarnation, hold.key.0)))
    }

    /// Lets one request without a token through.
    pub(super) fn take_for_peer(&self, peer: &Peer) -> Result<(), Problem> {
        let Some(cost) = self.cost else { return Ok(()) };
        let number = self.hasher.hash_one(peer.origin());
        self.take_at(boot::now().as_nanos(), number, cost).map_err(|wait| {
            Problem::too_many(
                "more requests without a token in a second than one address or user may send",
                wait,
            )
        })
    }

    /// Refuses a look to a token that has looked at too much.
    pub(super) fn may_look(&self, who: &Caller) -> Result<(), Problem> {
        let (Some(_), Identity::Bearer(_)) = (self.cost, &who.identity) else { return Ok(()) };
        let (now, number) = (boot::now().as_nanos(), self.number(who, ThrottleKey::Nothing));
        let mark = self.part(number).marks.get(&number).copied().unwrap_or(0);
        match mark.checked_sub(now + BURST) {
            Some(debt) if debt > 0 => Err(Problem::too_many(
                "more rows in a second than one token may look at",
                Duration::from_nanos(debt),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// A token has looked at so many rows. It is told so at its next look, if they were too many.
    pub(super) fn looked_at(&self, who: &Caller, rows: usize) {
        let (Some(cost), Identity::Bearer(_)) = (self.cost, &who.identity) else { return };
        let (now, number) = (boot::now().as_nanos(), self.number(who, ThrottleKey::Nothing));
        let cost = cost.saturating_mul(rows as u64);
        let mut part = self.part(number);
        part.tidy(now);
        let mark = part.marks.entry(number).or_insert(now);
        *mark = (*mark).max(now).saturating_add(cost).min(now + LONGEST_DEBT);
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the lower bits count")]
    fn part(&self, number: u64) -> MutexGuard<'_, Part> {
        self.parts[number as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_by(&self, number: u64) -> Result<(), Problem> {
        let Some(cost) = self.cost else { return Ok(()) };
        self.take_at(boot::now().as_nanos(), number, cost)
            .map_err(|wait| Problem::too_many("more commands in a second than one identity may send", wait))
    }

    /// Two that collide share what they may have.
    fn number(&self, who: &Caller, says: ThrottleKey<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        match &who.identity {
            Identity::Bearer(entry) => entry.id.hash(&mut hasher),
            Identity::User(uid) => {
                uid.hash(&mut hasher);
                says.hash_into(&mut hasher).unwrap_or_default();
            }
            Identity::Anybody | Identity::Onlooker => {
                says.hash_into(&mut hasher).unwrap_or_else(|| who.peer.origin().hash(&mut hasher));
            }
        }
        hasher.finish()
    }

    fn take_at(&self, now: u64, number: u64, cost: u64) -> Result<(), Duration> {
        let mut part = self.part(number);
        part.tidy(now);
        let mark = part.marks.entry(number).or_insert(now);
        let next = (*mark).max(now) + cost;
        if next > now + BURST {
            return Err(Duration::from_nanos(next - now - BURST));
        }
        *mark = next;
        Ok(())
    }
}

/// Streams, by token. Without one they are bounded by the connections alone.
pub(super) type Streams = Counter<TokenId>;

/// What who has too many streams is told.
pub(super) fn too_many_streams() -> Problem {
    Problem::too_many("this token has as many streams as one may have", LATER)
}

/// What who watches too many leases is told.
pub(super) fn too_many_watched() -> Problem {
    Problem::too_many("the streams of this token watch as many leases as they may", LATER)
}

/// What who has too many sessions is told.
pub(super) fn too_many_sessions() -> Problem {
    Problem::too_many("this token, or without one this agent, has as many sessions as one may have", LATER)
}

/// What who stands where too many do is told.
pub(super) fn too_many_candidates(no_room: NoRoom) -> Problem {
    Problem::too_many(no_room.why(), LATER)
}

#[cfg(test)]
mod tests {
    use baton_election::{Incarnation, LeaseKey};

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
        let who = Caller {
            identity: Identity::Anybody,
            peer: Peer::Address([127, 0, 0, 1].into()),
            sign_in: None,
            agent: std::sync::OnceLock::new(),
        };
        let [holder, other] =
            [[1; 16], [2; 16]].map(|key| Credential { incarnation: Incarnation([7; 8]), key: LeaseKey(key) });
        while throttle.take(&who, ThrottleKey::Lease(&other)).is_ok() {}
        throttle.take(&who, ThrottleKey::Lease(&holder)).unwrap();
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
    fn who_looked_at_too_much_waits_and_others_do_not() {
        let reads = Throttle::new(1_000);
        let bearer = |id: u8| Caller {
            identity: crate::http::proofs::bearer_of_secret(baton_election::tokens::TokenEntry {
                id: TokenId([id; 6]),
                proof: baton_election::tokens::Proof::Secret { hash: None },
                role: baton_election::tokens::Role::Observer,
                agents: Vec::new(),
                elections: Vec::new(),
                resources: Vec::new(),
                note: String::new(),
                created: boot::wall(),
                expires: None,
                by: baton_election::operator::OperatorKey::from_seed([1; 32]).public(),
            }),
            peer: Peer::Address([127, 0, 0, 1].into()),
            sign_in: None,
            agent: std::sync::OnceLock::new(),
        };
        let (one, other) = (bearer(1), bearer(2));
        reads.looked_at(&one, 500);
        reads.may_look(&one).unwrap();
        // It is told what it asked for, and owes for it.
        reads.looked_at(&one, 1_000_000);
        let refused = reads.may_look(&one).unwrap_err().to_value();
        assert_eq!(refused["code"], "too-many", "{refused}");
        assert!(refused["retry_in_ms"].as_u64().unwrap() <= 30_000, "{refused}");
        reads.may_look(&other).unwrap();
    }
}
