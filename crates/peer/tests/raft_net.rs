//! Raft in a small network: it elects, survives what it must, and stays with a leader that it has.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;
use baton_peer::{Input, LossCause, Member, Notice, Role, Start};

use crate::raft_world::{Net, group, id, plain, witness};

const LONG: Span = Span::secs(5);

fn led(members: Vec<Member>, seed: u64) -> (Net, u16) {
    let mut net = Net::founded(members, seed);
    let leader = net.run_until_led(LONG).unwrap();
    net.run_for(Span::secs(1));
    assert_eq!(net.leader(), Some(leader), "{}", net.story());
    (net, leader)
}

fn others(size: u16, leader: u16) -> Vec<u16> {
    (1..=size).filter(|&n| n != leader).collect()
}

#[test]
fn three_elect_one_and_keep_it() {
    for seed in 0..50 {
        let (mut net, leader) = led(plain(3), seed);
        net.run_for(Span::secs(20));
        assert_eq!((net.leader(), net.leaders.len()), (Some(leader), 1), "{}", net.story());
        for number in 1..=3 {
            assert_eq!(net.view(number).unwrap().leader.map(|id| id.number()), Some(leader));
        }
    }
}

#[test]
fn one_alone_leads_and_two_need_each_other() {
    let (mut net, leader) = led(plain(1), 1);
    net.run_for(Span::secs(5));
    assert_eq!((leader, net.leader(), net.leaders.len()), (1, Some(1), 1));
    let (mut net, leader) = led(plain(2), 1);
    net.crash(3 - leader);
    net.run_for(LONG);
    assert_eq!(net.leader(), None);
}

#[test]
fn the_leader_dies_and_another_is_elected_and_it_comes_back_as_a_follower() {
    for seed in 0..30 {
        let (mut net, leader) = led(plain(3), seed);
        net.crash(leader);
        net.run_for(Span::millis(151));
        let next = net.run_until_led(Span::secs(2)).unwrap();
        assert_ne!(next, leader);
        net.restart(leader);
        net.run_for(LONG);
        assert_eq!((net.leader(), net.role(leader)), (Some(next), Some(Role::Follower)), "{}", net.story());
    }
}

#[test]
fn a_leader_that_is_cut_off_stops_before_another_is_elected_and_reads_only() {
    for seed in 0..30 {
        let (mut net, leader) = led(plain(5), seed);
        net.notices(leader);
        net.part(leader, &others(5, leader));
        let stopped = |net: &Net| net.leader() != Some(leader);
        while !stopped(&net) {
            net.run_for(Span::millis(1));
        }
        assert_eq!(net.leading(), [0; 0], "nobody leads at the instant in which it stops");
        assert!(net.view(leader).unwrap().role != Role::Leader);
        let next = net.run_until_led(Span::secs(2)).unwrap();
        net.run_for(Span::secs(1));
        let view = net.view(leader).unwrap();
        assert!(view.read_only && view.leader.is_none(), "it has heard of nobody since: {view:?}");
        let lost = net.notices(leader).into_iter().find_map(|notice| match notice {
            Notice::Lost { why, .. } => Some(why),
            _ => None,
        });
        assert_eq!(lost, Some(LossCause::NoMajority));
        let terms = net.leaders.len();
        net.heal();
        net.run_for(LONG);
        assert_eq!((net.leader(), net.leaders.len()), (Some(next), terms), "{}", net.story());
        assert!(!net.view(leader).unwrap().read_only);
    }
}

#[test]
fn with_a_witness_either_of_two_may_die_and_the_witness_never_leads() {
    for seed in 0..30 {
        let (mut net, leader) = led(vec![witness(3), plain(2)[0], plain(2)[1]], seed);
        assert_ne!(leader, 3);
        let other = 3 - leader;
        net.crash(leader);
        net.run_for(Span::millis(160));
        assert_eq!(net.run_until_led(Span::secs(3)), Some(other));
        net.restart(leader);
        net.run_for(LONG);
        net.crash(other);
        net.run_for(Span::millis(160));
        assert_eq!(net.run_until_led(Span::secs(3)), Some(leader));
        net.crash(leader);
        net.run_for(LONG);
        assert_eq!((net.leader(), net.role(3)), (None, Some(Role::Follower)), "the witness is alone");
        assert!(net.leaders.values().all(|&leader| leader != id(3)));
    }
}

#[test]
fn a_witness_keeps_the_group_when_the_other_member_dies() {
    let (mut net, leader) = led(vec![plain(2)[0], plain(2)[1], witness(3)], 4);
    net.crash(3 - leader);
    net.run_for(LONG);
    assert_eq!((net.leader(), net.leaders.len()), (Some(leader), 1));
    net.crash(3);
    net.run_for(LONG);
    assert_eq!(net.leader(), None, "one of three is no majority");
}

