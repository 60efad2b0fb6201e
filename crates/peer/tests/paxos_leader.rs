//! Claims of the papers about proposers and leaders, one test each, and those of our own.
//! PMS is *Paxos Made Simple*, PTP *The Part-Time Parliament*, PL *PaxosLease*.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Moment;
use baton_peer::paxos::{Message, Vote, ballot};
use baton_peer::{Input, LossCause, Member, NodeId, Notice, Random, Role, Start, Term, Timing};

use crate::paxos_world::{MS, Sent, World, id, plain, witness};

fn three() -> World {
    World::founded(plain(&[1, 2, 3]))
}

fn kinds(world: &World, kind: &str) -> usize {
    world.sent.iter().filter(|(sent, _, _)| *sent == kind).count()
}

fn accepts_of(sent: &Sent) -> Option<(u64, Term, Term)> {
    match &sent.message {
        Message::Accept { vote, .. } => Some((vote.instance, vote.ballot, vote.value)),
        _ => None,
    }
}

/// The others, in the order of their numbers.
fn others(world: &World, leader: u16) -> Vec<u16> {
    world.numbers().into_iter().filter(|number| *number != leader).collect()
}

/// PMS §2.2–2.3: a value is chosen "when a large enough set of acceptors have accepted it", a majority; nobody leads before.
#[test]
fn a_leader_leads_when_a_majority_has_accepted() {
    let mut world = World::founded(plain(&[1, 2, 3, 4, 5]));
    while !world.wire.iter().any(|sent| accepts_of(sent).is_some()) {
        assert!(world.run_one(2_000 * MS));
    }
    let candidate = world.wire.iter().find(|sent| accepts_of(sent).is_some()).unwrap().from;
    world.deliver(|sent| accepts_of(sent).is_some() && sent.from == candidate);
    let answers: Vec<u16> =
        world.wire.iter().filter(|sent| sent.to == candidate).map(|sent| sent.from).collect();
    world.deliver(|sent| sent.from == answers[0] && sent.to == candidate);
    assert_eq!(world.leader(), None, "two of five have accepted");
    world.deliver(|sent| sent.from == answers[1] && sent.to == candidate);
    assert_eq!(world.leader().map(|(number, _)| number), Some(candidate), "three of five have");
}

/// PMS §2.2: "different proposals have different numbers", and a proposer never issues two under the same one, restarts included.
#[test]
fn every_candidacy_has_a_ballot_of_its_own() {
    let mut world = three();
    let mut tokens = Vec::new();
    for _ in 0..6 {
        let (leader, token) = world.elect(3_000 * MS);
        assert_eq!(ballot::owner(token).map(NodeId::number), Some(leader));
        assert!(tokens.iter().all(|before| *before < token), "{token} after {tokens:?}");
        tokens.push(token);
        world.restart(leader);
        world.run(500 * MS);
    }
}

/// PMS §2.2, P2c (b): the proposer proposes "the value of the highest-numbered proposal" among those that the majority accepted; so what
/// may have been chosen is chosen again, and only then its own.
#[test]
fn a_new_leader_completes_what_its_predecessor_began() {
    let mut world = three();
    let (leader, token) = world.elect(2_000 * MS);
    let [near, far] = others(&world, leader)[..] else { panic!("three members") };
    world.run(500 * MS);
    // The last renewal reaches one acceptor only, and the leader dies with its own vote.
    world.net.cut.extend([(leader, far), (near, leader)]);
    world.run(60 * MS);
    world.crash(leader);
    let last = world.nodes[&near].saved.as_ref().unwrap().vote.unwrap();
    assert_eq!(last.value, token);
    world.net.cut.clear();
    let mut proposed = Vec::new();
    while world.leader().is_none() {
        assert!(world.run_one(world.now + 3_000 * MS));
        for vote in world.wire.iter().filter_map(accepts_of) {
            if !proposed.contains(&vote) {
                proposed.push(vote);
            }
        }
    }
    let (_, successor) = world.leader().unwrap();
    assert_eq!(
        proposed[0],
        (last.instance, successor, token),
        "the predecessor's value under the new ballot"
    );
    assert_eq!(proposed[1], (last.instance + 1, successor, successor), "its own in the next instance");
    assert_eq!(world.ledger.chosen[&last.instance], token);
}

