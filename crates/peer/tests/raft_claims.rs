//! One test per claim of the paper (Ongaro, Ousterhout: *In Search of an Understandable Consensus Algorithm*, 2014) and of Ongaro's dissertation
//! (*Consensus: Bridging Theory and Practice*, 2014), each named with its section.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;
use baton_peer::raft::{Message, Vote};
use baton_peer::{GroupStamp, Input, LossCause, Machine, Notice, Role, Start, Term, Timing};

use crate::raft_solo;
use crate::raft_solo::{NEW, Solo, granted, granted_pre, has_pre_vote, has_vote, id, kinds, plain};

const LAN: Timing = Timing::LAN;

fn pre_vote(stamp: GroupStamp) -> Message {
    Message::PreVote { poll: 1, stamp, offered: None }
}

/// §5.2: when servers start up, they begin as followers.
#[test]
fn a_member_begins_as_a_follower() {
    let solo = Solo::follower(3);
    assert_eq!((solo.view().term, solo.view().leader), (Term::ZERO, None));
}

/// §5.2: a server remains a follower as long as it receives valid heartbeats.
#[test]
fn a_follower_that_hears_a_leader_stays_one() {
    let mut solo = Solo::follower(3);
    for round in 1..100 {
        let done = solo.beat(2, 1, round);
        assert_eq!(kinds(&done), [(2, "AppendAnswer")]);
        let _ = solo.pass(LAN.heartbeat);
    }
    assert_eq!((solo.view().role, solo.view().leader), (Role::Follower, Some(id(2))));
}

/// §5.2: a follower that receives no communication over the election timeout begins an election: it increments its term, votes for
/// itself and asks all others. What it asks stands on its disk first (§5, Figure 2). The pre-vote of dissertation 9.6 comes before.
#[test]
fn silence_makes_a_candidate_that_votes_for_itself() {
    let (mut solo, done) = Solo::pre_candidate(3);
    assert_eq!(kinds(&done), [(2, "PreVote"), (3, "PreVote")]);
    assert_eq!((done.persist, solo.view().term), (None, Term::ZERO), "a pre-vote raises nothing");
    let done = solo.hear(3, granted_pre(1));
    let saved = done.persist.clone().unwrap();
    assert_eq!((saved.term, saved.vote), (Term(1), Vote::For(id(1))));
    assert_eq!(kinds(&done), [(2, "RequestVote"), (3, "RequestVote")]);
}

/// §5.2: a candidate wins if it gets votes from a majority in the same term.
#[test]
fn a_majority_of_votes_in_the_same_term_wins() {
    let (mut solo, _) = Solo::candidate(5);
    let _ = solo.hear(2, granted(1));
    let _ = solo.hear(2, granted(1));
    let _ = solo.hear(9, granted(1));
    let _ = solo.hear(3, granted(7));
    assert_eq!(solo.view().role, Role::Candidate, "one voice twice, a stranger's and one of another term");
    let done = solo.hear(3, granted(1));
    let beats = [(2, "AppendEntries"), (3, "AppendEntries"), (4, "AppendEntries"), (5, "AppendEntries")];
    assert_eq!(kinds(&done), beats);
}

/// §5.2: each server votes for at most one candidate in a term, the first that asks.
#[test]
fn a_vote_is_given_once_in_a_term() {
    let mut solo = Solo::follower(3);
    assert!(solo.votes_for(2, 4));
    assert!(!solo.votes_for(3, 4));
    assert!(solo.votes_for(3, 5), "a new term, a new vote");
    assert!(!solo.votes_for(2, 4), "an older term");
}

/// §5 (Figure 2), dissertation 3.8: the term and the vote are persistent, and written before the answer.
#[test]
fn a_vote_survives_a_restart() {
    let mut solo = Solo::follower(3);
    let done = solo.hear(2, Message::RequestVote { term: Term(4), stamp: NEW, released: None });
    assert!(has_vote(&done));
    assert_eq!(done.persist.unwrap().vote, Vote::For(id(2)));
    solo.restart();
    let _ = solo.pass(LAN.quarantine());
    assert!(!solo.votes_for(3, 4));
    assert!(solo.votes_for(2, 4), "§5.5: who asks again gets the same answer");
}

