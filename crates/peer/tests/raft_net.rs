//! Raft in a small network: it elects, survives what it must, and stays with a leader that it has.
#![allow(clippy::unwrap_used, reason = "a test")]

mod raft_world;

use baton_election::Span;
use raft_world::{Net, plain};

const LONG: Span = Span::secs(5);

#[test]
fn three_elect_one_and_keep_it() {
    for seed in 0..50 {
        let mut net = Net::founded(plain(3), seed);
        let leader = net.run_until_led(LONG).unwrap();
        net.run_for(Span::secs(20));
        assert_eq!((net.leader(), net.leaders.len()), (Some(leader), 1), "{}", net.story());
        for number in 1..=3 {
            assert_eq!(net.view(number).unwrap().leader.map(|id| id.number()), Some(leader));
        }
    }
}
