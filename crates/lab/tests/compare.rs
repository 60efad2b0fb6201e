//! `baton lab compare`: the pictures show the table's numbers, and what the textbooks claim is seen.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::OnceLock;

use baton_lab::compare::{Comparison, Plan, SIZES, compare, electors, setup};
use baton_lab::plot::{Setting, Unit};
use baton_lab::{Elector, Scenario};

/// One comparison for all tests.
fn seen() -> &'static Comparison {
    static SEEN: OnceLock<Comparison> = OnceLock::new();
    SEEN.get_or_init(|| {
        let scenarios = vec![Scenario::Partition, Scenario::Pause, Scenario::Cascade];
        compare(&Plan { scenarios, ..Plan::all(6) }, NonZeroUsize::new(2).unwrap(), &|_| {})
    })
}

/// The value of an attribute of each element that has the attribute `having`.
fn elements(svg: &str, having: &str) -> Vec<BTreeMap<String, String>> {
    svg.split('<')
        .filter(|element| element.contains(&format!("{having}=\"")))
        .map(|element| {
            let inside = element.split('>').next().unwrap();
            let pieces: Vec<&str> = inside.split('"').collect();
            let attributes = pieces.chunks_exact(2).map(|pair| {
                let name = pair[0].trim_end_matches('=').rsplit(' ').next().unwrap();
                (name.to_string(), pair[1].to_string())
            });
            attributes.collect()
        })
        .collect()
}

fn svg(comparison: &Comparison, name: &str) -> String {
    let page = comparison.page("a test");
    let mut figures = page.sections.iter().flat_map(|section| &section.figures);
    figures.find(|figure| figure.name == name).unwrap().svg(Setting::Page)
}

#[test]
fn every_bar_shows_the_number_of_the_table() {
    let comparison = seen();
    let table = comparison.table();
    for (picture, column) in [
        ("two-leaders", "two leaders s/h"),
        ("no-leader", "no leader s/h"),
        ("failover-p50", "fail-over p50 s"),
        ("failover-p99", "fail-over p99 s"),
        ("writes-refused", "writes refused /h"),
        ("writes-mixed", "writes mixed /h"),
    ] {
        let column = table.head.iter().position(|name| name == column).unwrap();
        let bars = elements(&svg(comparison, picture), "data-value");
        assert_eq!(bars.len(), table.rows.len(), "{picture}");
        for (bar, row) in bars.iter().zip(&table.rows) {
            assert_eq!((&bar["data-group"], &bar["data-series"]), (&row[0], &row[1]), "{picture}");
            let shown = match bar["data-value"].as_str() {
                "none" => "–".to_string(),
                value => Unit::Plain.write(value.parse().unwrap()),
            };
            assert_eq!(shown, row[column], "{picture}: {bar:?}");
        }
    }
}

#[test]
fn every_bar_is_as_long_as_its_number() {
    let svg = svg(seen(), "no-leader");
    let bars = elements(&svg, "data-value");
    let number = |bar: &BTreeMap<String, String>, name: &str| bar[name].parse::<f64>().unwrap();
    let longest = bars.iter().max_by(|a, b| number(a, "width").total_cmp(&number(b, "width"))).unwrap();
    let scale = number(longest, "width") / number(longest, "data-value");
    for bar in &bars {
        let expected = (number(bar, "data-value") * scale).max(1.5);
        assert!((number(bar, "width") - expected).abs() < 0.2, "{bar:?}: expected {expected}");
    }
}

#[test]
fn every_point_shows_the_number_of_the_table() {
    let comparison = seen();
    let table = comparison.costs_table();
    let points = elements(&svg(comparison, "messages"), "data-y");
    for row in &table.rows {
        let mine: Vec<_> = points.iter().filter(|point| point["data-series"] == row[0]).collect();
        assert_eq!(mine.len(), SIZES.len(), "{row:?}");
        for ((point, cell), size) in mine.iter().zip(&row[1..]).zip(SIZES) {
            assert_eq!(point["data-x"], size.to_string());
            assert_eq!(&Unit::Plain.write(point["data-y"].parse().unwrap()), cell);
        }
    }
}

