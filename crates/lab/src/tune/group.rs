//! A group under Raft or Paxos: how often its leader is lost although nobody failed, and how long a fail-over takes.

use baton_election::time::Span;
use baton_election::{Margins, lease};
use baton_peer::Timing;

use super::network::{Network, Transport, seconds};
use super::{Fails, FalseAlarms, span, tidy_down};

/// Of Paxos: sounded, prepared, the last value accepted, and its own. Raft needs one fewer: pre-vote, vote, and the first round of heartbeats.
const ROUNDS_TO_ELECT: f64 = 4.0;
/// Of fewer members nobody is elected once the leader is dead: those that are left are no majority.
pub(super) const FEWEST_TO_FAIL_OVER: usize = 3;
/// Raft, §5.6: a timeout is an order of magnitude longer than a round trip.
const TIMEOUT_ROUND_TRIPS: f64 = 10.0;
/// As many heartbeats as a timeout may have.
const BEATS: std::ops::RangeInclusive<u64> = 3..=10;
/// More failed candidacies in a row are not reckoned with.
const MOST_CANDIDACIES: u32 = 16;

/// The rhythm of a group, and what to expect of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupAdvice {
    /// How many members.
    pub nodes: usize,
    /// Heartbeats and timeouts.
    pub timing: Timing,
    /// How long nobody leads after a leader died: typically, and at most in 99 of 100 cases.
    pub failover: Fails,
    /// From SIGTERM to SIGKILL under `baton peer`, whose CMD is stopped so long before the leader's lease ends.
    pub grace: Span,
    /// How often the work is stopped although nobody failed.
    pub false_alarms: FalseAlarms,
}

/// The shortest fail-over that a group allows; none if there is never one.
pub(crate) fn shortest(network: &Network, nodes: usize) -> Option<f64> {
    if nodes < FEWEST_TO_FAIL_OVER {
        return None;
    }
    let longest_timeout = seconds(shortest_timeout(network)) * 1.25;
    Some((candidacies(network, nodes) * longest_timeout + rounds(network)) * 1.1)
}

fn shortest_timeout(network: &Network) -> Span {
    span(TIMEOUT_ROUND_TRIPS * network.rtt_s()).max(Span::millis(10))
}

/// How long the rounds of an election take, at most in 99 of 100 cases.
fn rounds(network: &Network) -> f64 {
    let one = match network.transport {
        Transport::Tcp => network.answered_at(0.997),
        Transport::Datagrams => network.rtt_s() + network.jitter_at(0.997),
    };
    ROUNDS_TO_ELECT * one
}

/// How many candidacies it takes, at most in 99 of 100 cases: a lost datagram may cost one.
fn candidacies(network: &Network, nodes: usize) -> f64 {
    let fails = match network.transport {
        Transport::Tcp => 0.0,
        // The leader is dead: all rounds need a majority of those who are left.
        Transport::Datagrams => {
            let heard = 1.0 - network.unheard(f64::INFINITY);
            let round = at_least(nodes.saturating_sub(2), nodes / 2, heard);
            1.0 - round.powf(ROUNDS_TO_ELECT)
        }
    };
    let enough = (1..MOST_CANDIDACIES).find(|&tries| fails.powf(f64::from(tries)) <= 0.01);
    f64::from(enough.unwrap_or(MOST_CANDIDACIES))
}

/// The longest timeouts that still fail over in time, and the fewest heartbeats that serve them; none if it cannot be.
pub(crate) fn advise(network: &Network, nodes: usize, failover: f64) -> Option<GroupAdvice> {
    if nodes < FEWEST_TO_FAIL_OVER {
        return None;
    }
    let longest = (failover - rounds(network)) / candidacies(network, nodes);
    let timeout_max = tidy_down(span(longest));
    // Members that lose patience within the same round trip split the votes.
    let apart = span(2.0 * network.rtt_s()).max(timeout_max.scaled(1, 5));
    let timeout_min = tidy_down(timeout_max.minus(apart));
    if timeout_min < shortest_timeout(network) {
        return None;
    }
    let rhythm = |beats: u64| Timing {
        heartbeat: tidy_down(timeout_min.scaled(1, beats)),
        timeout_min,
        timeout_max,
        margins: Margins::STANDARD,
    };
    let usable = |timing: &Timing| timing.check().is_ok() && seconds(timing.heartbeat) >= network.rtt_s();
    let expected: Vec<GroupAdvice> =
        BEATS.map(rhythm).filter(usable).map(|timing| expect(network, nodes, timing)).collect();
    let best = expected.iter().map(|advice| advice.false_alarms.per_second()).fold(f64::INFINITY, f64::min);
    // The slowest rhythm that is about as good as the best: each heartbeat costs a message to every member.
    expected.into_iter().find(|advice| advice.false_alarms.per_second() <= best * 1.1)
}