/// PMS §2.2, P2c (a): where no acceptor of the majority has accepted anything, the proposer is free.
#[test]
fn the_first_leader_proposes_itself_in_the_first_instance() {
    let mut world = three();
    let (_, token) = world.elect(2_000 * MS);
    assert_eq!(world.ledger.chosen.first_key_value(), Some((&1, &token)));
}

/// PMS §2.2: of several votes for one instance the one with the highest ballot counts.
#[test]
fn of_several_votes_the_one_with_the_highest_ballot_counts() {
    let vote = |instance, ballot: Term| Vote { instance, ballot, value: ballot };
    let b = |round, owner| ballot::of(round, id(owner)).unwrap();
    let mut world = three();
    for number in world.numbers() {
        world.step(number, Input::Tick);
    }
    // An old proposal of 2 reached only 3, a newer one of 3 only 1; both proposers died.
    let mut lower = world.nodes[&3].saved.clone().unwrap();
    lower.promised = b(1, 2);
    lower.vote = Some(vote(1, b(1, 2)));
    let mut higher = lower.clone();
    higher.promised = b(2, 3);
    higher.vote = Some(vote(1, b(2, 3)));
    world.crash(2);
    world.nodes.get_mut(&1).unwrap().saved = Some(higher);
    world.nodes.get_mut(&3).unwrap().saved = Some(lower);
    world.restart(1);
    world.restart(3);
    let (_, token) = world.elect(3_000 * MS);
    assert_eq!(world.ledger.chosen[&1], b(2, 3));
    assert_eq!(world.ledger.chosen[&2], token);
}

/// PMS §2.4: two proposers that keep overtaking each other would go on for ever. Here the lower one stands back, and one leads.
#[test]
fn a_duel_ends() {
    for seed in 0..200 {
        let mut world = World::of(plain(&[1, 2, 3]), seed);
        for number in world.numbers() {
            world.start(number, Start::Founded);
        }
        // All lose patience at the same instant: a common clock that jumped.
        world.now = 700 * MS;
        world.net.delay = (MS, 40 * MS);
        for number in world.numbers() {
            world.step(number, Input::Tick);
        }
        assert_eq!(kinds(&world, "query"), 6, "all three stand");
        let _ = world.elect(3_000 * MS);
        let leaderships = world.ledger.leaderships();
        world.run(1_000 * MS);
        assert_eq!(world.ledger.leaderships(), leaderships, "seed {seed}: and it stays");
    }
}

/// PMS §3: "executing phase 1 for infinitely many instances": a leader renews by phase 2 alone, one instance each time.
#[test]
fn a_renewal_is_a_new_instance_without_a_new_prepare_request() {
    let mut world = three();
    let (leader, token) = world.elect(2_000 * MS);
    world.run(100 * MS);
    let (prepares, instances) = (kinds(&world, "prepare"), world.ledger.chosen.len());
    world.run(1_000 * MS);
    assert_eq!(kinds(&world, "prepare"), prepares);
    assert_eq!(world.ledger.chosen.len(), instances + 20, "one for each heartbeat");
    assert!(world.ledger.chosen.values().all(|value| *value == token));
    assert_eq!(world.leader(), Some((leader, token)));
}

/// PTP §3.1: the president passes the next decree only when it knows the ones before: no instance is left out.
#[test]
fn no_instance_is_left_out() {
    let mut world = three();
    for _ in 0..4 {
        let (leader, _) = world.elect(3_000 * MS);
        world.run(300 * MS);
        world.restart(leader);
        world.run(500 * MS);
    }
    let instances: Vec<u64> = world.ledger.chosen.keys().copied().collect();
    assert!(instances.iter().zip(1..).all(|(instance, expected)| *instance == expected), "{instances:?}");
}