#[test]
fn two_witnesses_and_one_member_have_one_who_can_lead() {
    let (mut net, leader) = led(vec![plain(1)[0], witness(2), witness(3)], 5);
    assert_eq!(leader, 1);
    net.crash(2);
    net.run_for(LONG);
    assert_eq!((net.leader(), net.leaders.len()), (Some(1), 1), "one witness is enough");
    net.crash(1);
    net.restart(2);
    net.run_for(LONG);
    assert_eq!(net.leader(), None, "two witnesses are a majority and elect nobody");
    net.restart(1);
    assert_eq!(net.run_until_led(LONG), Some(1));
}

#[test]
fn a_forgotten_member_comes_back_and_counts_again() {
    for seed in 0..30 {
        let (mut net, leader) = led(plain(3), seed);
        let (lost, other) = (others(3, leader)[0], others(3, leader)[1]);
        net.restart_forgotten(lost);
        net.run_for(Span::secs(2));
        assert_eq!((net.leader(), net.leaders.len()), (Some(leader), 1), "{}", net.story());
        assert_eq!(net.role(lost), Some(Role::Follower));
        net.crash(other);
        net.run_for(LONG);
        assert_eq!(net.leader(), Some(leader), "its answers count");
        net.crash(leader);
        net.restart(other);
        assert!(net.run_until_led(LONG).is_some(), "its vote counts: {}", net.story());
    }
}

#[test]
fn two_of_three_that_have_forgotten_elect_nobody_in_an_old_term() {
    let (mut net, leader) = led(plain(3), 7);
    net.crash(leader);
    for lost in others(3, leader) {
        net.restart_forgotten(lost);
    }
    net.run_for(LONG);
    assert_eq!(net.leader(), None);
    assert!(others(3, leader).iter().all(|&lost| net.node(lost).saved.is_none()), "they keep nothing");
    net.restart(leader);
    net.run_for(LONG);
    assert_eq!(net.leader(), None, "each of them needs two that remember");
}

#[test]
fn a_group_that_has_all_forgotten_is_founded() {
    for seed in 0..30 {
        let mut net = Net::empty(seed);
        for number in 1..=5 {
            net.add(id(number), group(plain(5)), Start::Forgotten);
            net.run_for(Span::millis(seed * 10));
        }
        assert!(net.run_until_led(LONG).is_some(), "{}", net.story());
        net.run_for(Span::secs(1));
        assert!((1..=5).all(|number| net.role(number) != Some(Role::Waiting)));
        assert_eq!(net.leaders.len(), 1);
    }
}

#[test]
fn a_crash_while_the_group_is_founded_does_not_block_it() {
    for seed in 0..60 {
        let mut net = Net::empty(seed);
        for number in 1..=3 {
            net.add(id(number), group(plain(3)), Start::Forgotten);
        }
        net.weather.loss_percent = 30;
        while (1..=3).all(|number| net.node(number).saved.is_none()) {
            net.run_for(Span::millis(1));
        }
        let first = (1..=3).find(|&number| net.node(number).saved.is_some()).unwrap();
        net.restart(first);
        net.weather.loss_percent = 0;
        assert!(net.run_until_led(LONG).is_some(), "seed {seed}\n{}", net.story());
    }
}

#[test]
fn a_transfer_stops_the_work_first_and_the_successor_leads_at_once() {
    for seed in 0..30 {
        let (mut net, leader) = led(plain(3), seed);
        let to = others(3, leader)[0];
        net.notices(leader);
        net.step(leader, Input::Transfer { to: Some(id(to)) });
        net.run_for(Span::millis(20));
        assert_eq!(net.leader(), Some(to), "much faster than a timeout: {}", net.story());
        let told = net.notices(leader);
        let position = |wanted: fn(&Notice) -> bool| told.iter().position(wanted).unwrap();
        let stop = position(|notice| matches!(notice, Notice::Stop { .. }));
        let lost = position(|notice| matches!(notice, Notice::Lost { why: LossCause::HandedOver, .. }));
        assert!(stop < lost, "{told:?}");
        net.run_for(LONG);
        assert_eq!((net.leader(), net.leaders.len()), (Some(to), 2));
    }
}

#[test]
fn a_transfer_to_a_member_that_cannot_win_is_refused_and_the_work_goes_on() {
    let (mut net, leader) = led(plain(5), 3);
    let to = others(5, leader)[0];
    net.part(to, &others(5, leader)[1..]);
    net.notices(leader);
    net.step(leader, Input::Transfer { to: Some(id(to)) });
    net.run_for(LONG);
    assert_eq!((net.leader(), net.leaders.len()), (Some(leader), 1));
    let told = net.notices(leader);
    assert!(told.iter().any(|notice| matches!(notice, Notice::Refused(_))), "{told:?}");
    assert!(!told.iter().any(|notice| matches!(notice, Notice::Stop { .. })), "{told:?}");
}

