//! Timings for a given network: how long a lease, how often a heartbeat, and how many false alarms that costs.
//!
//! **The model.** A round trip takes `rtt` plus a heavy-tailed jitter (Lomax, exponent 2.5, of the given mean). Each packet is
//! lost for itself with the given chance. Over TCP, which all stores and `baton peer` use, a lost segment is sent again
//! after `rtt + max(200 ms, 4 · jitter)` and then after twice as long each time, and what comes behind it waits; datagrams
//! are gone. Processes stand still at random (Poisson), for lengths with a very heavy tail (Pareto, exponent 1.5, of the
//! given mean). A false alarm is that `baton run` or `baton peer` stops the work of a leader that did not fail: no proof of life
//! that was sent within the usable part of the lease, less the grace in which the work may stop, has been answered by the
//! store, or by a majority of the group.
//!
//! Guarantees nothing: it is arithmetic on assumptions, checked against simulations in `tests/tune_model.rs`. **Not** in the
//! model: losses that come in bursts or strike several links at once, a store that is slow or down, routes that fail,
//! clocks. With those, false alarms are more frequent than predicted, but a false alarm is all that happens: safety
//! rests on the lease's margins, not on these numbers.

mod curve;
mod group;
mod lease;
mod network;
mod report;

use std::fmt;

use baton_election::time::Span;
use baton_peer::MAX_MEMBERS;

pub use group::{GroupAdvice, expect as expect_of_group, false_alarms as false_alarms_of_group};
pub use lease::{LeaseAdvice, expect as expect_of_lease};
pub use network::{Network, Pauses, Share, Transport, exact};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TuningGoal {
    /// The network.
    pub network: Network,
    /// How long at most, in 99 of 100 cases, nobody leads after a leader died.
    pub failover: Span,
    /// How many members a group has.
    pub nodes: usize,
}

/// What is recommended.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// What was asked for.
    pub goal: TuningGoal,
    /// For a lease in a store; none if the shortest lease is too long.
    pub lease: Option<LeaseAdvice>,
    /// For a group of Raft or Paxos; none if its shortest timeouts are too long.
    pub group: Option<GroupAdvice>,
    /// Detection against false alarms, for shorter and longer fail-overs.
    pub curve: Vec<Tradeoff>,
}

/// What another fail-over would cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tradeoff {
    /// The longest fail-over, in 99 of 100 cases.
    pub failover: Span,
    /// With a lease.
    pub lease: Option<FalseAlarms>,
    /// With a group.
    pub group: Option<FalseAlarms>,
}

/// How long nobody leads after a leader died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fails {
    /// About half of the time it is shorter.
    pub typical: Span,
    /// In 99 of 100 cases it is shorter.
    pub worst: Span,
}

/// How often a leadership is lost although nobody failed, in times per second, by what causes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FalseAlarms {
    /// Lost and late packets.
    pub by_network: f64,
    /// A leader that stands still for too long.
    pub by_pauses: f64,
}

impl FalseAlarms {
    /// Of both kinds, in a second.
    pub fn per_second(&self) -> f64 {
        self.by_network + self.by_pauses
    }

    /// Of both kinds, in a day.
    pub fn per_day(&self) -> f64 {
        self.per_second() * 86_400.0
    }
}

/// Why nothing can be recommended.
#[derive(Debug, Clone, PartialEq)]
pub enum InvalidGoal {
    /// It is none, or longer than a minute.
    RoundTrip(Span),
    /// Longer than the round trip could bear.
    Jitter(Span),
    /// Half of all packets or more.
    Loss(Share),
    /// None, or more than a day.
    Failover(Span),
    /// Fewer than two, or more than a group can have.
    Nodes(usize),
    /// Shorter than it can be on this network.
    TooShort {
        /// What was asked for.
        wished: Span,
        /// The shortest that can be had.
        shortest: Span,
    },
}

