//! What the papers do not say: witnesses, members that have forgotten, the hand-over, and nonsense from the network.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;
use baton_peer::memory_recovery::{Answer, Ask, Founding, MemberIncarnation, Memory};
use baton_peer::pending_members::AdmittedMembers;
use baton_peer::raft::{MAX_JUMP, MAX_TERM, Message, Saved, Vote};
use baton_peer::{Group, GroupStamp, Input, Machine, Member, Notice, Random, Role, Start, Term, Timing};

use crate::raft_solo::{Done, NEW, Solo, granted, granted_pre, has_pre_vote, id, kinds, plain};

const LAN: Timing = Timing::LAN;

fn as_witness() -> Vec<Member> {
    let mut members = plain(3);
    members[0].witness = true;
    members
}

#[test]
fn a_witness_votes_and_follows_and_never_stands() {
    let mut solo = Solo::of(as_witness(), Start::Founded);
    solo.now = solo.now + LAN.quarantine();
    for _ in 0..50 {
        solo.now = solo.raft.deadline();
        assert_eq!(solo.tick().send, []);
    }
    assert!(solo.votes_for(2, 1));
    let done = solo.beat(2, 1, 1);
    assert_eq!(kinds(&done), [(2, "AppendAnswer")]);
    assert_eq!(solo.hear(2, Message::Offer { term: Term(1) }).send, []);
    assert_eq!(solo.hear(2, Message::TimeoutNow { term: Term(1) }).send, []);
    assert_eq!(solo.view().role, Role::Follower);
}

#[test]
fn nobody_votes_for_a_witness_or_a_stranger_and_nobody_follows_them() {
    let mut members = plain(3);
    members[2].witness = true;
    let mut solo = Solo::of(members, Start::Founded);
    solo.now = solo.now + LAN.quarantine();
    for other in [3, 9] {
        assert!(!solo.votes_for(other, 1));
        assert!(!has_pre_vote(&solo.hear(other, Message::PreVote { poll: 1, stamp: NEW, offered: None })));
        assert_eq!(solo.beat(other, 1, 1).send, []);
    }
    assert_eq!((solo.view().term, solo.view().leader), (Term::ZERO, None));
}

#[test]
fn who_has_forgotten_neither_votes_nor_follows_and_keeps_nothing() {
    let mut solo = Solo::of(plain(3), Start::Forgotten);
    solo.now = solo.now + LAN.quarantine();
    let done = solo.tick();
    assert_eq!(kinds(&done), [(2, "Ask"), (3, "Ask")]);
    assert!(!solo.votes_for(2, 5));
    let done = solo.beat(2, 5, 1);
    assert_eq!((done.send, done.persist), (vec![], None), "its answer would be a promise");
    assert_eq!(solo.view().role, Role::Waiting);
}

/// The answer to the question that was asked last.
fn kept(done: &Done, term: u64) -> Message {
    let ask: &Ask = done
        .send
        .iter()
        .find_map(|sent| match &sent.message {
            Message::Ask(ask) => Some(ask),
            _ => None,
        })
        .unwrap();
    let memory = Memory::Kept { term: Term(term), stamp: NEW, founding: None, admitted: false };
    Message::Answer(Answer { life: ask.life, round: ask.round, memory, group: None })
}

#[test]
fn who_has_forgotten_votes_only_above_what_it_was_told() {
    let mut solo = Solo::of(plain(3), Start::Forgotten);
    solo.now = solo.now + LAN.quarantine();
    let asked = solo.tick();
    assert!(solo.hear(2, kept(&asked, 4)).persist.is_none());
    let done = solo.hear(3, kept(&asked, 6));
    let saved = done.persist.unwrap();
    assert_eq!((saved.term, saved.vote), (Term(6), Vote::Barred));
    for term in 1..=6 {
        assert!(!solo.votes_for(2, term), "{term}");
    }
    let mut restarted = Solo::of(plain(3), Start::Restarted(saved));
    restarted.now = restarted.now + LAN.quarantine();
    assert!(!restarted.votes_for(2, 6), "the bar is kept");
    assert!(solo.votes_for(2, 7));
}

#[test]
fn who_has_forgotten_asks_again_until_it_is_told() {
    let mut solo = Solo::of(plain(3), Start::Forgotten);
    solo.now = solo.now + LAN.quarantine();
    for _ in 0..10 {
        assert_eq!(solo.tick().send.len(), 2);
        solo.now = solo.raft.deadline();
    }
    assert!(solo.raft.deadline().since(solo.now) <= LAN.heartbeat);
}

