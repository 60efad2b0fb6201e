//! What was seen of fleets, as a table and as a page.

use crate::plot::{Axis, Figure, Ink, LinePlot, Page, Section, Series, Stroke, Table, Unit};

use super::{Outcome, Shape};

const FLAT: Ink = Ink(0);
const REGIONAL: Ink = Ink(3);

/// The table for people.
pub fn table(outcomes: &[Outcome]) -> Table {
    let head = [
        "agents",
        "leadership",
        "messages/s",
        "store ops/s",
        "busiest process/s",
        "after a death: store ops/s",
        "refused/s",
        "fail-over",
        "99% know",
        "all know",
        "in peace: reports lost/s",
        "leaderships lost",
    ];
    Table {
        caption: "A fleet in peace, and after the death of its leader (the busiest second)".to_string(),
        head: head.map(str::to_string).to_vec(),
        rows: outcomes.iter().map(row).collect(),
    }
}

fn row(outcome: &Outcome) -> Vec<String> {
    let count = |number: f64| Unit::Count.write(number);
    let time =
        |seconds: Option<f64>| seconds.map_or("–".to_string(), |seconds| Unit::Seconds.write(seconds));
    vec![
        outcome.setup.agents.to_string(),
        outcome.setup.shape.name().to_string(),
        count(outcome.steady.messages),
        count(outcome.steady.store_operations),
        count(outcome.steady.busiest_process),
        count(outcome.worst.store_operations),
        count(outcome.worst.store_refusals),
        time(outcome.failover_s),
        time(outcome.most_know_s),
        time(outcome.all_know_s),
        count(outcome.steady.reports_lost),
        outcome.lost_in_peace.to_string(),
    ]
}

/// The page.
pub fn page(outcomes: &[Outcome], command: &str) -> Page {
    let store = figure(
        outcomes,
        (
            "scale-store",
            "What the store is asked in the busiest second after a leader's death",
            "asked a second, refused or not",
        ),
        Unit::Count,
        |outcome| Some(outcome.worst.store_asked),
        "Flat: every agent looks into the store and then bids, so that the rush grows with the fleet. Regional: only the dead leader's region and \
         the regions' leaders do.",
    );
    let process = figure(
        outcomes,
        ("scale-process", "What the busiest process receives in peace", "messages a second"),
        Unit::Count,
        |outcome| Some(outcome.steady.busiest_process),
        "Flat: the leader hears every agent. Regional: a leader hears its region or, as the fleet's, the regions' leaders.",
    );
    let messages = figure(
        outcomes,
        ("scale-messages", "All messages in peace", "messages a second"),
        Unit::Count,
        |outcome| Some(outcome.steady.messages),
        if outcomes.iter().any(|outcome| outcome.steady.reports_lost > 0.0) {
            "Both shapes send about the same: every agent reports to somebody. What differs is who has to take it. Where the flat curve bends, its leader \
             drops reports that it cannot take, and agents that hear nothing ask the store."
        } else {
            "Both shapes send about the same: every agent reports to somebody. What differs is who has to take it."
        },
    );
    let failover = figure(
        outcomes,
        ("scale-failover", "From a leader's death until all know its successor", "time"),
        Unit::Seconds,
        |outcome| outcome.all_know_s,
        "Both wait for the lease of 30 s to end, of which the dead leader had used up to a third. After that a flat fleet queues at the store, while in a regional one the word travels with the \
         answers to the next reports. A missing point: not everybody knew within two minutes.",
    );
    let section = Section {
        title: "Flat and regional".to_string(),
        text: vec![text(outcomes)],
        figures: vec![store, process, messages, failover],
        tables: vec![table(outcomes)],
    };
    Page {
        title: "Fleets of agents under one leader, and under regional ones".to_string(),
        lead: "Every agent, message and decision was simulated; the decisions are the shipped ones."
            .to_string(),
        command: command.to_string(),
        sections: vec![section],
    }
}

fn text(outcomes: &[Outcome]) -> String {
    let capacity = outcomes.first().map_or(String::new(), |outcome| {
        format!(
            " The store does {} operations a second and a process takes {} messages a second; what would wait longer than a second is refused.",
            outcome.setup.store_capacity, outcome.setup.process_capacity
        )
    });
    format!(
        "Leases of 30 s, renewed every 10 s. Each agent reports to its leader every 5 to 6 s; after 15 s without an answer it looks into the store, waits until \
         the lease has ended, and bids.{capacity}"
    )
}

fn figure(
    outcomes: &[Outcome],
    (name, title, what): (&str, &str, &str),
    unit: Unit,
    of: impl Fn(&Outcome) -> Option<f64>,
    caption: &str,
) -> Figure {
    let series = |shape: &str, ink: Ink, belongs: fn(&Shape) -> bool| Series {
        name: shape.to_string(),
        ink,
        stroke: Stroke::Measured,
        points: outcomes
            .iter()
            .filter(|outcome| belongs(&outcome.setup.shape))
            .filter_map(|outcome| Some((f64::from(outcome.setup.agents), of(outcome)?)))
            .collect(),
    };
    let y = match unit {
        Unit::Count => Axis::log(what, unit),
        Unit::Seconds | Unit::Percent | Unit::Plain => Axis::linear(what, unit),
    };
    let plot = LinePlot {
        title: title.to_string(),
        x: Axis::log("agents", Unit::Count),
        y,
        series: vec![
            series("flat", FLAT, |shape| matches!(shape, Shape::Flat)),
            series("regional", REGIONAL, |shape| matches!(shape, Shape::Regional { .. })),
        ],
        marks: vec![],
    };
    Figure::lines(name, plot, caption)
}
