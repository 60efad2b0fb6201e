//! A memory recovery ends also where the only members that remember are witnesses with lists of different age: nobody else would tell them the newer one.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::{Moment, Span};
use baton_peer::memory_recovery::{Answer, Founding, Memory};
use baton_peer::pending_members::AdmittedMembers;
use baton_peer::{
    Config, Envelope, Group, GroupStamp, Input, Machine, Member, Start, Term, Timing, paxos, raft,
};

use crate::net::id;

/// One that may lead, and two witnesses.
fn members() -> Vec<Member> {
    let witness = |number| Member { witness: true, ..Member::plain(id(number)) };
    vec![Member::plain(id(1)), witness(2), witness(3)]
}

fn list(term: u64) -> Group {
    Group::stamped(GroupStamp { term: Term(term), version: 2 }, members()).unwrap()
}

/// What each has kept: the list, or nothing. Whether the first leads in the end.
fn first_leads<M: Machine>(kept: impl Fn(Group) -> M::Saved, lists: [Option<Group>; 3]) -> bool {
    let mut now = Moment::from_nanos(1_000_000);
    let founding = Group::founded(members()).unwrap();
    let start = |(number, list): (u16, Option<Group>)| {
        let config = Config { id: id(number), group: founding.clone(), timing: Timing::LAN, seed: 7 };
        M::start(config, list.map_or(Start::Forgotten, |list| Start::Restarted(kept(list))), now)
    };
    let mut machines: Vec<M> = (1..).zip(lists).map(start).collect();
    for _ in 0..400 {
        now = now + Span::millis(5);
        // Whatever is sent arrives at once.
        let mut wire: Vec<(u16, Envelope<M::Message>)> = Vec::new();
        for (number, machine) in (1..).zip(&mut machines) {
            let out = machine.step(now, Input::Tick);
            wire.extend(out.send.into_iter().map(|envelope| (number, envelope)));
        }
        while let Some((from, Envelope { to, message })) = wire.pop() {
            let machine = &mut machines[usize::from(to.number()) - 1];
            let out = machine.step(now, Input::Received { from: id(from), message });
            wire.extend(out.send.into_iter().map(|envelope| (to.number(), envelope)));
        }
    }
    machines[0].view(now).leads(now)
}

/// The same for both algorithms.
fn check(lists: [Option<Group>; 3]) {
    let (founding, admitted) = (Founding::default(), AdmittedMembers::default());
    let raft = |group| raft::Saved {
        term: Term(6),
        vote: raft::Vote::Free,
        group,
        founding: founding.clone(),
        admitted: admitted.clone(),
    };
    assert!(first_leads::<raft::Raft>(raft, lists.clone()), "Raft: {lists:?}");
    let paxos = |group| paxos::Saved {
        promised: Term(6 * 65_536),
        vote: None,
        group,
        founding: founding.clone(),
        admitted: admitted.clone(),
    };
    assert!(first_leads::<paxos::Paxos>(paxos, lists.clone()), "Paxos: {lists:?}");
}

#[test]
fn a_roll_call_brings_the_lists_of_those_who_remember_up_to_date() {
    for [second, third] in [[5, 5], [4, 5], [5, 4]] {
        check([None, Some(list(second)), Some(list(third))]);
    }
}

#[test]
fn witnesses_tell_who_was_taken_out_and_put_back_that_it_may_stand() {
    // The first has the list of when it was out; the second led then, and made itself a witness since.
    let without = vec![Member::plain(id(2)), members()[2]];
    let without = Group::stamped(GroupStamp { term: Term(4), version: 1 }, without).unwrap();
    check([Some(without), Some(list(5)), Some(list(5))]);
}

#[test]
fn who_has_an_old_list_without_the_candidate_votes_for_it_all_the_same() {
    let list = |version: u64, numbers: &[u16]| {
        let members = numbers.iter().map(|&number| Member::plain(id(number))).collect();
        Some(Group::stamped(GroupStamp { term: Term(5), version }, members).unwrap())
    };
    // The second was a member long ago; the first, which was alone, has taken it in again and was gone before it could tell.
    check([list(7, &[1, 2]), list(2, &[3]), list(6, &[1])]);
}

#[test]
fn only_who_is_behind_is_put_right() {
    let call =
        baton_peer::memory_recovery::MemoryRecovery::begun(baton_peer::memory_recovery::MemberIncarnation(7));
    let answer = |term: u64| Answer {
        life: call.life(),
        round: 0,
        memory: Memory::Kept { term: Term(6), stamp: list(term).stamp(), founding: None, admitted: false },
        group: None,
    };
    assert_eq!(call.put_right(&answer(4), &list(5)).unwrap().group, Some(list(5)));
    assert_eq!(call.put_right(&answer(5), &list(5)), None);
    assert_eq!(call.put_right(&answer(6), &list(5)), None);
}