#[test]
fn a_second_leader_of_a_term_is_not_believed() {
    let mut solo = Solo::follower(3);
    let _ = solo.beat(2, 1, 1);
    assert_eq!(solo.beat(3, 1, 1).send, []);
    let _ = solo.pass(Span::secs(1));
    assert_eq!(solo.beat(3, 1, 2).send, [], "even when the first one has long been silent");
    let mut solo = Solo::leader(3);
    assert_eq!(solo.beat(3, 1, 1).send, [], "nor by the leader itself");
    assert_eq!(solo.view().role, Role::Leader);
}

#[test]
fn a_late_heartbeat_shows_no_life() {
    let mut solo = Solo::follower(3);
    let _ = solo.beat(2, 1, 1);
    let _ = solo.beat(2, 1, 2);
    let patience = solo.raft.deadline();
    solo.now = solo.now + Span::millis(50);
    for round in [1, 2] {
        assert_eq!(kinds(&solo.beat(2, 1, round)), [(2, "AppendAnswer")], "it is answered");
    }
    assert_eq!(solo.raft.deadline(), patience);
}

#[test]
fn a_leader_that_stepped_down_early_votes_for_nobody_until_its_lease_has_ended() {
    let mut solo = Solo::leader(3);
    let until = solo.view().until.unwrap();
    let answer = Message::AppendAnswer { term: Term(3), round: 1, stamp: NEW, followed: false };
    let _ = solo.hear(3, answer);
    assert!(!solo.votes_for(2, 4), "its work may still be stopping");
    solo.now = until;
    assert!(solo.votes_for(2, 4));
}

#[test]
fn the_leader_to_whom_a_promise_was_given_may_be_elected_anew() {
    let mut solo = Solo::follower(3);
    let _ = solo.beat(2, 1, 1);
    assert!(!solo.votes_for(3, 3));
    assert!(solo.votes_for(2, 3));
}

#[test]
fn a_hand_over_asks_first_then_stops_then_gives_up() {
    let mut solo = Solo::leader(3);
    assert_eq!(kinds(&solo.step(Input::Transfer { to: Some(id(2)) })), [(2, "Offer")]);
    let stamp = GroupStamp { term: Term(1), version: 0 };
    let asked = Message::PreVote { poll: 1, stamp, offered: Some(Term(1)) };
    assert!(!has_pre_vote(&solo.hear(3, asked.clone())), "it was offered to another");
    assert!(has_pre_vote(&solo.hear(2, asked)));
    assert_eq!(solo.step(Input::Stopped), Done::none(), "nobody asked the work to stop");
    assert_eq!(solo.hear(3, Message::Ready { term: Term(1) }).notify, []);
    assert_eq!(solo.hear(2, Message::Ready { term: Term(1) }).notify, [Notice::Stop { term: Term(1) }]);
    assert_eq!(solo.hear(2, Message::Ready { term: Term(1) }).notify, [], "at most one stop");
    assert_eq!(solo.view().role, Role::Leader, "the lease goes on");
    assert_eq!(kinds(&solo.step(Input::Stopped)), [(2, "TimeoutNow")]);
    assert_eq!(solo.view().role, Role::Follower);
    assert!(solo.votes_for(2, 2), "it votes for its successor at once");
}

#[test]
fn a_hand_over_that_nobody_answers_ends_and_the_work_goes_on() {
    let mut solo = Solo::leader(3);
    let _ = solo.step(Input::Transfer { to: None });
    let mut told = Vec::new();
    for round in 2..8 {
        told.extend(solo.pass(LAN.heartbeat).notify);
        told.extend(solo.answer(2, round).notify);
    }
    assert!(told.iter().any(|notice| matches!(notice, Notice::Refused(_))), "{told:?}");
    assert!(
        !told.iter().any(|notice| matches!(notice, Notice::Stop { .. } | Notice::Lost { .. })),
        "{told:?}"
    );
    assert_eq!(solo.view().role, Role::Leader);
}

#[test]
fn an_answer_from_a_former_poll_does_not_count() {
    let (mut solo, _) = Solo::pre_candidate(3);
    solo.now = solo.raft.deadline();
    let _ = solo.tick();
    let _ = solo.hear(2, granted_pre(1));
    assert_eq!(solo.view().term, Term::ZERO);
    let _ = solo.hear(2, granted_pre(2));
    assert_eq!(solo.view().term, Term(1));
}