/// PL, the proposer's algorithm: its timer starts before the request is sent, the acceptor's when it is received, so that the
/// proposer's ends first.
#[test]
fn a_lease_counts_from_the_asking() {
    let mut world = three();
    world.net.delay = (20 * MS, 20 * MS);
    let (leader, _) = world.elect(3_000 * MS);
    let (_, until) = world.nodes[&leader].lease.unwrap();
    let asked = world.now - 40 * MS;
    assert_eq!(until, Timing::LAN.lease_until(Moment::from_nanos(asked)));
}

/// PL, *Extending leases*: with each renewal the lease is longer, and a renewal that comes too late revives nothing.
#[test]
fn a_lease_that_ended_is_not_revived() {
    let mut world = three();
    let (leader, token) = world.elect(2_000 * MS);
    world.run(100 * MS);
    let mark = world.told.len();
    // The answers to the next renewal are held up until after the end of the lease.
    world.run(50 * MS);
    while !world.wire.iter().any(|sent| matches!(sent.message, Message::Accepted { .. })) {
        assert!(world.run_one(world.now + 100 * MS));
    }
    let held: Vec<Sent> = world.wire.drain(..).collect();
    world.now += 200 * MS;
    for sent in held {
        world.step(sent.to, Input::Received { from: id(sent.from), message: sent.message });
    }
    let told = world.told_by(leader, mark);
    let lost = Notice::Lost { term: token, why: LossCause::NoMajority };
    assert_eq!(told.iter().filter(|notice| **notice == lost).count(), 1);
    let after = told.iter().skip_while(|notice| **notice != lost);
    assert!(!after.clone().any(|notice| matches!(notice, Notice::Extended { .. } | Notice::Leads { .. })));
}

/// A paused process: the first thing that a step does is to look whether the lease has ended.
#[test]
fn a_leader_that_was_paused_loses_before_anything_else() {
    let mut world = three();
    let (leader, token) = world.elect(2_000 * MS);
    world.now += 500 * MS;
    let out = world.watch_step(leader, Input::Transfer { to: None });
    assert_eq!(out.notify[0], Notice::Lost { term: token, why: LossCause::NoMajority });
    assert!(out.notify.iter().any(|notice| matches!(notice, Notice::Refused(_))));
}

/// A leader without a majority steps down before the majority can elect, and answers reads only.
#[test]
fn a_minority_leader_steps_down_first_and_is_read_only() {
    let mut world = World::founded(plain(&[1, 2, 3, 4, 5]));
    let (leader, token) = world.elect(2_000 * MS);
    world.run(200 * MS);
    let friend = others(&world, leader)[0];
    for other in others(&world, leader).into_iter().skip(1) {
        world.cut(leader, other);
        world.cut(friend, other);
    }
    let mark = world.told.len();
    while world.view(leader).unwrap().role == Role::Leader {
        assert!(world.run_one(world.now + 1_000 * MS));
    }
    assert!(world.told_by(leader, mark).contains(&Notice::Lost { term: token, why: LossCause::NoMajority }));
    assert!(world.view(leader).unwrap().read_only);
    let (successor, _) = world.elect(2_000 * MS);
    assert!(![leader, friend].contains(&successor));
    world.run(1_000 * MS);
    assert!(world.view(leader).unwrap().read_only, "it has heard of nobody else");
    world.net.cut.clear();
    world.run(500 * MS);
    let view = world.view(leader).unwrap();
    assert_eq!((view.read_only, view.leader), (false, Some(id(successor))));
}

