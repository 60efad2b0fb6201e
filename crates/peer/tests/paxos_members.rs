//! Changing members (PTP §3.3.6, and the shared rules), and members that have forgotten.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_peer::paxos::Message;
use baton_peer::{Input, LossCause, Member, Notice, Random, Role, Start};

use crate::paxos_world::{MS, World, id, plain, witness};

fn change(world: &mut World, leader: u16, members: Vec<Member>) -> bool {
    let out = world.watch_step(leader, Input::Reconfigure { members });
    !out.notify.iter().any(|notice| matches!(notice, Notice::Refused(_)))
}

fn list(world: &World, number: u16) -> Vec<u16> {
    let saved = world.nodes[&number].saved.as_ref().unwrap();
    saved.group.members().iter().map(|member| member.id.number()).collect()
}

fn other(world: &World, leader: u16) -> u16 {
    world.numbers().into_iter().find(|number| *number != leader).unwrap()
}

/// A new member that knows nothing learns the list, is told the past by the others, and accepts.
#[test]
fn a_member_joins() {
    let mut world = World::founded(plain(&[1, 2, 3]));
    let (leader, token) = world.elect(2_000 * MS);
    world.run(200 * MS);
    world.add(4);
    world.start(4, Start::Forgotten);
    world.run(1_000 * MS);
    assert_eq!(world.view(4).unwrap().role, Role::Waiting, "nobody has named it yet");
    assert!(change(&mut world, leader, plain(&[1, 2, 3, 4])));
    world.run(1_000 * MS);
    assert_eq!(world.leader(), Some((leader, token)));
    for number in [1, 2, 3, 4] {
        assert_eq!(list(&world, number), [1, 2, 3, 4]);
    }
    assert_eq!(world.view(4).unwrap().leader, Some(id(leader)));
    world.crash(leader);
    let _ = world.elect(3_000 * MS);
}

/// The second change waits until the first one is chosen.
#[test]
fn members_change_one_at_a_time() {
    let mut world = World::founded(plain(&[1, 2, 3]));
    let (leader, _) = world.elect(2_000 * MS);
    world.run(100 * MS);
    assert!(change(&mut world, leader, plain(&[1, 2, 3, 4])), "a majority has the list, and all were heard");
    assert!(!change(&mut world, leader, plain(&[1, 2, 3, 4, 5])), "nobody else has the last one");
    world.run(100 * MS);
    assert!(change(&mut world, leader, plain(&[1, 2, 3])));
}

/// A change that would leave the leader without a majority of those it hears is refused.
#[test]
fn a_change_that_would_cost_the_majority_is_refused() {
    let mut world = World::founded(plain(&[1, 2, 3]));
    let (leader, token) = world.elect(2_000 * MS);
    world.run(100 * MS);
    let gone = other(&world, leader);
    world.crash(gone);
    world.run(200 * MS);
    assert!(!change(&mut world, leader, plain(&[1, 2, 3, 4])), "two of four would be heard");
    let rest: Vec<u16> = world.numbers().into_iter().filter(|number| *number != gone).collect();
    assert!(change(&mut world, leader, plain(&rest)), "who is gone can be taken out");
    world.run(200 * MS);
    assert_eq!(world.leader(), Some((leader, token)));
}

/// A member that was removed learns it when it asks, and deposes nobody.
#[test]
fn who_is_removed_stands_no_more() {
    let mut world = World::founded(plain(&[1, 2, 3]));
    let (leader, token) = world.elect(2_000 * MS);
    world.run(100 * MS);
    let gone = other(&world, leader);
    let rest: Vec<u16> = world.numbers().into_iter().filter(|number| *number != gone).collect();
    assert!(change(&mut world, leader, plain(&rest)));
    world.run(3_000 * MS);
    assert_eq!(world.leader(), Some((leader, token)));
    assert_eq!(list(&world, gone), rest);
    let queries = world.sent.len();
    world.run(2_000 * MS);
    assert!(world.sent[queries..].iter().all(|(_, from, _)| *from != gone), "it is silent");
}

/// A leader that removes itself stops its work first, and another one leads at once.
#[test]
fn a_leader_can_remove_itself() {
    let mut world = World::founded(plain(&[1, 2, 3]));
    let (leader, token) = world.elect(2_000 * MS);
    world.run(100 * MS);
    let rest: Vec<u16> = world.numbers().into_iter().filter(|number| *number != leader).collect();
    let mark = world.told.len();
    assert!(change(&mut world, leader, plain(&rest)));
    world.run(200 * MS);
    assert!(world.told_by(leader, mark).contains(&Notice::Stop { term: token }));
    let now = world.now;
    world.step(leader, Input::Stopped);
    assert!(world.told_by(leader, mark).contains(&Notice::Lost { term: token, why: LossCause::Removed }));
    assert!(rest.contains(&world.elect(1_000 * MS).0));
    assert!(world.now - now < 50 * MS, "without a timeout");
}

