//! What the textbooks say of Ring, claim by claim; and what they say it cannot do.
//!
//! TvS: Tanenbaum & van Steen, *Distributed Systems*, "A ring algorithm". CR: Chang & Roberts 1979.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use baton_election::Span;
use baton_peer::ring::{Message, Ring, Saved};
use baton_peer::{Input, LossCause, Machine, Member, Notice, Role, Term};

use crate::net::{DELAY, IMPATIENT, Net, PATIENT, id, plain};

fn term_of(message: &Message) -> Term {
    match *message {
        Message::Election { term, .. }
        | Message::Coordinator { term, .. }
        | Message::Ack { term, .. }
        | Message::Heartbeat { term }
        | Message::Refused { term } => term,
    }
}

/// All start; the first one is the first to miss a leader.
fn founded(members: Vec<Member>) -> Net<Ring> {
    let mut net = Net::<Ring>::of(members.clone(), term_of);
    for member in members {
        let number = member.id.number();
        net.timing(number, if number == 1 { IMPATIENT } else { PATIENT });
        net.start(number);
    }
    net
}

/// Five of them, of whom the fifth leads.
fn five() -> Net<Ring> {
    let mut net = Net::<Ring>::started(plain(5), term_of);
    net.until_leaders(&[5]);
    net
}

/// A leader, and nobody is cut off or dead.
fn settled(net: &mut Net<Ring>) -> u16 {
    net.run(Span::secs(30));
    let leaders = net.leaders();
    assert_eq!(leaders.len(), 1, "{}", net.trace);
    assert_eq!(net.believed(), BTreeSet::from([Some(leaders[0])]), "{}", net.trace);
    leaders[0]
}

#[test]
fn the_highest_of_the_list_leads_and_all_learn_it() {
    // TvS: "the coordinator is the list member with the highest number".
    let net = five();
    assert_eq!(net.believed(), BTreeSet::from([Some(5)]));
    assert_eq!(net.most_leaders, 1);
}

#[test]
fn an_election_of_n_living_members_takes_two_n_messages() {
    // TvS: the ELECTION goes round once and the COORDINATOR goes round once. Each is acknowledged, which the textbook does not count.
    for size in 2..=24_u16 {
        let n = usize::from(size);
        let mut net = founded(plain(size));
        net.until_leaders(&[size]);
        assert_eq!((net.count(&["ELECTION"]), net.count(&["COORDINATOR"])), (n, n));
        assert_eq!(net.count(&["ACK"]), 2 * n);
    }
}

#[test]
fn dead_successors_are_skipped() {
    // TvS: "If the successor is down, the sender skips over the successor and goes to the next member along the ring".
    let mut net = five();
    for dead in [2, 3, 5] {
        net.crash(dead);
    }
    net.sent.clear();
    net.until_leaders(&[4]);
    net.run(Span::secs(1));
    assert_eq!(net.view(1).leader, Some(id(4)));
    // Two living members, and three dead ones between them that are tried in each of the two rounds.
    assert!(net.count(&["ELECTION"]) >= 5 && net.count(&["COORDINATOR"]) >= 5);
}

#[test]
fn who_is_left_alone_leads() {
    let mut net = five();
    for dead in 2..=5 {
        net.crash(dead);
    }
    net.until_leaders(&[1]);
}

#[test]
fn of_two_elections_at_once_one_goes_on() {
    // CR: a message of a lower process is not passed on by a higher one that takes part itself.
    let mut net = Net::<Ring>::started(plain(12), term_of);
    net.until_leaders(&[12]);
    assert_eq!(net.most_leaders, 1);
    for number in 1..=12 {
        net.input(number, Input::Transfer { to: Some(id(11)) });
    }
    net.input(12, Input::Stopped);
    net.crash(12);
    net.run(DELAY);
    net.crash(11);
    net.sent.clear();
    net.until_leaders(&[10]);
    assert_eq!(net.most_leaders, 1);
    // Were every election of ten to go round, there would be 10 · 10 and more.
    assert!(net.count(&["ELECTION"]) < 60, "{}", net.count(&["ELECTION"]));
}

