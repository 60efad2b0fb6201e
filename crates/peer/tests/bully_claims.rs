//! What the paper and the textbooks say of Bully, claim by claim; and what they say it cannot do.
//!
//! GM: Garcia-Molina 1982. TvS: Tanenbaum & van Steen, *Distributed Systems*, "The bully algorithm". CDKB: Coulouris, Dollimore,
//! Kindberg, Blair, *Distributed Systems*, 5th edition, §15.3.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use baton_election::Span;
use baton_peer::bully::{Bully, Message, Saved};
use baton_peer::{Input, LossCause, Machine, Member, Notice, Role, Term};

use crate::net;
use crate::net::{IMPATIENT, Net, PATIENT, id, plain};

fn term_of(message: &Message) -> Term {
    match *message {
        Message::Election { term }
        | Message::Ok { term }
        | Message::Coordinator { term }
        | Message::Heartbeat { term }
        | Message::Refused { term }
        | Message::Resign { term } => term,
    }
}

fn started(members: Vec<Member>) -> Net<Bully> {
    Net::started(members, term_of)
}

/// Five of them, of whom the fifth leads.
fn five() -> Net<Bully> {
    let mut net = started(plain(5));
    net.until_leaders(&[5]);
    net
}

#[test]
fn the_biggest_of_the_living_leads_and_all_know_it() {
    // TvS: "the biggest guy in town always wins".
    let net = five();
    assert_eq!(net.believed(), BTreeSet::from([Some(5)]));
    assert_eq!(net.most_leaders, 1);
}

#[test]
fn a_priority_counts_more_than_an_id() {
    let mut members = plain(3);
    members[0].priority = 1;
    let mut net = started(members);
    net.until_leaders(&[1]);
    assert_eq!(net.believed(), BTreeSet::from([Some(1)]));
}

#[test]
fn a_witness_never_stands() {
    let mut members = plain(3);
    members[2] = Member { witness: true, priority: 9, ..members[2] };
    let mut net = started(members);
    net.until_leaders(&[2]);
    assert_eq!(net.view(3).leader, Some(id(2)), "it is told");
    net.crash(1);
    net.crash(2);
    net.run(Span::secs(10));
    assert_eq!(net.leaders(), [0_u16; 0]);
    assert_eq!(net.view(3).leader, None);
}

#[test]
fn when_the_leader_dies_the_next_in_rank_leads() {
    // GM §IV: the nodes with a higher identification number are asked; if none answers, the asker is coordinator.
    let mut net = five();
    net.crash(5);
    net.until_leaders(&[4]);
    net.crash(4);
    net.until_leaders(&[3]);
    assert_eq!(net.believed(), BTreeSet::from([Some(3)]));
    assert!(net.view(3).term >= Term(3), "each leader has a new term");
}

#[test]
fn who_comes_back_with_a_higher_rank_takes_over() {
    // TvS: "If a process that was previously down comes back up, it holds an election." And so two lead for as long as its
    // COORDINATOR is on its way.
    let mut net = five();
    net.crash(5);
    net.until_leaders(&[4]);
    assert_eq!(net.most_leaders, 1);
    net.start(5);
    net.until_leaders(&[5]);
    assert_eq!(net.most_leaders, 2);
    let lost = |notice: &Notice| {
        matches!(notice, Notice::Lost { why: LossCause::HigherTerm(_) | LossCause::Outranked(_), .. })
    };
    assert!(net.notices(4).iter().any(lost));
}

#[test]
fn who_is_answered_waits_and_asks_again_if_no_leader_is_named() {
    // CDKB: "If none arrives, it begins another election."
    let mut net = five();
    net.crash(5);
    net.run(Span::millis(1));
    // The fourth answers, and dies before it can lead.
    let third = |net: &Net<Bully>| net.view(3).role == Role::Candidate;
    while !third(&net) {
        net.run(Span::millis(1));
    }
    net.run(net::DELAY.plus(net::DELAY));
    net.crash(4);
    net.until_leaders(&[3]);
    assert_eq!(net.most_leaders, 1);
}

