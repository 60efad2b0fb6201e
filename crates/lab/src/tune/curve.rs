//! How false alarms fall as a fail-over may take longer.

use super::{Tradeoff, TuningGoal, group, lease, network::seconds, span};

const POINTS: u32 = 25;

/// From the shortest fail-over that can be had to several times the wished one.
pub(super) fn over(goal: &TuningGoal) -> Vec<Tradeoff> {
    let (network, wished) = (&goal.network, seconds(goal.failover));
    let group = group::shortest(network, goal.nodes).unwrap_or(f64::INFINITY);
    let shortest = lease::shortest(network).min(group).min(wished);
    let longest = (wished * 6.0).max(shortest * 10.0);
    let step = (longest / shortest).powf(1.0 / f64::from(POINTS - 1));
    (0..POINTS)
        .map(|number| {
            let failover = shortest * step.powi(i32::try_from(number).unwrap_or(0));
            Tradeoff {
                failover: span(failover),
                lease: lease::advise(network, failover).map(|advice| advice.false_alarms),
                group: group::advise(network, goal.nodes, failover).map(|advice| advice.false_alarms),
            }
        })
        .collect()
}