/// A candidate with an older list is refused, and told the newer one.
#[test]
fn an_outdated_list_is_refused() {
    let mut world = World::founded(plain(&[1, 2, 3, 4]));
    let (leader, _) = world.elect(2_000 * MS);
    world.run(100 * MS);
    let late = other(&world, leader);
    world.isolate(late);
    let mut members = plain(&[1, 2, 3, 4]);
    members.push(witness(5));
    assert!(change(&mut world, leader, members));
    world.run(300 * MS);
    world.crash(leader);
    world.run(400 * MS);
    assert_eq!(world.leader(), None, "two of five are left");
    assert_eq!(list(&world, late).len(), 4);
    world.net.cut.clear();
    let _ = world.elect(3_000 * MS);
    assert_eq!(list(&world, late).len(), 5);
}

/// PTP §2.3 needs a ledger that is never lost. Who lost it asks, and takes part again with what the others told it.
#[test]
fn who_has_forgotten_is_told_its_past_and_accepts_again() {
    let mut world = World::founded(plain(&[1, 2, 3]));
    let (leader, token) = world.elect(2_000 * MS);
    world.run(500 * MS);
    let lost = other(&world, leader);
    world.forget(lost);
    world.run(250 * MS);
    assert_eq!(world.view(lost).unwrap().role, Role::Waiting);
    assert_eq!(world.nodes[&lost].saved, None, "it keeps nothing before it remembers");
    world.run(250 * MS);
    let saved = world.nodes[&lost].saved.as_ref().unwrap();
    assert_eq!(saved.promised, token);
    assert!(saved.vote.unwrap().instance > 5);
    assert_eq!(world.leader(), Some((leader, token)), "the leader was not disturbed");
}

/// Two of three that have forgotten cannot know what they promised: nobody leads, rather than two.
#[test]
fn a_forgotten_majority_elects_nobody() {
    let mut world = World::founded(plain(&[1, 2, 3]));
    let (leader, _) = world.elect(2_000 * MS);
    let rest: Vec<u16> = world.numbers().into_iter().filter(|number| *number != leader).collect();
    for number in rest {
        world.forget(number);
    }
    world.run(5_000 * MS);
    assert_eq!(world.leader(), None);
}

/// When all say that they know nothing, the group is being founded.
#[test]
fn all_that_have_forgotten_found_the_group() {
    let mut world = World::of(plain(&[1, 2, 3]), 3);
    for number in world.numbers() {
        world.start(number, Start::Forgotten);
    }
    let _ = world.elect(3_000 * MS);
    world.run(500 * MS);
    for number in world.numbers() {
        assert!(world.view(number).unwrap().leader.is_some());
    }
    let mut alone = World::of(plain(&[1]), 3);
    alone.start(1, Start::Forgotten);
    let _ = alone.elect(1_000 * MS);
}

/// A prepare request that was answered before the disk was lost helps nobody after the quarantine: promises are not counted for
/// so long.
#[test]
fn an_old_promise_is_not_counted() {
    let mut world = World::founded(plain(&[1, 2, 3]));
    while !world.wire.iter().any(|sent| matches!(sent.message, Message::Promise { .. })) {
        assert!(world.run_one(3_000 * MS));
    }
    let held: Vec<_> = world.wire.drain(..).collect();
    let candidate = held.iter().find(|sent| matches!(sent.message, Message::Promise { .. })).unwrap().to;
    world.now += 307 * MS;
    for sent in held.iter().filter(|sent| sent.to == candidate) {
        let out = world
            .watch_step(candidate, Input::Received { from: id(sent.from), message: sent.message.clone() });
        assert!(!out.send.iter().any(|sent| matches!(sent.message, Message::Accept { .. })));
    }
}

/// Members come and go at random, under loss and restarts: never two leaders of one token, never two leases at once.
#[test]
fn changes_under_trouble_elect_nobody_twice() {
    let mut changes = 0;
    for seed in 0..150 {
        let mut chance = Random::seeded(seed);
        let mut world = World::of(plain(&[1, 2, 3]), seed);
        world.ledger.only_leaders();
        for number in 4..=6 {
            world.add(number);
        }
        for number in [1, 2, 3] {
            world.start(number, Start::Founded);
        }
        for number in [4, 5, 6] {
            world.start(number, Start::Forgotten);
        }
        world.net.delay = (MS / 10, 20 * MS);
        world.net.loss_percent = chance.below(20);
        world.net.twice_percent = chance.below(20);
        for _ in 0..60 {
            world.run(chance.between(1, 300) * MS);
            let one = u16::try_from(chance.between(1, 6)).unwrap();
            match (chance.below(8), world.leader()) {
                (0, _) => world.restart_or_forget(one),
                (1, _) => world.isolate(one),
                (2..4, _) => world.net.cut.clear(),
                (4..8, Some((leader, _))) => {
                    let mut next = list(&world, leader);
                    match next.iter().position(|number| *number == one) {
                        Some(at) if next.len() > 2 => drop(next.remove(at)),
                        Some(_) => continue,
                        None => next.push(one),
                    }
                    changes += usize::from(change(&mut world, leader, plain(&next)));
                }
                (_, _) => {}
            }
            for number in world.numbers() {
                if world.nodes[&number].stopping {
                    world.step(number, Input::Stopped);
                }
            }
        }
    }
    assert!(changes > 500, "{changes}");
}
