//! The pictures of a comparison.

use crate::Elector;
use crate::plot::{Axis, Bar, BarGroup, BarPlot, Figure, Ink, LinePlot, Series, Stroke, Unit};

use super::{Cell, Comparison, Cost, seconds};

/// Each algorithm has the same colour everywhere.
pub(super) fn ink(algorithm: Elector) -> Ink {
    match algorithm {
        // A fifth algorithm would get a colour of the reference lines, which are dashed.
        Elector::Group(algorithm) => Ink(3_usize.wrapping_sub(algorithm as usize)),
        Elector::Lease => Ink(4),
        Elector::LeaseObserved => Ink(5),
    }
}

/// An algorithm in a few words.
pub(super) fn name(algorithm: Elector) -> &'static str {
    match algorithm {
        Elector::Group(algorithm) => algorithm.title(),
        Elector::Lease => "lease, stamped store",
        Elector::LeaseObserved => "lease, observed store",
    }
}

/// Bars for all scenarios and algorithms.
pub(super) fn bars(
    comparison: &Comparison,
    (file, title): (&str, &str),
    axis: Axis,
    of: impl Fn(&Cell) -> Option<f64>,
    caption: String,
) -> Figure {
    let algorithms = &comparison.plan.algorithms;
    let place = |algorithm: Elector| algorithms.iter().position(|&other| other == algorithm).unwrap_or(0);
    let groups = comparison.plan.scenarios.iter().map(|&scenario| BarGroup {
        name: scenario.name().to_string(),
        bars: comparison
            .cells
            .iter()
            .filter(|cell| cell.scenario == scenario)
            .map(|cell| Bar { series: place(cell.algorithm), value: of(cell) })
            .collect(),
    });
    let plot = BarPlot {
        title: title.to_string(),
        axis,
        series: algorithms.iter().map(|&algorithm| (name(algorithm).to_string(), ink(algorithm))).collect(),
        groups: groups.collect(),
    };
    Figure::bars(file, plot, caption)
}

/// Messages by the size of the group, and what grows as the square of it and as itself.
pub(super) fn messages(comparison: &Comparison) -> Figure {
    let of = |algorithm: Elector| -> Vec<Cost> {
        comparison.costs.iter().copied().filter(|cost| cost.algorithm == algorithm).collect()
    };
    let mut series: Vec<Series> = comparison
        .plan
        .algorithms
        .iter()
        .map(|&algorithm| Series {
            name: name(algorithm).to_string(),
            ink: ink(algorithm),
            stroke: Stroke::Measured,
            points: of(algorithm).iter().map(|cost| (f64::from(cost.nodes), cost.messages)).collect(),
        })
        .collect();
    let bully = of(Elector::BULLY);
    let ring = of(Elector::RING);
    series.extend(reference("grows as n²", Ink(6), &bully, 2));
    series.extend(reference("grows as n", Ink(7), &ring, 1));
    let plot = LinePlot {
        title: "Messages for one election after a leader's death".to_string(),
        x: Axis::log("members", Unit::Count),
        y: Axis::log("messages", Unit::Count),
        series,
        marks: vec![],
    };
    Figure::lines("messages", plot, caption(&bully, &ring))
}

/// The power of n that goes through the last point.
fn reference(name: &str, ink: Ink, costs: &[Cost], power: i32) -> Option<Series> {
    let last = costs.last()?;
    let factor = last.messages / f64::from(last.nodes).powi(power);
    let point = |cost: &Cost| (f64::from(cost.nodes), factor * f64::from(cost.nodes).powi(power));
    Some(Series {
        name: name.to_string(),
        ink,
        stroke: Stroke::Reference,
        points: costs.iter().map(point).collect(),
    })
}

/// By which power of the size the cost grows, between the last two sizes.
pub(super) fn growth(costs: &[Cost]) -> Option<f64> {
    let [.., before, last] = costs else { return None };
    let (cost, size) = (last.messages / before.messages, f64::from(last.nodes) / f64::from(before.nodes));
    (cost > 0.0 && size > 1.0).then(|| cost.ln() / size.ln())
}

fn caption(bully: &[Cost], ring: &[Cost]) -> String {
    let mut caption = "All messages until the new leader may act: the last rounds of Raft and Paxos look like heartbeats and decide the election. For a lease: the requests \
         to the store, its answers, and its notices to watchers. Heartbeats and the leader's renewals are not counted. Both axes grow by \
         factors, so that a power is a straight line.".to_string();
    if let (Some(bully), Some(ring)) = (growth(bully), growth(ring)) {
        caption.push_str(&format!(
            " At the right end Bully grows as n to the {bully:.1}, Ring as n to the {ring:.1}: who notices the death in Bully asks all above it, \
             and each of those asks all above itself, while Ring's list goes round."
        ));
    }
    caption
}

/// Seconds, if there is a time.
pub(super) fn time(span: Option<baton_election::Span>) -> Option<f64> {
    span.map(seconds)
}
