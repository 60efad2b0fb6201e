//! Claims of the papers about acceptors, one test each. PMS is *Paxos Made Simple*, PTP *The Part-Time Parliament*, PL *PaxosLease*.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Moment;
use baton_peer::paxos::{Message, Paxos, Saved, Vote, ballot};
use baton_peer::{Config, Effects, Group, GroupStamp, Input, Machine, Start, Term, Timing};

use crate::paxos_world::{MS, id, plain, witness};

type Out = Effects<Saved, Message>;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * MS)
}

fn b(round: u64, owner: u16) -> Term {
    ballot::of(round, id(owner)).unwrap()
}

fn config(number: u16) -> Config {
    let mut members = plain(&[1, 2, 3, 4]);
    members.push(witness(5));
    let group = Group::founded(members).unwrap();
    Config { id: id(number), group, timing: Timing::LAN, seed: 7 }
}

/// Member 1 of five, past its quarantine and before it loses patience itself.
fn acceptor() -> Paxos {
    let mut acceptor = Paxos::start(config(1), Start::Founded, at(0));
    let _ = acceptor.step(at(1), Input::Tick);
    acceptor
}

/// After `Timing::quarantine`, in milliseconds.
const AWAKE: u64 = 307;

fn hear(acceptor: &mut Paxos, ms: u64, from: u16, message: Message) -> Out {
    acceptor.step(at(ms), Input::Received { from: id(from), message })
}

fn prepare(ballot: Term) -> Message {
    Message::Prepare { ballot, released: None, stamp: GroupStamp::default() }
}

fn accept(instance: u64, ballot: Term, value: Term) -> Message {
    Message::Accept { vote: Vote { instance, ballot, value }, token: ballot, beat: 1, group: None }
}

fn only(out: &Out) -> &Message {
    assert_eq!(out.send.len(), 1, "{out:?}");
    &out.send[0].message
}

fn is_promise(out: &Out) -> bool {
    matches!(out.send.as_slice(), [sent] if matches!(sent.message, Message::Promise { .. }))
}

fn is_accepted(out: &Out) -> bool {
    matches!(out.send.as_slice(), [sent] if matches!(sent.message, Message::Accepted { .. }))
}

fn is_refused(out: &Out) -> bool {
    matches!(out.send.as_slice(), [sent] if matches!(sent.message, Message::Refused { .. }))
}

/// PMS §2.2, P1: "An acceptor must accept the first proposal that it receives", even if it never promised anything.
#[test]
fn the_first_proposal_is_accepted() {
    let out = hear(&mut acceptor(), AWAKE, 2, accept(1, b(1, 2), b(1, 2)));
    assert!(is_accepted(&out));
    assert_eq!(
        out.persist.unwrap().vote,
        Some(Vote { instance: 1, ballot: b(1, 2), value: b(1, 2) }),
        "and it is kept before the answer is sent"
    );
}

/// PMS §2.2, P1a: "an acceptor can accept a proposal numbered n iff it has not responded to a prepare request having a number
/// greater than n".
#[test]
fn nothing_below_the_promise_is_accepted() {
    let mut acceptor = acceptor();
    assert!(is_promise(&hear(&mut acceptor, AWAKE, 3, prepare(b(2, 3)))));
    let out = hear(&mut acceptor, AWAKE, 2, accept(1, b(1, 2), b(1, 2)));
    assert_eq!(*only(&out), Message::Refused { ballot: b(1, 2), promised: b(2, 3), group: None });
    assert_eq!(out.persist, None);
    assert!(is_accepted(&hear(&mut acceptor, AWAKE, 3, accept(1, b(2, 3), b(2, 3)))), "an equal one is");
}

/// PMS §2.2: what an acceptor ignores is the prepare request "numbered less than or equal" to one that it answered; the answer here
/// tells the proposer, so that it can give up.
#[test]
fn a_lower_prepare_request_is_refused_and_the_same_one_is_answered_again() {
    let mut acceptor = acceptor();
    let first = hear(&mut acceptor, AWAKE, 3, prepare(b(2, 3)));
    assert_eq!(first.persist.as_ref().unwrap().promised, b(2, 3));
    assert!(is_refused(&hear(&mut acceptor, AWAKE, 2, prepare(b(2, 2)))));
    let again = hear(&mut acceptor, AWAKE, 3, prepare(b(2, 3)));
    assert_eq!((again.send, again.persist), (first.send, None), "a lost answer costs nothing");
    assert!(is_promise(&hear(&mut acceptor, AWAKE, 4, prepare(b(2, 4)))), "a higher one is promised");
}