/// §5.2: the winner sends heartbeats to all others to establish its authority and prevent new elections.
#[test]
fn a_leader_sends_heartbeats_again_and_again() {
    let (mut solo, done) = Solo::elected(3);
    assert_eq!(kinds(&done), [(2, "AppendEntries"), (3, "AppendEntries")]);
    let _ = solo.answer(2, 1);
    assert_eq!(solo.raft.deadline(), solo.now + LAN.heartbeat);
    let done = solo.pass(LAN.heartbeat);
    assert_eq!(kinds(&done), [(2, "AppendEntries"), (3, "AppendEntries")]);
}

/// §5.2: a candidate that hears from a leader whose term is at least its own returns to follower.
#[test]
fn a_candidate_recognises_a_leader_of_its_term() {
    let (mut solo, _) = Solo::candidate(3);
    let done = solo.beat(3, 1, 1);
    assert_eq!(done.notify, [Notice::Follows { leader: id(3), term: Term(1) }]);
    assert_eq!(solo.view().role, Role::Follower);
    let late = solo.hear(2, granted(1));
    assert_eq!((late.send, solo.view().role), (vec![], Role::Follower), "its votes are void");
}

/// §5.2: if the term is smaller than its own, the candidate rejects it and continues in candidate state.
#[test]
fn a_candidate_refuses_a_leader_of_an_older_term() {
    let (mut solo, _) = Solo::candidate(3);
    let done = solo.beat(3, 0, 1);
    let answer = Message::AppendAnswer { term: Term(1), round: 1, stamp: NEW, followed: false };
    assert_eq!(done.send.first().map(|sent| sent.message.clone()), Some(answer));
    assert_eq!((solo.view().role, solo.view().term), (Role::Candidate, Term(1)));
}

/// §5.2: if votes are split, each candidate times out and starts a new election by incrementing its term.
#[test]
fn a_split_vote_leads_to_another_election() {
    let (mut solo, _) = Solo::candidate(3);
    let _ = solo.hear(2, Message::VoteAnswer { term: Term(1), granted: false, group: None });
    solo.now = solo.raft.deadline();
    let done = solo.tick();
    assert_eq!(kinds(&done), [(2, "PreVote"), (3, "PreVote")]);
    let late = solo.hear(2, granted(1));
    assert_eq!(
        (late.send.len(), solo.view().role),
        (0, Role::Candidate),
        "a vote of the failed election is late"
    );
    let _ = solo.hear(2, Message::PreVoteAnswer { term: Term(1), poll: 2, granted: true, group: None });
    assert_eq!(solo.view().term, Term(2));
}

/// §5.2: election timeouts are chosen randomly from a fixed interval.
#[test]
fn patience_is_drawn_from_the_interval() {
    let mut solo = Solo::follower(3);
    let mut drawn = Vec::new();
    for round in 1..200 {
        let _ = solo.beat(2, 1, round);
        let patience = solo.raft.deadline().since(solo.now);
        assert!((LAN.timeout_min..=LAN.timeout_max).contains(&patience), "{patience}");
        drawn.push(patience);
        solo.now = solo.now + LAN.heartbeat;
    }
    drawn.sort_unstable();
    drawn.dedup();
    assert!(drawn.len() > 190);
    assert!(drawn[0] < Span::millis(160) && drawn[drawn.len() - 1] > Span::millis(290));
}

/// §5.1: a server that receives a request with a stale term rejects it.
#[test]
fn an_older_term_is_refused() {
    let mut solo = Solo::follower(3);
    let _ = solo.beat(2, 5, 1);
    let done = solo.beat(3, 4, 1);
    assert!(matches!(done.send[0].message, Message::AppendAnswer { term: Term(5), followed: false, .. }));
    assert_eq!(solo.view().leader, Some(id(2)));
}

