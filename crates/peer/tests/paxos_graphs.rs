//! Partial connectivity: who can hear whom is a directed graph that does not change.
//!
//! Of the five members one leads while all is well; then some links are cut, one way each. A leader that has links both ways with a majority
//! must stay, whoever else stands; and where a majority can all hear each other, a leader must appear.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_peer::{Input, Random};

use crate::paxos_world::{MS, World, id, plain};

const SIZE: u16 = 5;

/// Links that are up, a bit for each ordered pair.
#[derive(Clone, Copy)]
struct Graph(u32);

impl Graph {
    fn has(self, from: u16, to: u16) -> bool {
        let place = (from - 1) * (SIZE - 1) + if to > from { to - 2 } else { to - 1 };
        from != to && self.0 & (1 << place) != 0
    }

    /// With whom a member can talk both ways, itself included.
    fn partners(self, one: u16) -> usize {
        1 + (1..=SIZE).filter(|other| self.has(one, *other) && self.has(*other, one)).count()
    }

    /// Whether three can all talk to each other.
    fn has_connected_majority(self) -> bool {
        let talk = |a, b| self.has(a, b) && self.has(b, a);
        let mut all = (1..=SIZE).flat_map(|a| (1..a).flat_map(move |b| (1..b).map(move |c| (a, b, c))));
        all.any(|(a, b, c)| talk(a, b) && talk(b, c) && talk(a, c))
    }
}

/// The group with that leader, before anything is cut.
fn led_by(leader: u16) -> World {
    let mut world = World::founded(plain(&[1, 2, 3, 4, 5]));
    let (first, _) = world.elect(3_000 * MS);
    world.run(200 * MS);
    if first != leader {
        world.step(first, Input::Transfer { to: Some(id(leader)) });
        world.step(first, Input::Stopped);
        world.run(500 * MS);
    }
    assert_eq!(world.leader().map(|(number, _)| number), Some(leader));
    world
}

fn live(start: &World, graph: Graph) {
    let mut world = start.clone();
    let (leader, token) = world.leader().unwrap();
    for from in 1..=SIZE {
        world.net.cut.extend((1..=SIZE).filter(|to| !graph.has(from, *to)).map(|to| (from, to)));
    }
    world.run(3_000 * MS);
    let about = || format!("graph {:#x}, first leader {leader}", graph.0);
    if graph.partners(leader) >= 3 {
        assert_eq!(
            world.leader(),
            Some((leader, token)),
            "{}: a leader with a majority was deposed",
            about()
        );
    } else if graph.has_connected_majority() {
        assert!(world.leader().is_some(), "{}: nobody leads", about());
        let leaderships = world.ledger.leaderships();
        world.run(2_000 * MS);
        assert_eq!(world.ledger.leaderships(), leaderships, "{}: the leader does not stay", about());
    }
}

#[test]
fn a_leader_with_a_majority_stays_and_a_connected_majority_has_one() {
    let starts: Vec<World> = (1..=SIZE).map(led_by).collect();
    let graphs: u32 = std::env::var("PAXOS_GRAPHS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_500);
    let mut chance = Random::seeded(5);
    let (mut stay, mut appear) = (0, 0);
    for number in 0..graphs {
        // Few links, about half, and many: the hard ones lie in between.
        let mask = |chance: &mut Random| u32::try_from(chance.below(1 << 20)).unwrap();
        let graph = Graph(match number % 3 {
            0 => mask(&mut chance),
            1 => mask(&mut chance) | mask(&mut chance),
            _ => mask(&mut chance) | mask(&mut chance) | mask(&mut chance),
        });
        let start = &starts[usize::try_from(chance.below(5)).unwrap()];
        stay += usize::from(graph.partners(start.leader().unwrap().0) >= 3);
        appear += usize::from(graph.has_connected_majority());
        live(start, graph);
    }
    assert!(stay > 100 && appear > 100, "{stay} {appear}");
}