#[test]
fn a_lower_one_that_suspects_the_leader_is_put_right_and_the_term_stays() {
    let mut net = five();
    let term = net.view(5).term;
    net.cut(5, 1);
    while net.view(1).role != Role::Candidate {
        net.run(Span::millis(1));
    }
    net.heal();
    net.run(Span::secs(1));
    assert_eq!((net.leaders(), net.view(5).term, net.most_leaders), (vec![5], term, 1));
    assert_eq!(net.view(1).leader, Some(id(5)));
}

#[test]
fn a_split_network_has_two_leaders_even_of_one_term() {
    // CDKB: the algorithm assumes reliable delivery and a synchronous system. This is what is not guaranteed.
    let mut net = Net::<Bully>::of(plain(5), term_of);
    net.split(&[1, 2], &[3, 4, 5]);
    for number in 1..=5 {
        net.start(number);
    }
    net.until_leaders(&[2, 5]);
    assert_eq!(net.view(2).term, net.view(5).term, "the term is no token");
    const { assert!(!Bully::TERMS_ARE_TOKENS) };
    net.heal();
    net.until_leaders(&[5]);
    assert_eq!(net.believed(), BTreeSet::from([Some(5)]));
}

#[test]
fn a_lost_answer_makes_two_leaders() {
    let mut net = five();
    net.cut(5, 4);
    net.until_leaders(&[4, 5]);
    net.heal();
    net.until_leaders(&[5]);
}

#[test]
fn a_paused_leader_leads_on_when_it_wakes() {
    let mut net = five();
    net.pause(5);
    net.until_leaders(&[4, 5]);
    assert_eq!(net.view(5).until, None, "there is no lease that could have ended");
    net.wake(5);
    net.run(Span::secs(1));
    assert_eq!(net.leaders(), [5]);
}

#[test]
fn messages_of_older_terms_are_refused() {
    let mut net = five();
    net.crash(5);
    net.until_leaders(&[4]);
    let (term, leader) = (net.view(2).term, net.view(2).leader);
    let refused = net.count(&["REFUSED"]);
    let old = Message::Coordinator { term: Term(term.0 - 1) };
    net.input(2, Input::Received { from: id(5), message: old });
    assert_eq!((net.view(2).term, net.view(2).leader), (term, leader), "not believed");
    assert_eq!(net.count(&["REFUSED"]), refused + 1, "and told so");
}

#[test]
fn who_has_forgotten_learns_the_term_from_the_others() {
    let mut net = five();
    net.crash(5);
    net.until_leaders(&[4]);
    let term = net.view(4).term;
    net.wipe(3);
    net.start(3);
    net.run(Span::secs(1));
    assert_eq!((net.view(3).leader, net.view(3).term, net.leaders()), (Some(id(4)), term, vec![4]));
}

#[test]
fn what_was_seen_is_kept() {
    let mut net = five();
    net.crash(5);
    net.until_leaders(&[4]);
    let Saved { term, .. } = net.saved(1).unwrap();
    assert_eq!(*term, net.view(4).term);
}

#[test]
fn the_next_in_rank_takes_over_when_the_leader_hands_over_and_its_work_has_stopped() {
    let mut net = Net::<Bully>::of(plain(5), term_of);
    for number in 1..=5 {
        net.timing(number, if number == 5 { IMPATIENT } else { PATIENT });
        net.start(number);
    }
    net.until_leaders(&[5]);
    let term = net.view(5).term;
    net.input(5, Input::Transfer { to: None });
    assert_eq!(net.notices(5).last(), Some(&Notice::Stop { term }));
    net.run(Span::secs(1));
    assert_eq!((net.leaders(), net.count(&["RESIGN"])), (vec![5], 0), "its work has not stopped yet");
    net.input(5, Input::Stopped);
    assert_eq!(net.notices(5).last(), Some(&Notice::Lost { term, why: LossCause::HandedOver }));
    net.until_leaders(&[4]);
    net.run(Span::secs(10));
    assert_eq!((net.leaders(), net.most_leaders), (vec![4], 1), "who resigned stays aside");
    net.crash(4);
    net.run(Span::secs(1));
    assert_eq!(net.leaders(), [5], "until it is the first to notice that its successor is silent");
}