#[test]
fn bully_grows_as_the_square_and_ring_as_the_size() {
    let cost = |algorithm: Elector, nodes: u8| {
        let found = seen().costs.iter().find(|cost| cost.algorithm == algorithm && cost.nodes == nodes);
        found.unwrap().messages
    };
    // From 17 to 65 members: nearly four times as many.
    let growth = |algorithm| cost(algorithm, 65) / cost(algorithm, 17);
    assert!(growth(Elector::BULLY) > 8.0, "{}", growth(Elector::BULLY));
    for linear in [Elector::RING, Elector::RAFT, Elector::PAXOS] {
        assert!((3.0..6.5).contains(&growth(linear)), "{linear}: {}", growth(linear));
    }
    assert!(cost(Elector::BULLY, 65) > 3.0 * cost(Elector::RING, 65));
}

#[test]
fn an_election_costs_all_rounds_until_its_leader_may_act() {
    for cost in &seen().costs {
        let n = f64::from(cost.nodes);
        let expected = match cost.algorithm {
            // Asked for, voted for, and followed: of n − 1 that are asked the dead one does not answer.
            Elector::RAFT => 3.0 * (2.0 * n - 3.0),
            // Sounded, prepared, the last value accepted, and its own.
            Elector::PAXOS => 4.0 * (2.0 * n - 3.0),
            // Each of those that wait looks and is answered, at least; one of them also swaps.
            Elector::Lease | Elector::LeaseObserved => {
                assert!(cost.messages >= 2.0 * (n - 1.0) + 2.0, "{cost:?}");
                continue;
            }
            Elector::BULLY | Elector::RING => continue,
        };
        assert!((expected..1.2 * expected).contains(&cost.messages), "{cost:?}: expected {expected}");
    }
}

#[test]
fn two_lead_only_where_no_promise_says_otherwise() {
    let comparison = seen();
    for cell in &comparison.cells {
        if cell.algorithm.is_exclusive() {
            assert_eq!(
                (cell.two_leaders(), cell.beside_still(), cell.mixed()),
                (0.0, 0.0, 0.0),
                "{} {}",
                cell.algorithm,
                cell.scenario
            );
        }
        assert_eq!(cell.broken, None, "{} {}", cell.algorithm, cell.scenario);
    }
    for split in [Elector::BULLY, Elector::RING] {
        let found = |cell: &&baton_lab::compare::Cell| {
            cell.algorithm == split && cell.scenario == Scenario::Partition
        };
        let cell = comparison.cells.iter().find(found).unwrap();
        assert!(
            cell.two_leaders() > 10.0,
            "{split} must have two leaders under partition: {}",
            cell.two_leaders()
        );
    }
}

#[test]
fn all_algorithms_meet_the_same_faults() {
    for scenario in Scenario::ALL {
        let raft = setup(Elector::RAFT, scenario, 5, 3);
        for algorithm in electors() {
            let other = setup(algorithm, scenario, 5, 3);
            assert_eq!(
                (&other.network, other.chaos, &other.drift_ppm),
                (&raft.network, raft.chaos, &raft.drift_ppm)
            );
            assert_eq!(other.plan, raft.plan, "{algorithm} {scenario}");
        }
    }
}

#[test]
fn as_many_threads_give_the_same_numbers() {
    let plan = Plan {
        scenarios: vec![Scenario::Pause],
        algorithms: vec![Elector::RAFT, Elector::BULLY],
        ..Plan::all(20)
    };
    let on = |threads| {
        let comparison = compare(&plan, NonZeroUsize::new(threads).unwrap(), &|_| {});
        (comparison.table(), comparison.costs_table())
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn the_page_stands_alone_and_says_how_it_was_made() {
    let html = seen().page("baton lab compare --seeds 6").html();
    assert!(
        html.contains("Made by <code>baton lab compare --seeds 6</code>") && html.contains("Seeds 0 to 5")
    );
    for never in ["<script", "<link", "<img", "@import", "url(", " src=", " href=", " style=", "NaN", "inf"] {
        assert!(!html.contains(never), "{never}");
    }
    // What is in the address of the SVG's own language is the only address.
    assert_eq!(
        html.matches("http").count(),
        html.matches("http://www.w3.org/2000/svg").count() + html.matches("http-equiv").count()
    );
    assert_eq!(
        html.matches("<figcaption>").count(),
        html.matches("<svg").count(),
        "each picture has its caption"
    );
}