/// The query: who cannot hear the leader pushes no ballot up, neither while it is alone nor when it comes back.
#[test]
fn who_was_cut_off_deposes_nobody() {
    let mut world = three();
    let (leader, token) = world.elect(2_000 * MS);
    let lonely = others(&world, leader)[0];
    world.isolate(lonely);
    world.run(5_000 * MS);
    assert_eq!(world.nodes[&lonely].saved.as_ref().unwrap().promised, token, "nothing was promised");
    world.net.cut.clear();
    world.run(2_000 * MS);
    assert_eq!(world.leader(), Some((leader, token)));
    // Nor while it reaches only the other follower.
    world.cut(leader, lonely);
    world.run(5_000 * MS);
    assert_eq!(world.leader(), Some((leader, token)));
}

/// A higher promise to somebody who did not get a majority: the leader raises its ballot, and neither its lease nor its token ends.
#[test]
fn a_leader_raises_its_ballot_under_the_same_token() {
    let mut world = three();
    let (leader, token) = world.elect(2_000 * MS);
    world.run(100 * MS);
    let [stuck, other] = others(&world, leader)[..] else { panic!("three members") };
    let higher = ballot::of(9, id(other)).unwrap();
    let mut saved = world.nodes[&stuck].saved.clone().unwrap();
    saved.promised = higher;
    world.nodes.get_mut(&stuck).unwrap().saved = Some(saved);
    world.restart(stuck);
    let (mark, instances) = (world.told.len(), world.ledger.chosen.len());
    world.run(1_000 * MS);
    assert_eq!(world.leader(), Some((leader, token)));
    assert!(world.told_by(leader, mark).iter().all(|notice| matches!(notice, Notice::Extended { .. })));
    assert!(world.ledger.chosen.len() >= instances + 19);
    assert_eq!(kinds(&world, "prepare"), 4, "two when it was elected, two when it raised its ballot");
    assert_eq!(world.view(stuck).unwrap().leader, Some(id(leader)));
    for number in world.numbers() {
        assert!(world.nodes[&number].saved.as_ref().unwrap().promised > higher);
    }
}

/// If a promise for the raised ballot tells of anything but this leadership, another one has begun: the token is not used again.
#[test]
fn a_leader_that_finds_another_one_while_it_raises_its_ballot_has_lost() {
    let mut world = three();
    let (leader, token) = world.elect(2_000 * MS);
    world.run(100 * MS);
    let [stuck, other] = others(&world, leader)[..] else { panic!("three members") };
    let higher = ballot::of(9, id(other)).unwrap();
    world.lose(|_| true);
    let refused = Message::Refused { ballot: token, promised: higher, group: None };
    world.step(leader, Input::Received { from: id(stuck), message: refused });
    while !world.wire.iter().any(|sent| matches!(sent.message, Message::Prepare { .. })) {
        assert!(world.run_one(world.now + 200 * MS), "it does not raise its ballot");
    }
    let ballot = ballot::of(10, id(leader)).unwrap();
    let last = world.nodes[&leader].saved.as_ref().unwrap().vote.unwrap();
    let vote = Some(Vote { instance: last.instance + 1, ballot: higher, value: higher });
    let message = Message::Promise { ballot, vote };
    let out = world.watch_step(leader, Input::Received { from: id(stuck), message });
    assert_eq!(out.notify[0], Notice::Lost { term: token, why: LossCause::HigherTerm(higher) });
}

/// A refusal by a member that has promised the very ballot that the leader is raising to is no reason to
/// raise it again.
#[test]
fn a_leader_does_not_outbid_itself() {
    let mut world = three();
    let (leader, token) = world.elect(2_000 * MS);
    world.run(100 * MS);
    let [stuck, other] = others(&world, leader)[..] else { panic!("three members") };
    let refused = |promised| Message::Refused { ballot: token, promised, group: None };
    let from = |number, message| Input::Received { from: id(number), message };
    world.step(leader, from(stuck, refused(ballot::of(9, id(other)).unwrap())));
    let prepares = kinds(&world, "prepare");
    while kinds(&world, "prepare") == prepares {
        assert!(world.run_one(world.now + 200 * MS), "it does not raise its ballot");
    }
    world.step(leader, from(other, refused(ballot::of(10, id(leader)).unwrap())));
    world.run(1_000 * MS);
    assert_eq!(kinds(&world, "prepare"), prepares + 2);
    assert_eq!(world.leader(), Some((leader, token)));
}