#[test]
fn a_leadership_can_be_handed_back() {
    let mut net = five();
    net.input(5, Input::Transfer { to: None });
    net.input(5, Input::Stopped);
    net.until_leaders(&[4]);
    net.run(Span::secs(1));
    net.input(4, Input::Transfer { to: Some(id(5)) });
    net.input(4, Input::Stopped);
    net.until_leaders(&[5]);
    net.run(Span::secs(10));
    assert_eq!((net.leaders(), net.view(4).leader, net.most_leaders), (vec![5], Some(id(5)), 1));
}

#[test]
fn a_leadership_is_handed_down_past_the_dead() {
    for (dead, to, heir) in [(5, None, 3), (5, Some(id(3)), 3), (3, None, 2), (3, Some(id(3)), 2)] {
        let mut net = five();
        net.crash(5);
        net.until_leaders(&[4]);
        if dead != 5 {
            net.crash(dead);
        }
        net.run(Span::secs(1));
        net.input(4, Input::Transfer { to });
        net.input(4, Input::Stopped);
        net.run(IMPATIENT.heartbeat.scaled(5, 2));
        assert_eq!(net.leaders(), [heir], "within two heartbeats, to {to:?} past {dead}\n{}", net.trace);
        net.run(Span::secs(10));
        assert_eq!((net.leaders(), net.most_leaders), (vec![heir], 1), "and 4 stays aside");
    }
}

#[test]
fn a_hand_over_that_rank_forbids_is_refused() {
    let mut net = five();
    for (number, to) in [(5, Some(id(3))), (5, Some(id(5))), (4, None)] {
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
    net.crash(4);
    net.start(4);
    net.until_leaders(&[4]);
    assert_eq!(net.saved(4).unwrap().group.size(), 4, "the list is kept");
}

#[test]
fn two_whose_lists_differ_do_not_answer_each_other_without_end() {
    let mut net = five();
    let mut members = plain(5);
    members[3].priority = 1;
    net.input(4, Input::Reconfigure { members });
    net.crash(4);
    net.start(4);
    net.sent.clear();
    net.run(Span::secs(10));
    // Each thinks that it outranks the other. Ten seconds are two hundred heartbeats.
    let said = net.count(&["COORDINATOR", "ELECTION", "OK", "REFUSED"]);
    assert!(said < 4 * 200 * 5, "{said}");
}

/// How many messages it takes to replace the dead leader of `size` members, if `first` notices it.
fn replaced(size: u16, first: u16) -> Net<Bully> {
    let mut net = Net::<Bully>::of(plain(size), term_of);
    for number in 1..=size {
        net.timing(number, if number == first { IMPATIENT } else { PATIENT });
        net.start(number);
    }
    net.until_leaders(&[size]);
    net.crash(size);
    net.sent.clear();
    net.until_leaders(&[size - 1]);
    net
}

#[test]
fn at_best_the_next_in_rank_notices_and_it_takes_n_minus_2_messages_and_the_question_to_the_dead_leader() {
    // CDKB §15.3: "the process with the second-highest identifier notices the coordinator's failure. Then it can immediately
    // elect itself and send N − 2 coordinator messages." We ask the silent leader first: N − 1 in all.
    for size in 3..=12 {
        let net = replaced(size, size - 1);
        assert_eq!(net.count(&["COORDINATOR"]), usize::from(size) - 2);
        assert_eq!(net.count(&["ELECTION", "OK", "REFUSED"]), 1);
    }
}

#[test]
fn at_worst_the_lowest_notices_and_it_takes_the_order_of_n_squared_messages() {
    // CDKB §15.3: "the algorithm requires O(N²) messages in the worst case … when the process with the lowest identifier first
    // detects the coordinator's failure". Each of n − 1 asks all above it, the dead one too; each of n − 1 is answered by all above
    // it that live; then n − 2 are told.
    for size in 3..=24_u16 {
        let n = usize::from(size);
        let net = replaced(size, 1);
        assert_eq!(net.count(&["ELECTION"]), n * (n - 1) / 2);
        assert_eq!(net.count(&["OK"]), (n - 1) * (n - 2) / 2);
        assert_eq!(net.count(&["COORDINATOR"]), n - 2);
        assert_eq!(net.count(&["ELECTION", "OK", "COORDINATOR", "REFUSED"]), n * n - n - 1);
    }
}