/// PMS §2.2: the promise carries "the highest-numbered proposal (if any) that it has accepted".
#[test]
fn a_promise_tells_what_was_accepted_last() {
    let mut acceptor = acceptor();
    let _ = hear(&mut acceptor, AWAKE, 2, accept(1, b(1, 2), b(1, 2)));
    let _ = hear(&mut acceptor, AWAKE, 2, accept(2, b(1, 2), b(1, 2)));
    let out = hear(&mut acceptor, AWAKE + 151, 3, prepare(b(2, 3)));
    let vote = Some(Vote { instance: 2, ballot: b(1, 2), value: b(1, 2) });
    assert_eq!(*only(&out), Message::Promise { ballot: b(2, 3), vote });
}

/// PMS §2.5 (and PTP §2.3): an acceptor "must remember" its promise and vote "even if it fails and then restarts".
#[test]
fn a_restart_forgets_neither_promise_nor_vote() {
    let mut before = acceptor();
    let _ = hear(&mut before, AWAKE, 2, accept(1, b(1, 2), b(1, 2)));
    let kept = hear(&mut before, AWAKE + 151, 3, prepare(b(2, 3))).persist.unwrap();
    let mut after = Paxos::start(config(1), Start::Restarted(kept), at(1_000));
    assert!(is_refused(&hear(&mut after, 1_001, 2, accept(2, b(1, 2), b(1, 2)))), "P1a holds at once");
    let out = hear(&mut after, 1_400, 4, prepare(b(2, 4)));
    let vote = Some(Vote { instance: 1, ballot: b(1, 2), value: b(1, 2) });
    assert_eq!(*only(&out), Message::Promise { ballot: b(2, 4), vote });
}

/// PMS §2.5: nothing is sent that is not in stable storage: each answer that changed something comes with what is to be kept.
#[test]
fn what_is_promised_or_accepted_is_kept_before_it_is_spoken() {
    let mut acceptor = acceptor();
    let out = hear(&mut acceptor, AWAKE, 3, prepare(b(2, 3)));
    assert_eq!(out.persist.unwrap().promised, b(2, 3));
    let out = hear(&mut acceptor, AWAKE, 3, accept(1, b(2, 3), b(2, 3)));
    assert_eq!(out.persist.unwrap().vote.unwrap().instance, 1);
    let again = hear(&mut acceptor, AWAKE, 3, accept(1, b(2, 3), b(2, 3)));
    assert!(is_accepted(&again));
    assert_eq!(again.persist, None, "what is kept already is not written again");
}

/// PL, the acceptor's algorithm: while its timer for an accepted proposal runs, nobody else is told that it is open.
#[test]
fn who_accepted_promises_nobody_else_within_the_shortest_timeout() {
    let mut acceptor = acceptor();
    let _ = hear(&mut acceptor, AWAKE, 2, accept(1, b(1, 2), b(1, 2)));
    let out = hear(&mut acceptor, AWAKE + 149, 3, prepare(b(2, 3)));
    assert!(is_refused(&out) && out.persist.is_none(), "and its promise stays as low as it was");
    assert!(is_promise(&hear(&mut acceptor, AWAKE + 150, 3, prepare(b(2, 3)))));
}

/// PL: "a restarted acceptor must wait" for the longest lease before it takes part, since its timer is in nobody's memory.
#[test]
fn who_restarts_promises_nothing_for_the_longest_timeout() {
    let mut before = acceptor();
    let kept = hear(&mut before, AWAKE, 2, accept(1, b(1, 2), b(1, 2))).persist.unwrap();
    let mut after = Paxos::start(config(1), Start::Restarted(kept), at(AWAKE + 1));
    for ms in [1, 150, 300] {
        assert_eq!(hear(&mut after, AWAKE + ms, 3, prepare(b(2, 3))), Effects::none(), "{ms} ms");
    }
    assert!(is_accepted(&hear(&mut after, AWAKE + 301, 2, accept(2, b(1, 2), b(1, 2)))), "it accepts");
}

/// PL, *Releasing leases*: an acceptor stops waiting for a proposer that has given its lease up, and only for that very one.
#[test]
fn patience_ends_for_the_released_leadership_only() {
    let released =
        |token| Message::Prepare { ballot: b(2, 3), released: Some(token), stamp: GroupStamp::default() };
    let mut acceptor = acceptor();
    let _ = hear(&mut acceptor, AWAKE, 2, accept(1, b(1, 2), b(1, 2)));
    assert!(is_refused(&hear(&mut acceptor, AWAKE + 1, 3, released(b(1, 4)))), "another's");
    assert!(is_refused(&hear(&mut acceptor, AWAKE + 1, 3, released(b(0, 2)))), "an earlier one");
    assert!(is_promise(&hear(&mut acceptor, AWAKE + 1, 3, released(b(1, 2)))));
}