#[test]
fn a_transfer_whose_successor_dies_while_the_work_stops_costs_one_timeout() {
    let (mut net, leader) = led(plain(3), 3);
    let to = others(3, leader)[0];
    net.step(leader, Input::Transfer { to: Some(id(to)) });
    net.run_for(Span::millis(6));
    net.crash(to);
    net.run_for(Span::millis(10));
    assert_eq!(net.leader(), None);
    assert!(net.run_until_led(Span::secs(1)).is_some(), "{}", net.story());
}

#[test]
fn the_highest_priority_leads_and_gets_the_leadership_back_after_a_while() {
    let mut members = plain(3);
    members[1].priority = 9;
    for seed in 0..20 {
        let (mut net, leader) = led(members.clone(), seed);
        assert_eq!(leader, 2, "it stands first");
        net.crash(2);
        net.run_for(Span::millis(200));
        let next = net.run_until_led(LONG).unwrap();
        net.restart(2);
        net.run_for(Span::secs(2));
        assert_eq!(net.leader(), Some(next), "not at once");
        net.run_for(Span::secs(3));
        assert_eq!((net.leader(), net.leaders.len()), (Some(2), 3), "{}", net.story());
    }
}

#[test]
fn a_preferred_member_that_comes_and_goes_does_not_make_the_leadership_flap() {
    let mut members = plain(3);
    members[1].priority = 9;
    let (mut net, _) = led(members, 1);
    for _ in 0..30 {
        net.crash(2);
        net.run_for(Span::millis(1_500));
        net.restart(2);
        net.run_for(Span::millis(1_000));
    }
    assert_eq!(net.leaders.len(), 2, "it led first, and never again: {}", net.story());
}

#[test]
fn a_preferred_member_that_cannot_be_elected_gets_nothing() {
    let mut members = plain(5);
    members[1].priority = 9;
    members[0].priority = 5;
    let (mut net, leader) = led(members, 2);
    assert_eq!(leader, 2);
    net.crash(2);
    net.run_for(Span::millis(200));
    assert_eq!(net.run_until_led(LONG), Some(1));
    net.part(2, &[3, 4, 5]);
    net.restart(2);
    net.run_for(Span::secs(30));
    assert_eq!((net.leader(), net.leaders.len()), (Some(1), 2), "{}", net.story());
}

#[test]
fn members_join_and_leave_one_at_a_time() {
    for seed in 0..20 {
        let (mut net, leader) = led(plain(3), seed);
        // The newcomer knows the list as it shall be, and nothing else.
        net.add(id(4), group(plain(4)), Start::Forgotten);
        net.run_for(Span::secs(1));
        net.step(leader, Input::Reconfigure { members: plain(4) });
        net.run_for(Span::secs(2));
        assert_eq!((net.leader(), net.role(4)), (Some(leader), Some(Role::Follower)), "{}", net.story());
        let gone = others(3, leader)[0];
        let left: Vec<Member> = plain(4).into_iter().filter(|member| member.id != id(gone)).collect();
        net.step(leader, Input::Reconfigure { members: left.clone() });
        net.run_for(Span::secs(2));
        assert_eq!((net.leader(), net.leaders.len()), (Some(leader), 1), "{}", net.story());
        // The one that left disturbs nobody, and finds out that it left.
        net.run_for(Span::secs(5));
        assert_eq!(net.leaders.len(), 1);
        let other = others(3, leader)[1];
        net.crash(leader);
        net.run_for(Span::millis(200));
        let next = net.run_until_led(LONG).unwrap();
        assert!([4, other].contains(&next), "{next}");
        assert!(net.node(gone).saved.as_ref().unwrap().group.member(id(gone)).is_none());
    }
}

#[test]
fn a_leader_that_removes_itself_leads_until_the_list_counts() {
    for seed in 0..20 {
        let (mut net, leader) = led(plain(3), seed);
        net.notices(leader);
        let left: Vec<Member> = plain(3).into_iter().filter(|member| member.id != id(leader)).collect();
        net.step(leader, Input::Reconfigure { members: left });
        net.run_for(Span::millis(10));
        assert_eq!(net.leader(), None);
        let told = net.notices(leader);
        assert!(told.iter().any(|n| matches!(n, Notice::Lost { why: LossCause::Removed, .. })), "{told:?}");
        net.run_for(Span::secs(3));
        let next = net.leader().unwrap();
        assert_ne!(next, leader);
        net.run_for(LONG);
        assert_eq!((net.leader(), net.leaders.len()), (Some(next), 2));
    }
}

#[test]
fn a_paused_leader_that_wakes_up_does_not_lead() {
    for seed in 0..20 {
        let (mut net, leader) = led(plain(3), seed);
        net.node(leader).is_paused = true;
        net.run_for(Span::millis(160));
        let next = net.run_until_led(LONG).unwrap();
        net.run_for(Span::secs(1));
        net.node(leader).is_paused = false;
        net.notices(leader);
        net.run_for(Span::millis(1));
        assert!(matches!(net.notices(leader).first(), Some(Notice::Lost { .. })));
        net.run_for(LONG);
        assert_eq!((net.leader(), net.leaders.len()), (Some(next), 2), "{}", net.story());
    }
}
