//! `baton lab scale`: fleets under one leader, and under regional ones.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_lab::scale::{Error, Outcome, Setup, Shape, page, run, table};

fn fleet(agents: u32, shape: Shape) -> Outcome {
    run(Setup::new(agents, shape, 7)).unwrap()
}

const REGIONS: Shape = Shape::Regional { size: 500 };

#[test]
fn a_seed_gives_the_same_numbers_every_time() {
    let (one, again) = (fleet(2_000, REGIONS), fleet(2_000, REGIONS));
    assert_eq!(one, again);
    assert_ne!(one, run(Setup::new(2_000, REGIONS, 8)).unwrap());
}

#[test]
fn peace_costs_what_the_rhythm_says() {
    for shape in [Shape::Flat, REGIONS] {
        let outcome = fleet(5_000, shape);
        // A report and its answer every 5.5 s on average, and what the renewals need.
        let expected = 2.0 * 5_000.0 / 5.5;
        let ratio = outcome.steady.messages / expected;
        assert!(
            (0.95..1.05).contains(&ratio),
            "{shape:?}: {} messages a second, expected {expected}",
            outcome.steady.messages
        );
        let renewals = f64::from(outcome.elections) / 10.0;
        let ratio = outcome.steady.store_operations / renewals;
        assert!((0.8..1.2).contains(&ratio), "{shape:?}: {} operations", outcome.steady.store_operations);
        assert_eq!(
            (outcome.steady.store_refusals, outcome.steady.reports_lost, outcome.lost_in_peace),
            (0.0, 0.0, 0)
        );
    }
}

#[test]
fn a_dead_leader_is_followed_after_its_lease_and_not_before() {
    for shape in [Shape::Flat, REGIONS] {
        for seed in 0..5 {
            let outcome = run(Setup::new(2_000, shape, seed)).unwrap();
            let (failover, most, all) =
                (outcome.failover_s.unwrap(), outcome.most_know_s.unwrap(), outcome.all_know_s.unwrap());
            // It renewed up to 10 s before it died, and candidates bid up to a second after the end.
            assert!((20.0..=31.5).contains(&failover), "{shape:?} {seed}: {failover}");
            assert!(failover <= most && most <= all && all < 60.0, "{shape:?} {seed}: {most} {all}");
        }
    }
}

#[test]
fn regions_keep_leaders_and_the_store_from_the_whole_fleet() {
    let (flat, regional) = (fleet(20_000, Shape::Flat), fleet(20_000, REGIONS));
    assert!(flat.steady.busiest_process > 20.0 * regional.steady.busiest_process, "{flat:?} {regional:?}");
    let rush = |outcome: &Outcome| outcome.worst.store_asked;
    assert!(rush(&flat) > 10.0 * rush(&regional), "{flat:?} {regional:?}");
}

#[test]
fn what_a_store_cannot_do_it_refuses_and_a_leader_appears_still() {
    let setup = Setup { store_capacity: 200, ..Setup::new(5_000, Shape::Flat, 3) };
    let outcome = run(setup).unwrap();
    assert!(outcome.worst.store_refusals > 0.0 && outcome.worst.store_operations <= 200.0, "{outcome:?}");
    assert!(outcome.failover_s.is_some(), "{outcome:?}");
}

#[test]
fn odd_fleets_are_refused() {
    let good = Setup::new(1_000, REGIONS, 1);
    let refused = |setup: Setup| run(setup).expect_err("it is odd");
    assert_eq!(refused(Setup { agents: 9, ..good }), Error::Agents(9));
    assert_eq!(refused(Setup { agents: 2_000_001, ..good }), Error::Agents(2_000_001));
    assert_eq!(refused(Setup { shape: Shape::Regional { size: 1 }, ..good }), Error::Region(1));
    assert_eq!(refused(Setup { shape: Shape::Regional { size: 1_000 }, ..good }), Error::Region(1_000));
    assert_eq!(refused(Setup { store_capacity: 0, ..good }), Error::Capacity);
    assert_eq!(refused(Setup { process_capacity: 0, ..good }), Error::Capacity);
}

#[test]
fn the_pictures_have_the_numbers_of_the_outcomes() {
    let outcomes =
        [fleet(1_000, Shape::Flat), fleet(1_000, REGIONS), fleet(3_000, Shape::Flat), fleet(3_000, REGIONS)];
    assert_eq!(table(&outcomes).rows.len(), 4);
    let html = page(&outcomes, "baton lab scale").html();
    for outcome in &outcomes {
        let (shape, agents) = (outcome.setup.shape.name(), outcome.setup.agents);
        let rush = outcome.worst.store_asked;
        for value in
            [rush, outcome.steady.busiest_process, outcome.steady.messages, outcome.all_know_s.unwrap()]
        {
            let point = format!("data-series=\"{shape}\" data-x=\"{agents}\" data-y=\"{value}\"");
            assert!(html.contains(&point), "{point}");
        }
    }
}
