//! A store: one document, swapped by version, and perhaps a clock that stamps it.

use std::sync::Arc;

use baton_election::{Document, Moment, Span};
use baton_peer::Random;

use super::agent::Reply;
use super::names::{Names, number};
use super::{Event, LeaseWorld, small};
use crate::clock::HostClock;
use crate::invariants::Fact;
use crate::setup::{Elector, Setup};
use crate::timeline::EventKind;

/// What is to be swapped in.
#[derive(Debug, Clone)]
pub(super) struct Swap {
    pub(super) expect: u64,
    pub(super) next: Arc<Document>,
    /// Whether the lease's clock begins anew.
    pub(super) restarts: bool,
}

/// The one document.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) document: Option<Arc<Document>>,
    pub(super) version: u64,
    /// Whether it tells how old a lease is.
    stamped: bool,
    pub(super) clock: HostClock,
    /// When the lease's clock began, on its own clock and in true time.
    stamp: (Moment, u64),
    pub(super) down_until: u64,
    drift_permille: u64,
}

impl Store {
    pub(super) fn new(setup: &Setup, names: &Names, random: &mut Random) -> Store {
        let drift = setup.drift_ppm.get(setup.places()).copied().unwrap_or(0);
        let clock = HostClock::new(0, random.between(1, 1 << 50), drift);
        // Mostly somebody has set a policy before anybody led.
        let document = (random.below(4) != 0).then(|| Arc::new(names.founded()));
        Store {
            version: u64::from(document.is_some()),
            document,
            stamped: setup.algorithm != Elector::LeaseObserved,
            stamp: (clock.at(0), 0),
            clock,
            down_until: 0,
            drift_permille: setup.timing.margins.drift_permille,
        }
    }

    /// How old the lease is, if the store tells.
    pub(super) fn age(&self, now: u64) -> Option<Span> {
        self.stamped.then(|| self.clock.at(now).since(self.stamp.0))
    }

    /// The highest age that anybody may judge the lease by: the store's, or that of an observer with the fastest clock.
    fn highest_age(&self, now: u64) -> Span {
        self.age(now)
            .unwrap_or_else(|| Span::nanos(now - self.stamp.1).scaled(1_000 + self.drift_permille, 1_000))
    }

    /// Every lease begins anew, as at a server that keeps renewals in memory; what was decided on ages from before does not fit any more.
    pub(super) fn restart(&mut self, now: u64) {
        if self.stamped {
            self.stamp = (self.clock.at(now), now);
            self.version += 1;
        }
    }

    /// Swaps if nobody has before. Returns what the promises are about.
    pub(super) fn swap(&mut self, now: u64, swap: &Swap) -> Option<Fact<'static>> {
        if swap.expect != self.version {
            return None;
        }
        let age = self.highest_age(now);
        let old = self.document.as_deref();
        let running = old.and_then(Document::lease_holder).and_then(|holder| {
            let left = holder.lease().minus(age);
            (left > Span::ZERO).then(|| (number(holder.incarnation), left))
        });
        let holder = swap.next.lease_holder().map(|holder| number(holder.incarnation));
        let epochs = (old.map_or(0, |old| old.epoch.0), swap.next.epoch.0);
        self.document = Some(Arc::clone(&swap.next));
        self.version += 1;
        if swap.restarts {
            self.stamp = (self.clock.at(now), now);
        }
        Some(Fact::Swapped { running, holder, epochs })
    }
}

impl LeaseWorld<'_> {
    /// Whether the store does what it is asked, and whether it can answer. One that is failing may have done it all the same.
    fn store_serves(&mut self) -> (bool, bool) {
        let up = self.now >= self.store.down_until;
        (up || self.random.below(2) == 0, up)
    }

    pub(super) fn store_reads(&mut self, from: u8, life: u32, number: u64) {
        let (_, up) = self.store_serves();
        if up {
            let reply = Reply::Read {
                document: self.store.document.clone(),
                version: self.store.version,
                age: self.store.age(self.now),
            };
            self.reply(from, life, number, reply);
        }
    }

    pub(super) fn store_swaps(&mut self, from: u8, life: u32, number: u64, swap: Swap) {
        let (does, up) = self.store_serves();
        let swapped = does && self.apply(&swap);
        if up {
            let reply = Reply::Swapped { done: swapped, version: self.store.version };
            self.reply(from, life, number, reply);
        }
    }

    /// Swaps, shows it to all promises, and tells who watches.
    pub(super) fn apply(&mut self, swap: &Swap) -> bool {
        let holder = |document: Option<&Document>| {
            document.and_then(Document::lease_holder).map(|holder| holder.incarnation)
        };
        let elective = holder(self.store.document.as_deref()) != holder(Some(&swap.next));
        let Some(fact) = self.store.swap(self.now, swap) else { return false };
        self.ledger.statistics.kept += 1;
        self.ledger.see(&fact);
        if self.ledger.is_watched() {
            let document = &swap.next;
            let holder =
                document.lease_holder().map_or("nobody".to_string(), |leader| leader.agent.to_string());
            let (epoch, beat) = (document.epoch, document.beat);
            self.ledger.note(None, || {
                EventKind::Kept(format!("epoch {epoch}, beat {beat}, the lease is {holder}'s"))
            });
        }
        for to in 0..self.agents.len() {
            self.ledger.sent("told", elective);
            // A watch is a convenience: some changes are not told of.
            if self.links.open(self.agents.len(), to)
                && let Some(delay) = self.network.travel(&mut self.random)
            {
                let told = Event::Told { to: small(to), life: self.agents[to].host.life, elective };
                self.queue.put(self.now + delay.as_nanos(), told);
            }
        }
        true
    }

    fn reply(&mut self, to: u8, life: u32, number: u64, reply: Reply) {
        if !self.links.open(self.agents.len(), usize::from(to)) {
            return;
        }
        if let Some(delay) = self.network.travel(&mut self.random) {
            self.queue.put(self.now + delay.as_nanos(), Event::Answers { to, life, number, reply });
        }
    }
}