/// A leadership is handed over only after the work has stopped, without a timeout, and to the member that was named.
#[test]
fn a_transfer_waits_until_the_work_has_stopped() {
    let mut world = World::founded(plain(&[1, 2, 3, 4, 5]));
    let (leader, token) = world.elect(2_000 * MS);
    world.run(200 * MS);
    let successor = others(&world, leader)[1];
    let mark = world.told.len();
    world.step(leader, Input::Transfer { to: Some(id(successor)) });
    world.run(1_000 * MS);
    let told = world.told_by(leader, mark);
    assert_eq!(told[0], Notice::Stop { term: token });
    assert!(told[1..].iter().all(|notice| matches!(notice, Notice::Extended { .. })), "the lease goes on");
    let stopped = world.now;
    world.step(leader, Input::Stopped);
    assert_eq!(
        world.told_by(leader, mark).iter().rev().nth(1),
        Some(&Notice::Lost { term: token, why: LossCause::HandedOver })
    );
    assert_eq!(world.elect(1_000 * MS).0, successor);
    assert!(world.now - stopped < 20 * MS, "five messages of a millisecond each, and no timeout");
}

/// Who took over and lost its majority does not hold its predecessor for the leader.
#[test]
fn a_successor_that_is_cut_off_knows_of_no_leader() {
    let mut world = World::founded(plain(&[1, 2, 3]));
    let (leader, _) = world.elect(2_000 * MS);
    world.run(200 * MS);
    let successor = others(&world, leader)[1];
    world.step(leader, Input::Transfer { to: Some(id(successor)) });
    world.step(leader, Input::Stopped);
    assert_eq!(world.elect(1_000 * MS).0, successor);
    world.isolate(successor);
    let mark = world.told.len();
    while !world.told_by(successor, mark).iter().any(|notice| matches!(notice, Notice::Lost { .. })) {
        assert!(world.run_one(world.now + 1_000 * MS), "it is never lost");
    }
    let view = world.view(successor).unwrap();
    assert_eq!((view.leader, view.read_only), (None, true));
}

/// What is asked of the wrong member, or names the wrong one, is refused with a reason.
#[test]
fn wrong_wishes_are_refused() {
    let refused = |world: &mut World, number, input| {
        let out = world.watch_step(number, input);
        matches!(out.notify.as_slice(), [Notice::Refused(_)])
    };
    let mut members = plain(&[1, 2, 3, 4]);
    members.push(witness(5));
    let mut world = World::founded(members);
    let (leader, _) = world.elect(2_000 * MS);
    world.run(120 * MS);
    let follower = others(&world, leader)[0];
    let list = || Input::Reconfigure { members: plain(&[1, 2, 3]) };
    assert!(refused(&mut world, follower, Input::Transfer { to: None }));
    assert!(refused(&mut world, follower, list()));
    for to in [leader, 5, 9] {
        assert!(refused(&mut world, leader, Input::Transfer { to: Some(id(to)) }), "to {to}");
    }
    assert!(refused(&mut world, leader, list()), "two members fewer");
    world.crash(follower);
    world.run(200 * MS);
    assert!(refused(&mut world, leader, Input::Transfer { to: Some(id(follower)) }), "it does not answer");
    world.step(leader, Input::Stopped);
    assert_eq!(world.leader().map(|(number, _)| number), Some(leader), "nobody had asked it to stop");
}

