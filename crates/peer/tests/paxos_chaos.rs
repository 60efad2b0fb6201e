//! Random schedules: loss, duplication, reordering, cuts, restarts, lost disks and clocks that drift, then healing.
//!
//! After every step the ledger looks whether one token had two leaders, a promise went back, or a chosen value changed, and the
//! world whether two leases overlap. A failure names its seed.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_peer::{Input, Member, Random};

use crate::paxos_world::{MS, World, plain, witness};

/// What one run was like, so that no property is kept by idleness.
#[derive(Debug, Default)]
struct RunFacts {
    leaderships: usize,
    chosen: usize,
    restarts: u64,
    forgotten: u64,
    transfers: u64,
}

fn members(chance: &mut Random) -> Vec<Member> {
    match chance.below(5) {
        0 => vec![plain(&[1])[0], plain(&[2])[0], witness(3)],
        1 => plain(&[1, 2, 3, 4]),
        2 => plain(&[1, 2, 3, 4, 5]),
        _ => plain(&[1, 2, 3]),
    }
}

/// One thing that goes wrong, or nothing.
fn trouble(world: &mut World, chance: &mut Random, seen: &mut RunFacts) {
    let numbers = world.numbers();
    let any = |chance: &mut Random| numbers[usize::try_from(chance.below(numbers.len() as u64)).unwrap()];
    let (one, other) = (any(chance), any(chance));
    match chance.below(12) {
        0 => {
            world.restart(one);
            seen.restarts += 1;
        }
        1 => world.crash(one),
        2 => {
            world.net.cut.insert((one, other));
        }
        3 => world.isolate(one),
        4..7 => world.net.cut.clear(),
        // Only one may be without memory: of two in three, nobody could tell them anything.
        7 if world.nodes.values().all(|node| node.machine.is_some() && node.saved.is_some()) => {
            world.forget(one);
            seen.forgotten += 1;
        }
        8 => {
            if let Some((leader, _)) = world.leader() {
                world.step(leader, Input::Transfer { to: None });
                seen.transfers += 1;
            }
        }
        _ => {}
    }
    for number in numbers {
        if world.nodes[&number].machine.is_none() && chance.below(2) == 0 {
            world.restart(number);
        }
        if world.nodes[&number].stopping && chance.below(2) == 0 {
            world.step(number, Input::Stopped);
        }
    }
}

fn live(seed: u64, seen: &mut RunFacts) {
    let mut chance = Random::seeded(seed);
    let mut world = World::of(members(&mut chance), seed);
    for number in world.numbers() {
        world.nodes.get_mut(&number).unwrap().rate = chance.between(991, 1_009);
        world.restart(number);
    }
    world.net.delay = (MS / 10, chance.between(1, 60) * MS);
    world.net.loss_percent = chance.below(30);
    world.net.twice_percent = chance.below(30);
    for _ in 0..40 {
        world.run(chance.between(1, 400) * MS);
        trouble(&mut world, &mut chance, seen);
    }
    seen.leaderships += world.ledger.leaderships();
    seen.chosen += world.ledger.chosen.len();
    heal(&mut world);
}

/// Everything works again: a leader must appear, and stay.
fn heal(world: &mut World) {
    world.net.cut.clear();
    world.net.loss_percent = 0;
    world.net.twice_percent = 0;
    world.net.delay = (MS / 10, 5 * MS);
    for number in world.numbers() {
        if world.nodes[&number].machine.is_none() {
            world.restart(number);
        }
        if world.nodes[&number].stopping {
            world.step(number, Input::Stopped);
        }
    }
    world.run(1_000 * MS);
    let (_, token) = world.elect(5_000 * MS);
    let leaderships = world.ledger.leaderships();
    world.run(3_000 * MS);
    assert_eq!(world.ledger.leaderships(), leaderships, "a leader was deposed in a healthy group");
    assert_eq!(world.leader().map(|(_, token)| token), Some(token));
    for number in world.numbers() {
        let view = world.view(number).unwrap();
        assert!(view.leader.is_some(), "{number} does not know the leader");
    }
}

#[test]
fn nothing_that_must_not_happen_does_and_healing_brings_a_leader() {
    let seeds: u64 = std::env::var("PAXOS_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    let mut seen = RunFacts::default();
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut seen = RunFacts::default();
            live(seed, &mut seen);
            seen
        }));
        let Ok(run) = run else { panic!("seed {seed}: see above") };
        seen.leaderships += run.leaderships;
        seen.chosen += run.chosen;
        seen.restarts += run.restarts;
        seen.forgotten += run.forgotten;
        seen.transfers += run.transfers;
    }
    let per_run = |count: usize| count as u64 / seeds;
    assert!(per_run(seen.leaderships) >= 2 && per_run(seen.chosen) >= 20, "{seen:?}");
    assert!(seen.restarts > seeds && seen.forgotten > seeds / 10 && seen.transfers > seeds, "{seen:?}");
}
