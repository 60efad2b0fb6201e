//! The pictures of the documentation show what the laboratory sees today.
//!
//! All of them take minutes to draw; a part of each kind is computed anew here, and its numbers must stand in the files. If this fails, the machines, the
//! scenarios or the plots have changed: draw the pictures again, as `docs/guide/choosing.md` says, and read what stands beside them.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::num::NonZeroUsize;
use std::path::Path;

use baton_election::Span;
use baton_lab::compare::{Plan, compare};
use baton_lab::plot::Page;
use baton_lab::scale::{self, Setup, Shape};
use baton_lab::tune::{Network, Transport, TuningGoal, advise};
use baton_lab::{Elector, Scenario};

fn kept(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// All numbers of these pictures stand in the files of the same names, for the same things.
fn are_shown(page: &Page) {
    let mut numbers = 0;
    for (name, drawn) in page.pictures() {
        let kept = kept(&name);
        for element in drawn.split('<').filter(|element| element.contains("data-series=\"")) {
            let element = element.split('>').next().unwrap();
            let data = &element[element.find(" data-").unwrap()..];
            // What something is compared with goes through the last of all points, of which only some are drawn here.
            if !data.contains("grows as") {
                assert!(kept.contains(data), "{name} has no{data}");
                numbers += 1;
            }
        }
    }
    assert!(numbers > 0, "nothing was looked at");
}

#[test]
fn timings_are_drawn_as_they_are_reckoned() {
    let network = Network {
        rtt: Span::millis(40),
        jitter: Span::millis(10),
        loss: "1%".parse().unwrap(),
        pauses: Some("1s/1d".parse().unwrap()),
        transport: Transport::Tcp,
    };
    let advice = advise(TuningGoal { network, failover: Span::secs(10), nodes: 3 }).unwrap();
    for (name, drawn) in advice.page("").pictures() {
        assert!(kept(&name) == drawn, "{name} is not what is drawn today");
    }
}

#[test]
fn fleets_are_drawn_as_they_are_simulated() {
    let shapes = [Shape::Flat, Shape::Regional { size: 100 }];
    let seen: Vec<_> = shapes.map(|shape| scale::run(Setup::new(1_000, shape, 0)).unwrap()).into();
    are_shown(&scale::page(&seen, ""));
}

#[test]
fn elections_are_drawn_as_they_are_played() {
    let plan = Plan {
        algorithms: vec![Elector::RAFT, Elector::Lease],
        scenarios: vec![Scenario::Partition],
        ..Plan::all(200)
    };
    are_shown(&compare(&plan, NonZeroUsize::new(2).unwrap(), &|_| {}).page(""));
}
