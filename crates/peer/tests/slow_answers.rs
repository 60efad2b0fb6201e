//! A leader is led on by answers that come late, however many heartbeats it has sent meanwhile.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;
use baton_peer::paxos::Paxos;
use baton_peer::raft::Raft;
use baton_peer::{Machine, Notice, Term, Timing};

use crate::net::{Net, plain};

/// 50 ms from one heartbeat to the next, and 10 s of silence are borne.
const MANY_BEATS: Timing = Timing { timeout_min: Span::secs(10), timeout_max: Span::secs(15), ..Timing::LAN };

/// Three members, and an answer comes so long after its question. Within five minutes one leads, and leads on.
fn leads_on<M: Machine>(round_trip: Span) {
    let mut net = Net::<M>::of(plain(3), |_| Term::ZERO);
    net.delay = round_trip.scaled(1, 2);
    for number in 1..=3 {
        net.timing(number, MANY_BEATS);
        net.start(number);
    }
    net.run(Span::secs(300));
    let leaders = net.leaders();
    assert_eq!(leaders.len(), 1, "{} with a round trip of {round_trip}", M::NAME);
    let lost = |number| net.notices(number).iter().filter(|told| matches!(told, Notice::Lost { .. })).count();
    assert_eq!((1..=3).map(lost).sum::<usize>(), 0, "{} with a round trip of {round_trip}", M::NAME);
}

#[test]
fn a_round_trip_of_many_heartbeats_is_borne_as_long_as_it_is_shorter_than_the_lease() {
    for round_trip in [10, 300, 450, 900, 2_000].map(Span::millis) {
        leads_on::<Raft>(round_trip);
        leads_on::<Paxos>(round_trip);
    }
}
