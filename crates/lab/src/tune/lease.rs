//! A lease in a store: how often it is lost although nobody failed, and how long a fail-over takes.

use baton_election::time::Span;
use baton_election::{Margins, lease};

use super::network::{Network, seconds};
use super::{Fails, FalseAlarms, tidy_down};

/// Read and swap.
const REQUESTS_TO_ACQUIRE: f64 = 2.0;
/// The wait before a renewal is tried again is drawn from nothing to this.
const RETRY_WITHIN: f64 = 0.02;

/// The rhythm of a lease, and what to expect of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeaseAdvice {
    /// How long the lease lasts.
    pub lease: Span,
    /// How often it is renewed: the library renews after a third of the lease.
    pub renewal: Span,
    /// From SIGTERM to SIGKILL under `baton run`, whose CMD is stopped so long before the lease ends.
    pub grace: Span,
    /// How long nobody leads after a leader died: typically, and at most in 99 of 100 cases.
    pub failover: Fails,
    /// How often the work is stopped although nobody failed.
    pub false_alarms: FalseAlarms,
}

/// The shortest fail-over that a lease allows.
pub(crate) fn shortest(network: &Network) -> f64 {
    seconds(shortest_lease(network)) + REQUESTS_TO_ACQUIRE * network.answered_at(0.995)
}

/// A renewal shall usually be answered before the next one is due.
fn shortest_lease(network: &Network) -> Span {
    let renewal = network.answered_at(0.99);
    lease::MIN_TTL.max(super::span(3.0 * renewal))
}

/// The longest lease that still fails over in time; none if even the shortest does not.
pub(crate) fn advise(network: &Network, failover: f64) -> Option<LeaseAdvice> {
    let longest = failover - REQUESTS_TO_ACQUIRE * network.answered_at(0.995);
    let lease = tidy_down(super::span(longest));
    (lease >= shortest_lease(network)).then(|| expect(network, lease))
}

/// What to expect of a lease of this length.
pub fn expect(network: &Network, ttl: Span) -> LeaseAdvice {
    let renewal = lease::renewal_interval(ttl);
    let grace = lease::default_grace(ttl);
    let requests = REQUESTS_TO_ACQUIRE;
    let (length, every) = (seconds(ttl), seconds(renewal));
    // The leader dies at a random moment between two renewals.
    let typical = length - every / 2.0 + requests * (network.rtt_s() + network.jitter_at(0.5));
    let worst = length + requests * network.answered_at(0.995);
    LeaseAdvice {
        lease: ttl,
        renewal,
        grace,
        failover: Fails { typical: super::span(typical), worst: super::span(worst) },
        false_alarms: false_alarms(network, ttl),
    }
}

/// The work is stopped at `asked_at + usable − grace`. Until then a first renewal, after a third of the lease, and a second
/// one, after another third, can be answered.
fn false_alarms(network: &Network, ttl: Span) -> FalseAlarms {
    let every = seconds(lease::renewal_interval(ttl));
    let stops = seconds(Margins::STANDARD.usable(ttl).minus(lease::default_grace(ttl)));
    let first = network.unanswered(every.min(stops - every));
    let second = network.unanswered((stops - 2.0 * every - RETRY_WITHIN / 2.0).max(0.0));
    FalseAlarms { by_network: first * second / every, by_pauses: network.pauses_beyond(stops, every) }
}