/// §5.1: a leader that discovers that its term is out of date reverts to follower.
#[test]
fn a_leader_that_learns_of_a_higher_term_steps_down() {
    let mut solo = Solo::leader(3);
    let answer = Message::AppendAnswer { term: Term(3), round: 1, stamp: NEW, followed: false };
    let done = solo.hear(3, answer);
    assert!(done.notify.contains(&Notice::Lost { term: Term(1), why: LossCause::HigherTerm(Term(3)) }));
    assert_eq!((solo.view().term, solo.view().leader), (Term(3), None));
    assert_eq!(done.persist.as_ref().unwrap().term, Term(3));
    assert_eq!(kinds(&done), [(2, "PreVote"), (3, "PreVote")], "it stands again at once");
}

/// §5.1: as above, when the news is another leader.
#[test]
fn a_leader_follows_the_leader_of_a_higher_term() {
    let mut solo = Solo::leader(3);
    solo.now = solo.now + LAN.timeout_max;
    let done = solo.beat(2, 2, 1);
    assert!(matches!(done.notify[0], Notice::Lost { .. }));
    assert_eq!(done.notify.last(), Some(&Notice::Follows { leader: id(2), term: Term(2) }));
    assert!(!solo.view().read_only);
}

/// §5.4.1 (the election restriction): a voter denies its vote to a candidate that is less up to date than itself. Without a log that is the list of members.
#[test]
fn a_candidate_with_an_older_list_gets_no_vote() {
    let mut solo = Solo::follower(3);
    let stamp = GroupStamp { term: Term(2), version: 1 };
    let newer = baton_peer::Group::stamped(stamp, plain(3)).unwrap();
    let _ =
        solo.hear(2, Message::AppendEntries { term: Term(2), round: 1, stamp, group: Some(newer.clone()) });
    let _ = solo.pass(LAN.timeout_min);
    let older = GroupStamp { term: Term(2), version: 0 };
    for stale in [older, NEW] {
        let done = solo.hear(3, Message::RequestVote { term: Term(3), stamp: stale, released: None });
        assert!(!has_vote(&done));
        let told = done.send.iter().any(
            |sent| matches!(&sent.message, Message::VoteAnswer { group: Some(group), .. } if *group == newer),
        );
        assert!(told, "it is sent the newer list");
        assert!(!has_pre_vote(&solo.hear(3, pre_vote(stale))));
    }
    assert!(has_vote(&solo.hear(3, Message::RequestVote { term: Term(3), stamp, released: None })));
}

/// §6 and dissertation 4.2.3: a server that hears from a current leader disregards RequestVote within the minimum election timeout: it does
/// not update its term or grant its vote.
#[test]
fn a_voter_that_hears_a_leader_disregards_candidates() {
    let mut solo = Solo::follower(3);
    let _ = solo.beat(2, 1, 1);
    solo.now = solo.now + LAN.timeout_min - Span::nanos(1);
    assert!(!solo.votes_for(3, 9));
    assert_eq!(solo.view().term, Term(1));
    solo.now = solo.now + Span::nanos(1);
    assert!(solo.votes_for(3, 9));
}

/// Dissertation 4.2.3: so does the leader itself.
#[test]
fn a_leader_with_a_lease_disregards_candidates() {
    let mut solo = Solo::leader(3);
    assert!(!solo.votes_for(3, 9));
    assert!(!has_pre_vote(&solo.hear(3, pre_vote(GroupStamp { term: Term(1), version: 0 }))));
    assert_eq!((solo.view().role, solo.view().term), (Role::Leader, Term(1)));
}

/// §6 and dissertation 4.1: members change one at a time, and a change waits until the one before is committed.
#[test]
fn members_change_one_at_a_time_and_one_after_the_other() {
    let (mut solo, _) = Solo::elected(3);
    let refused = |done: &raft_solo::Done| matches!(done.notify.as_slice(), [Notice::Refused(_)]);
    assert!(refused(&solo.step(Input::Reconfigure { members: plain(4) })), "its own list is not settled");
    let _ = solo.answer(2, 1);
    let _ = solo.answer(3, 1);
    assert!(refused(&solo.step(Input::Reconfigure { members: plain(5) })), "two at once");
    let done = solo.step(Input::Reconfigure { members: plain(4) });
    assert!(matches!(done.notify.as_slice(), [Notice::Members(_)]));
    let stamp = GroupStamp { term: Term(1), version: 1 };
    assert_eq!(done.persist.unwrap().group.stamp(), stamp);
    assert_eq!(done.send.len(), 3, "the new member is spoken to at once");
    assert!(refused(&solo.step(Input::Reconfigure { members: plain(5) })), "the last one is not settled");
    let answer = |round| Message::AppendAnswer { term: Term(1), round, stamp, followed: true };
    let _ = solo.hear(2, answer(2));
    assert!(refused(&solo.step(Input::Reconfigure { members: plain(5) })), "two of four");
    let _ = solo.hear(4, answer(2));
    assert!(!refused(&solo.step(Input::Reconfigure { members: plain(5) })));
}

