//! Bully and Ring: one leader while the network is timely, and two as soon as it is not.
#![expect(clippy::print_stdout, reason = "the report is what one runs this for")]

use baton_election::Span;
use baton_model::textbook::{Explorable, Textbook, Trouble, promise};
use baton_peer::bully::Bully;
use baton_peer::ring::Ring;

/// Time enough to found a group, miss a leader and elect another one.
const HORIZON: Span = Span::millis(1_200);

/// How many ways for the members to be patient.
const SEEDS: u64 = 20;

fn holds<M: Explorable + 'static>(trouble: Trouble) {
    let mut states = 0;
    for seed in 0..SEEDS {
        let found = Textbook::<M>::new(trouble, HORIZON, seed).exhaust();
        for name in [promise::ONE_LEADER, promise::ONE_IN_A_TERM, promise::AGREED] {
            assert_eq!(found.run(name), None, "{} {trouble:?} seed {seed}: {name}", M::NAME);
        }
        assert!(found.run(promise::LED).is_some());
        states += found.states;
    }
    println!("{} {trouble:?}: {states} states", M::NAME);
}

fn breaks<M: Explorable + 'static>(trouble: Trouble, name: &'static str) {
    let found = Textbook::<M>::new(trouble, HORIZON, 0).find(name);
    println!("{} {trouble:?}: {} states", M::NAME, found.states);
    let run = found.run(name).unwrap_or_else(|| panic!("{} {trouble:?}: `{name}` was not broken", M::NAME));
    for step in run {
        println!("    {step}");
    }
}

#[test]
fn bully_has_one_leader_while_the_network_is_timely_and_nobody_comes_back() {
    holds::<Bully>(Trouble::Nothing);
    holds::<Bully>(Trouble::Crash);
}

#[test]
fn ring_has_one_leader_while_the_network_is_timely_and_nobody_comes_back() {
    holds::<Ring>(Trouble::Nothing);
    holds::<Ring>(Trouble::Crash);
}

#[test]
fn ring_has_one_leader_while_the_network_is_timely_even_if_one_comes_back() {
    holds::<Ring>(Trouble::Return);
}

#[test]
fn bully_has_two_leaders_when_messages_get_lost_or_come_late_or_the_network_splits() {
    for trouble in [Trouble::Loss(3), Trouble::Split, Trouble::Late] {
        breaks::<Bully>(trouble, promise::ONE_LEADER);
        breaks::<Bully>(trouble, promise::ONE_IN_A_TERM);
    }
}

#[test]
fn bully_has_two_leaders_for_a_moment_when_one_comes_back() {
    breaks::<Bully>(Trouble::Return, promise::ONE_LEADER);
}

#[test]
fn ring_has_two_leaders_when_messages_get_lost_or_come_late_or_the_network_splits() {
    for trouble in [Trouble::Loss(5), Trouble::Split, Trouble::Late] {
        breaks::<Ring>(trouble, promise::ONE_LEADER);
    }
}