#[test]
fn messages_of_oneself_are_dropped() {
    let (mut solo, _) = Solo::candidate(3);
    assert_eq!(solo.hear(1, granted(1)), Done::none());
    assert_eq!(solo.beat(1, 9, 1), Done::none());
    assert_eq!(solo.view().term, Term(1));
}

#[test]
fn a_term_out_of_reach_is_dropped_and_terms_never_overflow() {
    let mut solo = Solo::follower(3);
    for term in [MAX_JUMP + 1, MAX_TERM.0, u64::MAX] {
        assert_eq!(solo.beat(2, term, 1), Done::none());
        assert!(!solo.votes_for(2, term));
    }
    assert_eq!(solo.view().term, Term::ZERO);
    let group = Group::founded(plain(3)).unwrap();
    let saved = Saved {
        term: MAX_TERM,
        vote: Vote::Free,
        group,
        founding: Founding::default(),
        admitted: AdmittedMembers::default(),
    };
    let mut solo = Solo::of(plain(3), Start::Restarted(saved));
    for _ in 0..20 {
        solo.now = solo.raft.deadline();
        assert_eq!(solo.tick().send, [], "nobody stands above the highest term");
    }
}

/// Any message, with values that are small, at a border, or anything.
fn nonsense(dice: &mut Random) -> Message {
    let number = |dice: &mut Random| match dice.below(4) {
        0 => dice.below(4),
        1 => u64::MAX - dice.below(3),
        2 => MAX_JUMP + dice.below(3),
        _ => dice.number(),
    };
    let term = |dice: &mut Random| Term(number(dice));
    let stamp = |dice: &mut Random| GroupStamp { term: Term(number(dice)), version: number(dice) };
    let list = |dice: &mut Random| {
        let size = u16::try_from(dice.between(1, 127)).unwrap();
        (dice.below(2) == 0).then(|| Group::stamped(stamp(dice), plain(size)).unwrap())
    };
    let yes = |dice: &mut Random| dice.below(2) == 0;
    match dice.below(11) {
        0 => Message::AppendEntries {
            term: term(dice),
            round: number(dice),
            stamp: stamp(dice),
            group: list(dice),
        },
        1 => Message::AppendAnswer {
            term: term(dice),
            round: number(dice),
            stamp: stamp(dice),
            followed: yes(dice),
        },
        2 => Message::PreVote {
            poll: number(dice),
            stamp: stamp(dice),
            offered: yes(dice).then(|| term(dice)),
        },
        3 => Message::PreVoteAnswer {
            term: term(dice),
            poll: dice.below(9),
            granted: yes(dice),
            group: list(dice),
        },
        4 => Message::RequestVote {
            term: term(dice),
            stamp: stamp(dice),
            released: yes(dice).then(|| term(dice)),
        },
        5 => Message::VoteAnswer { term: term(dice), granted: yes(dice), group: list(dice) },
        6 => Message::Offer { term: term(dice) },
        7 => Message::Ready { term: term(dice) },
        8 => Message::TimeoutNow { term: term(dice) },
        9 => Message::Ask(Ask {
            life: MemberIncarnation(number(dice)),
            round: number(dice),
            stamp: stamp(dice),
        }),
        _ => {
            let memory =
                Memory::Kept { term: term(dice), stamp: stamp(dice), founding: None, admitted: false };
            let (life, round) = (MemberIncarnation(number(dice)), number(dice));
            Message::Answer(Answer { life, round, memory, group: list(dice) })
        }
    }
}

#[test]
fn nonsense_never_panics_never_takes_a_term_back_and_never_runs_away() {
    for seed in 0..300 {
        let mut dice = Random::seeded(seed);
        let start = if seed % 3 == 0 { Start::Forgotten } else { Start::Founded };
        let mut solo = Solo::of(plain(3), start);
        let mut highest = Term::ZERO;
        for _ in 0..300 {
            let from = u16::try_from(dice.between(1, 5)).unwrap();
            let message = nonsense(&mut dice);
            let done = solo.hear(from, message);
            assert!(done.send.len() <= 2 * 127, "one answer to each at most");
            let term = solo.view().term;
            assert!(term >= highest && term.0 <= highest.0 + MAX_JUMP + 1, "{highest} -> {term}");
            highest = term;
            solo.now = solo.now + Span::millis(dice.below(60));
        }
    }
}