/// §6 and dissertation 4.2.2: a leader that is removed steps down once the new list is committed, and until then does not count itself.
#[test]
fn a_removed_leader_steps_down_when_the_list_counts() {
    let mut solo = Solo::leader(3);
    let _ = solo.answer(3, 1);
    let _ = solo.step(Input::Reconfigure { members: plain(3)[1..].to_vec() });
    let stamp = GroupStamp { term: Term(1), version: 1 };
    let answer = Message::AppendAnswer { term: Term(1), round: 2, stamp, followed: true };
    let _ = solo.hear(2, answer.clone());
    assert_eq!(solo.view().role, Role::Leader, "one of two");
    let done = solo.hear(3, answer);
    assert!(done.notify.contains(&Notice::Lost { term: Term(1), why: LossCause::Removed }));
    assert_eq!(solo.view().role, Role::Follower);
    let _ = solo.pass(Span::secs(60));
    assert_eq!(solo.view().role, Role::Follower, "it does not stand any more");
}

/// Dissertation 4.2.1: a new server does not count before it is added; it follows once it is, whatever it knew before.
#[test]
fn a_member_learns_a_list_from_a_leader_that_it_does_not_know() {
    let mut solo = Solo::follower(3);
    let stamp = GroupStamp { term: Term(6), version: 4 };
    let beat = |group| Message::AppendEntries { term: Term(6), round: 1, stamp, group };
    let done = solo.hear(5, beat(None));
    assert!(matches!(done.send[0].message, Message::AppendAnswer { followed: false, stamp: NEW, .. }));
    assert_eq!(solo.view().term, Term::ZERO, "a stranger is not followed");
    let group = baton_peer::Group::stamped(stamp, plain(5)).unwrap();
    let done = solo.hear(5, beat(Some(group)));
    assert!(matches!(done.send[0].message, Message::AppendAnswer { followed: true, .. }));
    assert_eq!(solo.view().leader, Some(id(5)));
}

/// §8 and dissertation 6.4: a leader must know that it has not been deposed before it acts: it leads only when a majority has answered a round
/// of heartbeats that was sent since its election.
#[test]
fn a_leadership_begins_with_the_first_round_that_a_majority_answers() {
    let (mut solo, _) = Solo::elected(5);
    solo.now = solo.now + Span::millis(3);
    assert_eq!(solo.answer(2, 1).notify, []);
    assert_eq!(solo.answer(2, 1).notify, [], "twice is once");
    assert_eq!((solo.view().role, solo.view().leader), (Role::Candidate, None));
    let sent = solo.now - Span::millis(3);
    let until = LAN.lease_until(sent);
    assert_eq!(solo.answer(4, 1).notify, [Notice::Leads { term: Term(1), until: Some(until) }]);
}

/// Dissertation 6.4.1: the lease is counted from the beginning of the round that a majority has answered, for the election timeout divided by the bound on clock drift.
#[test]
fn a_lease_is_counted_from_the_sending() {
    let mut solo = Solo::leader(3);
    let sent = solo.now + LAN.heartbeat;
    let _ = solo.pass(LAN.heartbeat);
    solo.now = solo.now + Span::millis(20);
    let until = LAN.lease_until(sent);
    assert_eq!(solo.answer(3, 2).notify, [Notice::Extended { term: Term(1), until }]);
    assert_eq!(solo.view().until, Some(until));
    assert!(until.since(sent) < LAN.timeout_min);
}