#[test]
fn an_election_whose_origin_dies_ends() {
    let mut net = founded(plain(5));
    while net.count(&["ELECTION"]) < 2 {
        net.run(Span::millis(1));
    }
    net.crash(1);
    net.until_leaders(&[5]);
    net.run(Span::secs(1));
    net.sent.clear();
    net.run(Span::secs(5));
    assert_eq!(net.count(&["ELECTION", "COORDINATOR"]), 0, "nothing goes round any more");
}

#[test]
fn a_coordinator_that_dies_before_it_hears_of_it_is_replaced() {
    let mut net = founded(plain(5));
    while net.count(&["COORDINATOR"]) < 1 {
        net.run(Span::millis(1));
    }
    net.crash(5);
    net.until_leaders(&[4]);
}

#[test]
fn a_witness_passes_on_and_never_leads() {
    let mut members = plain(3);
    members[2] = Member { witness: true, priority: 9, ..members[2] };
    let mut net = Net::<Ring>::started(members, term_of);
    net.until_leaders(&[2]);
    assert_eq!(net.view(3).leader, Some(id(2)));
    net.crash(1);
    net.crash(2);
    net.run(Span::secs(10));
    assert_eq!((net.leaders(), net.view(3).leader), (vec![], None));
}

#[test]
fn a_priority_counts_more_than_an_id() {
    let mut members = plain(3);
    members[0].priority = 1;
    let mut net = Net::<Ring>::started(members, term_of);
    net.until_leaders(&[1]);
}

#[test]
fn who_comes_back_follows_whom_it_hears() {
    let mut net = five();
    net.crash(5);
    net.until_leaders(&[4]);
    net.start(5);
    net.run(Span::secs(2));
    assert_eq!((net.leaders(), net.view(5).leader, net.most_leaders), (vec![4], Some(id(4)), 1));
}

#[test]
fn a_leader_that_is_suspected_stops_the_election_and_keeps_its_term() {
    let mut net = five();
    let term = net.view(5).term;
    net.cut(5, 1);
    while net.view(1).role != Role::Candidate {
        net.run(Span::millis(1));
    }
    net.heal();
    net.run(Span::secs(2));
    assert_eq!((net.leaders(), net.view(5).term, net.view(1).leader), (vec![5], term, Some(id(5))));
}

#[test]
fn a_split_network_has_two_leaders_even_of_one_term() {
    let mut net = Net::<Ring>::of(plain(5), term_of);
    net.split(&[1, 2], &[3, 4, 5]);
    for number in 1..=5 {
        net.start(number);
    }
    net.until_leaders(&[2, 5]);
    assert_eq!(net.view(2).term, net.view(5).term, "the term is no token");
    const { assert!(!Ring::TERMS_ARE_TOKENS) };
    net.heal();
    assert_eq!(settled(&mut net), 5, "of one term the higher one is believed");
}

#[test]
fn a_leader_that_is_not_heard_makes_two_leaders() {
    let mut net = five();
    net.split(&[5], &[1, 2, 3, 4]);
    net.until_leaders(&[4, 5]);
    net.heal();
    assert_eq!(settled(&mut net), 4, "the later term is believed");
    assert!(
        net.notices(5)
            .iter()
            .any(|notice| matches!(notice, Notice::Lost { why: LossCause::HigherTerm(_), .. }))
    );
}

#[test]
fn a_paused_leader_leads_on_when_it_wakes() {
    let mut net = five();
    net.pause(5);
    net.until_leaders(&[4, 5]);
    assert_eq!(net.view(5).until, None, "there is no lease that could have ended");
    net.wake(5);
    assert_eq!(settled(&mut net), 4);
}