/// What to expect of a group with this rhythm.
pub fn expect(network: &Network, nodes: usize, timing: Timing) -> GroupAdvice {
    let (low, high) = (seconds(timing.timeout_min), seconds(timing.timeout_max));
    let beat = seconds(timing.heartbeat);
    let followers = u32::try_from(nodes.saturating_sub(1).max(1)).map_or(1.0, f64::from);
    // The first of those that are left to lose patience, counted from the last heartbeat.
    let first = low + (high - low) / (followers + 1.0) - beat / 2.0;
    let typical = first + ROUNDS_TO_ELECT * (network.rtt_s() + network.jitter_at(0.5));
    let worst = candidacies(network, nodes) * high + rounds(network);
    let grace = lease::default_grace(timing.timeout_min);
    GroupAdvice {
        nodes,
        timing,
        grace,
        failover: Fails { typical: span(typical), worst: span(worst) },
        false_alarms: false_alarms(network, nodes, &timing, grace),
    }
}

/// How often the work of a healthy leader is stopped, if it is stopped so long before its lease ends: no round that was sent within
/// the last `usable(timeout_min) − grace` has been answered by enough members for a majority.
pub fn false_alarms(network: &Network, nodes: usize, timing: &Timing, grace: Span) -> FalseAlarms {
    let beat = seconds(timing.heartbeat);
    let usable = seconds(timing.margins.usable(timing.timeout_min).minus(grace));
    let by_network = match network.transport {
        Transport::Tcp => by_stalls(network, nodes, beat, usable),
        Transport::Datagrams => by_lost_rounds(network, nodes, beat, usable),
    };
    FalseAlarms { by_network, by_pauses: network.pauses_beyond(usable, beat) }
}

/// Over TCP a lost segment stalls what comes behind it, so that a member is silent for as long as the segment is lost
/// again and again. So many members must be silent at once that the rest is no majority.
fn by_stalls(network: &Network, nodes: usize, beat: f64, usable: f64) -> f64 {
    let p = network.loss.of_one();
    let borne = usable - beat - network.rtt_s();
    // A heartbeat and its answer, each with its own chance to be lost.
    let stalls = 2.0 * p / beat;
    let (mut begins, mut lasts) = (0.0, 0.0);
    let mut chance = 1.0 - p;
    for losses in 1..64 {
        let silent = network.held_up(losses) - borne;
        if silent > 0.0 {
            begins += stalls * chance;
            lasts += stalls * chance * silent;
        }
        chance *= p;
    }
    if let Some(pauses) = &network.pauses {
        let often = 1.0 / seconds(pauses.every);
        begins += often * pauses.exceeds(borne);
        lasts += often * pauses.excess(borne);
    }
    let others = nodes.saturating_sub(1);
    let too_many = others - (nodes / 2) + 1;
    let (ways, last) = (choose(others, too_many), count(too_many));
    // The last of them falls silent while the others are; or all do in the same round.
    ways * (last * begins * lasts.min(1.0).powf(last - 1.0) + (begins * beat).powf(last) / beat)
}

/// Datagrams are lost each for itself: so many members must have answered none of the last rounds that the rest is no majority.
fn by_lost_rounds(network: &Network, nodes: usize, beat: f64, usable: f64) -> f64 {
    let others = nodes.saturating_sub(1);
    let too_many = others - (nodes / 2) + 1;
    let mut silent = 1.0;
    let mut sent = beat;
    // At most as many rounds as heartbeats fit into a timeout.
    while sent < usable && silent > 0.0 {
        silent *= network.unheard(usable - sent);
        sent += beat;
    }
    // The leader is lost in this round, and was not in the last one.
    let lost = at_least(others, too_many, silent);
    let lost_before = at_least(others, too_many, silent * network.unheard(usable));
    (lost - lost_before) / beat
}

/// The chance that at least `wanted` of `all` say yes if each does with this chance.
fn at_least(all: usize, wanted: usize, chance: f64) -> f64 {
    let term =
        |yes: usize| choose(all, yes) * chance.powf(count(yes)) * (1.0 - chance).powf(count(all - yes));
    (wanted..=all).map(term).sum::<f64>().min(1.0)
}

fn choose(all: usize, some: usize) -> f64 {
    (0..some).map(|number| count(all - number) / count(number + 1)).product()
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_of_majorities_are_right() {
        assert!((at_least(2, 1, 0.9) - 0.99).abs() < 1e-12);
        assert!((at_least(4, 2, 0.5) - 11.0 / 16.0).abs() < 1e-12);
        assert!((at_least(3, 0, 0.1) - 1.0).abs() < 1e-12);
        assert!((choose(4, 3) - 4.0).abs() < 1e-12 && (choose(3, 0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_fail_over_leaves_time_for_the_four_rounds_of_paxos() {
        let network = Network {
            rtt: Span::millis(40),
            jitter: Span::millis(10),
            loss: "1%".parse().unwrap(),
            pauses: None,
            transport: Transport::Tcp,
        };
        let worst = seconds(expect(&network, 3, Timing::AGENTS).failover.worst);
        let rounds = 4.0 * network.answered_at(0.997);
        assert!(worst >= seconds(Timing::AGENTS.timeout_max) + rounds - 1e-6, "{worst}");
    }
}