/// Dissertation 6.2: a leader steps down if an election timeout passes without a successful round of heartbeats to a majority. Its clients may read on.
#[test]
fn a_leader_without_a_majority_stops() {
    let mut solo = Solo::leader(3);
    let until = solo.view().until.unwrap();
    let done = solo.pass(LAN.heartbeat);
    assert_eq!(done.send.len(), 2);
    solo.now = until - Span::nanos(1);
    assert!(solo.view().leads(solo.now));
    solo.now = until;
    assert!(!solo.view().leads(solo.now), "even before it is woken");
    let done = solo.tick();
    assert_eq!(done.notify[0], Notice::Lost { term: Term(1), why: LossCause::NoMajority });
    assert!(solo.view().read_only);
    let late = solo.answer(2, 2);
    assert_eq!((late.notify, solo.view().role), (vec![], Role::Follower), "once lost, always lost");
}

/// Dissertation 9.6: a server does not raise its term before it knows that a majority would vote for it.
#[test]
fn a_pre_vote_without_a_majority_raises_nothing() {
    let (mut solo, _) = Solo::pre_candidate(5);
    for _ in 0..20 {
        let _ = solo.hear(2, granted_pre(1));
        solo.now = solo.raft.deadline();
        let done = solo.tick();
        assert_eq!((solo.view().term, done.persist), (Term::ZERO, None));
    }
}

/// Dissertation 9.6: a pre-vote is granted only by a voter that has not heard from a leader for a minimum election timeout; it binds nobody.
#[test]
fn a_pre_vote_is_refused_by_whoever_hears_a_leader_and_binds_nobody() {
    let mut solo = Solo::follower(3);
    let _ = solo.beat(2, 1, 1);
    assert!(!has_pre_vote(&solo.hear(3, pre_vote(NEW))));
    solo.now = solo.now + LAN.timeout_min;
    let done = solo.hear(3, pre_vote(NEW));
    assert!(has_pre_vote(&done) && done.persist.is_none());
    assert!(has_pre_vote(&solo.hear(2, pre_vote(NEW))), "another may have it as well");
    assert_eq!(solo.view().term, Term(1));
}

/// Dissertation 3.10: on TimeoutNow the successor starts an election at once, and its requests carry a mark that overrides the patience of voters.
#[test]
fn a_successor_stands_at_once_with_a_mark() {
    let mut solo = Solo::follower(3);
    let _ = solo.beat(2, 1, 1);
    let done = solo.hear(2, Message::TimeoutNow { term: Term(1) });
    let asked = Message::RequestVote { term: Term(2), stamp: NEW, released: Some(Term(1)) };
    assert_eq!(done.send.iter().map(|sent| &sent.message).collect::<Vec<_>>(), [&asked, &asked]);
    assert_eq!(done.persist.unwrap().vote, Vote::For(id(1)));
}

/// Dissertation 3.10 and 4.2.3: the mark overrides patience, here only for the very leadership that was given up.
#[test]
fn the_mark_counts_only_for_the_term_that_was_promised_to() {
    let mut solo = Solo::follower(3);
    let _ = solo.beat(2, 4, 1);
    let request =
        |released| Message::RequestVote { term: Term(5), stamp: NEW, released: Some(Term(released)) };
    assert!(!has_vote(&solo.hear(3, request(3))));
    assert!(has_vote(&solo.hear(3, request(4))));
}

/// Design: who starts neither votes nor stands for one longest timeout, since its promises are in nobody's memory.
#[test]
fn who_has_just_started_neither_votes_nor_stands() {
    let mut solo = Solo::of(plain(3), Start::Founded);
    solo.now = solo.now + LAN.timeout_max;
    assert!(!solo.votes_for(2, 1));
    assert_eq!((solo.view().role, solo.tick().send.len()), (Role::Waiting, 0));
    let _ = solo.beat(2, 1, 1);
    assert_eq!(solo.view().leader, Some(id(2)), "it may follow");
    let mut solo = Solo::of(plain(3), Start::Founded);
    solo.now = solo.now + LAN.quarantine();
    assert!(solo.votes_for(2, 1));
}