#[test]
fn messages_of_older_terms_go_no_further() {
    let mut net = five();
    net.crash(5);
    net.until_leaders(&[4]);
    let (term, leader) = (net.view(2).term, net.view(2).leader);
    let old = Term(term.0 - 1);
    net.sent.clear();
    let told = Message::Coordinator { term: old, origin: id(1), leader: id(3), told: vec![id(1)] };
    net.input(2, Input::Received { from: id(1), message: told });
    let election = Message::Election { term: old, origin: id(1), ids: vec![id(1)] };
    net.input(2, Input::Received { from: id(1), message: election });
    net.input(2, Input::Received { from: id(5), message: Message::Heartbeat { term: old } });
    assert_eq!((net.view(2).term, net.view(2).leader), (term, leader));
    assert_eq!((net.count(&["ACK"]), net.count(&["REFUSED"])), (2, 1), "each is told the present term");
    assert_eq!(net.count(&["ELECTION", "COORDINATOR"]), 0);
}

#[test]
fn who_has_forgotten_learns_the_term_from_the_others() {
    let mut net = five();
    net.crash(5);
    net.until_leaders(&[4]);
    net.wipe(3);
    net.start(3);
    net.run(Span::secs(1));
    assert_eq!((net.view(3).leader, net.view(3).term), (Some(id(4)), net.view(4).term));
    let Saved { term, .. } = net.saved(3).unwrap();
    assert_eq!(*term, net.view(4).term, "and keeps it");
}

#[test]
fn the_named_one_takes_over_when_the_leader_hands_over_and_its_work_has_stopped() {
    let mut net = five();
    let term = net.view(5).term;
    net.input(5, Input::Transfer { to: Some(id(2)) });
    assert_eq!(net.notices(5).last(), Some(&Notice::Stop { term }));
    net.run(Span::secs(1));
    assert_eq!(net.leaders(), [5], "its work has not stopped yet");
    net.input(5, Input::Stopped);
    assert!(net.notices(5).contains(&Notice::Lost { term, why: LossCause::HandedOver }));
    net.until_leaders(&[2]);
    net.run(Span::secs(5));
    assert_eq!((net.leaders(), net.view(2).term, net.most_leaders), (vec![2], Term(term.0 + 1), 1));
}

#[test]
fn a_leader_above_whom_all_are_dead_hands_over_to_the_next_below() {
    let mut net = five();
    net.crash(5);
    net.until_leaders(&[4]);
    net.run(Span::secs(1));
    net.input(4, Input::Transfer { to: None });
    net.input(4, Input::Stopped);
    net.run(IMPATIENT.heartbeat.scaled(5, 2));
    assert_eq!(net.leaders(), [3], "{}", net.trace);
}

#[test]
fn a_hand_over_to_nobody_is_refused() {
    let mut net = five();
    for (number, to) in [(5, Some(id(5))), (5, Some(id(9))), (4, None)] {
        net.input(number, Input::Transfer { to });
        assert!(matches!(net.notices(number).last(), Some(Notice::Refused(_))), "{number} to {to:?}");
    }
    net.input(5, Input::Stopped);
    assert_eq!(net.leaders(), [5], "nobody had asked it to stop");
}

#[test]
fn a_leader_that_is_no_member_any_more_stops() {
    let mut net = five();
    let term = net.view(5).term;
    net.input(5, Input::Reconfigure { members: plain(3) });
    assert!(matches!(net.notices(5).last(), Some(Notice::Refused(_))), "two at once");
    for number in 1..=5 {
        net.input(number, Input::Reconfigure { members: plain(4) });
    }
    assert_eq!(net.notices(5).last(), Some(&Notice::Lost { term, why: LossCause::Removed }));
    net.until_leaders(&[4]);
    net.run(Span::secs(10));
    assert_eq!((net.leaders(), net.view(5).leader), (vec![4], None), "who is no member hears nobody");
}