impl InvalidGoal {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            InvalidGoal::RoundTrip(_) => "measure it with ping: --rtt 40ms".to_string(),
            InvalidGoal::Jitter(_) => {
                "it is the mean of what a round trip takes longer: --jitter 10ms".to_string()
            }
            InvalidGoal::Loss(_) => "measure it with ping or mtr: --loss 1%".to_string(),
            InvalidGoal::Failover(_) => "say how long nobody may lead: --failover 10s".to_string(),
            InvalidGoal::Nodes(_) => "three or five are usual: --nodes 3".to_string(),
            InvalidGoal::TooShort { shortest, .. } => {
                format!(
                    "ask for at least --failover {shortest}, or release and pass on instead of failing over"
                )
            }
        }
    }
}

impl fmt::Display for InvalidGoal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidGoal::RoundTrip(rtt) => write!(f, "a round trip of {}; it is 1us to 1m", exact(*rtt)),
            InvalidGoal::Jitter(jitter) => write!(f, "a jitter of {jitter}; it is at most 1m"),
            InvalidGoal::Loss(loss) => {
                write!(f, "a loss of {loss}: where half of all packets are lost, no timing helps")
            }
            InvalidGoal::Failover(failover) => write!(f, "a fail-over of {failover}; it is at most 1d"),
            InvalidGoal::Nodes(nodes) => write!(f, "a group of {nodes}; it has 2 to {MAX_MEMBERS} members"),
            InvalidGoal::TooShort { wished, shortest } => {
                write!(
                    f,
                    "a fail-over within {wished} cannot be had on this network; the shortest is {shortest}"
                )
            }
        }
    }
}

impl std::error::Error for InvalidGoal {}

/// Recommends timings.
pub fn advise(goal: TuningGoal) -> Result<Advice, InvalidGoal> {
    check(&goal)?;
    let (network, failover) = (&goal.network, network::seconds(goal.failover));
    let lease = lease::advise(network, failover);
    let group = group::advise(network, goal.nodes, failover);
    if lease.is_none() && group.is_none() {
        let group = group::shortest(network, goal.nodes).unwrap_or(f64::INFINITY);
        let shortest = tidy_up(span(lease::shortest(network).min(group)));
        return Err(InvalidGoal::TooShort { wished: goal.failover, shortest });
    }
    Ok(Advice { goal, lease, group, curve: curve::over(&goal) })
}

fn check(goal: &TuningGoal) -> Result<(), InvalidGoal> {
    let network = &goal.network;
    let minute = Span::secs(60);
    if network.rtt < Span::nanos(1_000) || network.rtt > minute {
        return Err(InvalidGoal::RoundTrip(network.rtt));
    }
    if network.jitter > minute {
        return Err(InvalidGoal::Jitter(network.jitter));
    }
    if network.loss.of_one() >= 0.5 {
        return Err(InvalidGoal::Loss(network.loss));
    }
    if goal.failover == Span::ZERO || goal.failover > Span::secs(86_400) {
        return Err(InvalidGoal::Failover(goal.failover));
    }
    if !(2..=MAX_MEMBERS).contains(&goal.nodes) {
        return Err(InvalidGoal::Nodes(goal.nodes));
    }
    Ok(())
}

/// A length of so many seconds; nothing if it is negative or not a number.
pub(crate) fn span(seconds: f64) -> Span {
    let length = std::time::Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default();
    Span::nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

/// Two digits that people remember, not longer.
fn tidy_down(length: Span) -> Span {
    let ms = length.as_millis();
    let mut unit = 1;
    while ms / unit >= 100 {
        unit *= 10;
    }
    Span::millis(ms / unit * unit)
}

/// Two digits that people remember, not shorter.
fn tidy_up(length: Span) -> Span {
    let down = tidy_down(length);
    if down >= length { down } else { tidy_down(length.scaled(11, 10).plus(Span::millis(1))) }
}