/// Two members and a witness: either of the two may die, and the witness never leads.
#[test]
fn a_witness_breaks_the_tie_of_two_and_never_leads() {
    let mut members = plain(&[1, 2]);
    members.push(witness(3));
    let mut world = World::founded(members);
    for _ in 0..4 {
        let (leader, _) = world.elect(3_000 * MS);
        assert_ne!(leader, 3);
        world.crash(leader);
        let (successor, _) = world.elect(3_000 * MS);
        assert_eq!(successor, 3 - leader);
        world.restart(leader);
        world.run(500 * MS);
        world.crash(successor);
        assert_eq!(world.elect(3_000 * MS).0, leader);
        world.restart(successor);
        world.run(500 * MS);
    }
    let by_witness =
        |(kind, from, _): &(&str, u16, u16)| *from == 3 && ["query", "prepare", "accept"].contains(kind);
    assert!(!world.sent.iter().any(by_witness));
    world.crash(1);
    world.crash(2);
    world.run(3_000 * MS);
    assert_eq!(world.leader(), None);
    assert_eq!(world.view(3).unwrap().role, Role::Follower);
}

/// The witness alone does not make a majority, and counts once.
#[test]
fn a_witness_counts_once() {
    let mut members = plain(&[1, 2, 4, 5]);
    members.push(witness(3));
    let mut world = World::founded(members);
    let (leader, _) = world.elect(3_000 * MS);
    world.run(200 * MS);
    for other in others(&world, leader).into_iter().filter(|number| *number != 3) {
        world.crash(other);
    }
    world.net.twice_percent = 100;
    world.run(1_000 * MS);
    assert_eq!(world.leader(), None, "the leader and the witness are two of five");
}

/// Of several the one with the highest priority stands first.
#[test]
fn the_highest_priority_leads() {
    let with = |number, priority| Member { priority, ..Member::plain(id(number)) };
    for seed in 0..50 {
        let mut world = World::of(vec![with(1, 5), with(2, 200), with(3, 0)], seed);
        for number in world.numbers() {
            world.start(number, Start::Founded);
        }
        assert_eq!(world.elect(3_000 * MS).0, 2, "seed {seed}");
        world.crash(2);
        assert_eq!(world.elect(3_000 * MS).0, 1, "seed {seed}");
    }
}

/// One alone elects itself.
#[test]
fn a_group_of_one_needs_nobody() {
    let mut world = World::founded(plain(&[7]));
    let (leader, token) = world.elect(1_000 * MS);
    world.run(2_000 * MS);
    assert_eq!(world.leader(), Some((leader, token)));
}

/// What it costs to replace a dead leader where nobody else stands: four rounds of requests to all others, answered by the living. O(n).
#[test]
fn the_messages_of_an_election_grow_with_the_members() {
    for size in [3_u16, 5, 9, 25] {
        // Only one has the priority to stand first.
        let mut members = plain(&(1..=size).collect::<Vec<_>>());
        members[0].priority = 2;
        members[1].priority = 1;
        let mut world = World::founded(members);
        assert_eq!(world.elect(3_000 * MS).0, 1);
        world.run(200 * MS);
        world.crash(1);
        world.lose(|_| true);
        world.sent.clear();
        assert_eq!(world.elect(3_000 * MS).0, 2);
        let late = world.wire.iter().filter(|sent| matches!(sent.message, Message::Accepted { .. })).count();
        let n = usize::from(size);
        assert_eq!(world.sent.len(), 8 * n - 12, "of {n}");
        assert!(late < n);
    }
}

/// From the death of a leader to the next one, links of a millisecond: one patience, four round trips, seldom a second try.
#[test]
fn a_fail_over_takes_a_timeout_and_four_round_trips() {
    let mut times = Vec::new();
    for seed in 0..1_000 {
        let mut world = World::of(plain(&[1, 2, 3, 4, 5]), seed);
        for number in world.numbers() {
            world.start(number, Start::Founded);
        }
        let (leader, _) = world.elect(3_000 * MS);
        world.run(Random::seeded(seed).between(200, 300) * MS);
        world.crash(leader);
        let died = world.now;
        let _ = world.elect(3_000 * MS);
        times.push((world.now - died) / MS);
    }
    times.sort_unstable();
    let (half, most, all) = (times[499], times[989], times[999]);
    assert!(half < 200 && most < 320 && all < 700, "p50 {half} ms, p99 {most} ms, longest {all} ms");
}