/// Not in the papers: a query is answered and changes nothing, whatever ballot it names.
#[test]
fn a_query_changes_nothing() {
    let query = |ballot| Message::Query { ballot, stamp: GroupStamp::default() };
    let mut acceptor = acceptor();
    let out = hear(&mut acceptor, AWAKE, 3, query(b(9, 3)));
    assert_eq!(*only(&out), Message::Open { ballot: b(9, 3), promised: Term::ZERO });
    assert_eq!(out.persist, None);
    let _ = hear(&mut acceptor, AWAKE, 2, accept(1, b(1, 2), b(1, 2)));
    let out = hear(&mut acceptor, AWAKE + 1, 3, query(b(9, 3)));
    assert!(is_refused(&out) && out.persist.is_none(), "it waits for a leader");
}

/// PMS §3: instances are numbered; an acceptor that is ahead stays ahead, and lets a new leader complete the one before.
#[test]
fn an_acceptor_that_is_ahead_keeps_its_later_vote() {
    let mut acceptor = acceptor();
    let _ = hear(&mut acceptor, AWAKE, 2, accept(6, b(1, 2), b(1, 2)));
    let late = Message::Accept {
        vote: Vote { instance: 5, ballot: b(2, 3), value: b(1, 2) },
        token: b(2, 3),
        beat: 1,
        group: None,
    };
    let out = hear(&mut acceptor, AWAKE + 200, 3, late);
    assert!(is_accepted(&out));
    let kept = out.persist.unwrap();
    assert_eq!(kept.promised, b(2, 3));
    assert_eq!(kept.vote.unwrap().instance, 6, "the fifth is chosen, the sixth may be");
    let own = hear(&mut acceptor, AWAKE + 201, 3, accept(6, b(2, 3), b(2, 3)));
    assert_eq!(own.persist.unwrap().vote.unwrap().value, b(2, 3), "the higher ballot decides");
}

/// A late copy of an earlier renewal is no sign of life.
#[test]
fn an_old_renewal_is_not_answered() {
    let mut acceptor = acceptor();
    let _ = hear(&mut acceptor, AWAKE, 2, accept(2, b(1, 2), b(1, 2)));
    let stands = acceptor.deadline();
    assert_eq!(hear(&mut acceptor, AWAKE + 50, 2, accept(1, b(1, 2), b(1, 2))), Effects::none());
    assert_eq!(acceptor.deadline(), stands);
}

/// PTP §3.3.5, honest mistakes: what nobody honest could have sent changes nothing and breaks nothing.
#[test]
fn nonsense_changes_nothing() {
    let sane = b(1, 2);
    let odd = [
        prepare(Term(u64::MAX)),
        prepare(Term(0)),
        prepare(Term(1_024)),
        prepare(b(1, 3)),
        prepare(b(1 << 40, 2)),
        accept(0, sane, sane),
        accept(u64::MAX, sane, sane),
        accept(1, Term(u64::MAX), Term(u64::MAX)),
        accept(1, sane, b(2, 2)),
        accept(1, sane, Term(7 * 1_024)),
        accept(1, b(1, 3), b(1, 3)),
        Message::Promise { ballot: sane, vote: None },
        Message::Accepted { ballot: sane, instance: u64::MAX, beat: u64::MAX, stamp: GroupStamp::default() },
        Message::Refused { ballot: sane, promised: Term(u64::MAX), group: None },
        Message::Open { ballot: sane, promised: Term(u64::MAX) },
        Message::HandOver { released: Term(u64::MAX) },
        Message::HandOver { released: sane },
    ];
    let mut acceptor = acceptor();
    let before = acceptor.clone();
    for message in odd {
        assert_eq!(hear(&mut acceptor, AWAKE, 2, message.clone()), Effects::none(), "{message:?}");
        assert_eq!(acceptor, before, "{message:?}");
    }
    for from in [1, 5, 9] {
        for message in [prepare(b(1, from)), accept(1, b(1, from), b(1, from))] {
            assert_eq!(hear(&mut acceptor, AWAKE, from, message), Effects::none());
            assert_eq!(acceptor, before, "neither itself, nor a witness, nor a stranger proposes");
        }
    }
}
