//! How many connections one address, or one user of this machine, has at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::problem::Problem;

/// How many connections at once are told that their address has too many.
const TOLD: usize = 64;
/// How long such a client is told to wait.
const LATER: Duration = Duration::from_secs(1);

/// How many of something each key has at once.
pub struct Counter<K: Hash + Eq> {
    most: usize,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

/// One or several of them, until it is dropped.
pub struct CounterPermit<K: Hash + Eq> {
    key: K,
    many: usize,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Hash + Eq + Copy> Counter<K> {
    /// At most so many for each key.
    pub fn new(most: usize) -> Counter<K> {
        Counter { most, counts: Arc::default() }
    }

    /// One more, unless there are too many.
    pub fn enter(&self, key: K) -> Option<CounterPermit<K>> {
        self.enter_with(key, 1)
    }

    /// So many more, unless they are too many.
    pub fn enter_with(&self, key: K, many: usize) -> Option<CounterPermit<K>> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let before = counts.get(&key).copied().unwrap_or(0);
        if before.saturating_add(many) > self.most {
            return None;
        }
        counts.insert(key, before + many);
        Some(CounterPermit { key, many, counts: Arc::clone(&self.counts) })
    }
}

impl<K: Hash + Eq> Drop for CounterPermit<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= self.many;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// Where a connection comes from: what its budget is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// An IPv4 address, or the /64 of an IPv6 address.
    Network(IpAddr),
    /// A user of this machine, by the Unix socket.
    User(u32),
}

impl From<IpAddr> for Origin {
    /// The owner of one IPv6 address has its whole /64.
    fn from(address: IpAddr) -> Origin {
        Origin::Network(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(long) => Ipv6Addr::from_bits(long.to_bits() & (u128::MAX << 64)).into(),
        })
    }
}

/// The connections of each origin.
pub struct Peers {
    connections: Counter<Origin>,
    told: Semaphore,
}

/// What becomes of a connection, until this is dropped.
pub enum ConnectionPermit<'a> {
    /// It is served.
    Served(CounterPermit<Origin>),
    /// Its origin has too many: it is told so, and closed.
    Told(SemaphorePermit<'a>),
}

impl Peers {
    /// At most so many connections for each origin.
    pub fn new(most: usize) -> Peers {
        Peers { connections: Counter::new(most), told: Semaphore::new(TOLD) }
    }

    /// A seat for a connection. None if its origin has too many and a few of them are being told so already: it is closed without a word.
    pub fn enter(&self, origin: impl Into<Origin>) -> Option<ConnectionPermit<'_>> {
        let served = self.connections.enter(origin.into()).map(ConnectionPermit::Served);
        served.or_else(|| self.told.try_acquire().ok().map(ConnectionPermit::Told))
    }
}

impl ConnectionPermit<'_> {
    /// Whether the connection is served.
    pub fn is_served(&self) -> bool {
        matches!(self, ConnectionPermit::Served(_))
    }
}

/// The answer to a request over a connection too many.
pub fn too_many_connections() -> Problem {
    Problem::too_many("this address or user has as many connections as one may have", LATER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_one_address_of_ipv6_has_many() {
        let origin = |address: &str| Origin::from(address.parse::<IpAddr>().unwrap());
        let same = ["2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff"].map(origin);
        assert_eq!(same[0], same[1]);
        let others = ["2001:db8:0:2::1", "192.0.2.1", "192.0.2.2"].map(origin);
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

    #[test]
    fn places_count_as_many_as_they_are() {
        let counter: Counter<u8> = Counter::new(100);
        let most = counter.enter_with(1, 99).unwrap();
        assert!(counter.enter_with(1, 2).is_none() && counter.enter_with(2, 100).is_some());
        drop(most);
        assert!(counter.enter_with(1, 100).is_some());
    }

    #[test]
    fn a_few_are_told_that_there_are_too_many() {
        let (peers, one) = (Peers::new(1), IpAddr::from([192, 0, 2, 1]));
        let served = peers.enter(one).unwrap();
        assert!(served.is_served());
        let told: Vec<_> = (0..TOLD).map(|_| peers.enter(one).unwrap()).collect();
        assert!(told.iter().all(|seat| !seat.is_served()));
        assert!(peers.enter(one).is_none());
        assert!(peers.enter(Origin::User(1)).unwrap().is_served());
        drop(served);
        assert!(peers.enter(one).unwrap().is_served());
    }
}
