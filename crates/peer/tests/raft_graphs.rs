//! Partial connectivity: all graphs of directed links between five members, up to renaming, times the first leader.
//!
//! `BATON_CAMPAIGN=1` plays all 48,040; otherwise a spread of them.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;

use crate::raft_world::{Net, plain};

const SIZE: usize = 5;

/// Directed links between members 0 to 4: bit `from · 5 + to`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Graph(u32);

impl Graph {
    fn has(self, from: usize, to: usize) -> bool {
        self.0 & (1 << (from * SIZE + to)) != 0
    }

    fn both_ways(self, one: usize, other: usize) -> bool {
        one != other && self.has(one, other) && self.has(other, one)
    }

    fn renamed(self, names: &[usize; SIZE]) -> Graph {
        let links = (0..SIZE).flat_map(|from| (0..SIZE).map(move |to| (from, to)));
        Graph(
            links
                .filter(|&(from, to)| self.has(from, to))
                .fold(0, |bits, (from, to)| bits | 1 << (names[from] * SIZE + names[to])),
        )
    }

    /// Whether this member can talk both ways with so many that they are a majority with it.
    fn is_quorum_connected(self, member: usize) -> bool {
        (0..SIZE).filter(|&other| self.both_ways(member, other)).count() >= SIZE / 2
    }

    /// Whether some majority can talk both ways, each with each.
    fn has_full_majority(self) -> bool {
        (0..1_u32 << SIZE).filter(|set| set.count_ones() as usize > SIZE / 2).any(|set| {
            let members: Vec<usize> = (0..SIZE).filter(|member| set & (1 << member) != 0).collect();
            members.iter().all(|&a| members.iter().all(|&b| a == b || self.both_ways(a, b)))
        })
    }
}

fn permutations() -> Vec<[usize; SIZE]> {
    fn extend(begun: &mut Vec<usize>, all: &mut Vec<[usize; SIZE]>) {
        if let Ok(whole) = <[usize; SIZE]>::try_from(begun.as_slice()) {
            all.push(whole);
            return;
        }
        for next in (0..SIZE).filter(|next| !begun.contains(next)).collect::<Vec<_>>() {
            begun.push(next);
            extend(begun, all);
            begun.pop();
        }
    }
    let mut all = Vec::new();
    extend(&mut Vec::new(), &mut all);
    all
}

/// One graph of each kind.
fn graphs() -> Vec<Graph> {
    let links: Vec<u32> = (0..SIZE)
        .flat_map(|from| (0..SIZE).filter(move |to| *to != from).map(move |to| 1 << (from * SIZE + to)))
        .collect();
    let permutations = permutations();
    let mut is_seen = vec![false; 1 << (SIZE * SIZE)];
    let mut graphs = Vec::new();
    for set in 0..1_u32 << links.len() {
        let chosen = links.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0);
        let graph = Graph(chosen.fold(0, |bits, (_, link)| bits | link));
        if !is_seen[graph.0 as usize] {
            graphs.push(graph);
            for names in &permutations {
                is_seen[graph.renamed(names).0 as usize] = true;
            }
        }
    }
    graphs
}

/// Plays one graph. The first leader is `first` by renaming whoever is elected.
fn play(graph: Graph, first: usize, seed: u64) -> (bool, bool) {
    let mut net = Net::founded(plain(5), seed);
    let leader = net.run_until_led(Span::secs(5)).unwrap();
    net.run_for(Span::millis(500));
    let mut names: [usize; SIZE] = core::array::from_fn(|member| member);
    names.swap(first, usize::from(leader) - 1);
    let links = graph.renamed(&names);
    for from in 0..SIZE {
        for to in (0..SIZE).filter(|&to| !links.has(from, to)) {
            net.cut(u16::try_from(from + 1).unwrap(), u16::try_from(to + 1).unwrap());
        }
    }
    net.run_for(Span::secs(3));
    let what = format!("graph {:#x}, first leader {first}, seed {seed}", graph.0);
    let is_kept = graph.is_quorum_connected(first);
    if is_kept {
        assert_eq!((net.leader(), net.leaders.len()), (Some(leader), 1), "{what}\n{}", net.story());
    }
    let must_be_led = graph.has_full_majority();
    if must_be_led {
        assert!(net.run_until_led(Span::secs(10)).is_some(), "{what}\n{}", net.story());
        let (now, terms) = (net.leader(), net.leaders.len());
        net.run_for(Span::secs(3));
        assert_eq!((net.leader(), net.leaders.len()), (now, terms), "{what} is restless\n{}", net.story());
    }
    (is_kept, must_be_led)
}

#[test]
fn a_quorum_connected_leader_stays_and_a_full_majority_gets_one() {
    let graphs = graphs();
    assert_eq!(graphs.len(), 9_608);
    let step = if std::env::var_os("BATON_CAMPAIGN").is_some() { 1 } else { 13 };
    let (mut kept, mut led, mut played) = (0, 0, 0);
    let runs =
        graphs.iter().enumerate().flat_map(|(at, graph)| (0..SIZE).map(move |first| (at, *graph, first)));
    for (at, graph, first) in runs.step_by(step) {
        let (is_kept, must_be_led) = play(graph, first, at as u64);
        played += 1;
        kept += usize::from(is_kept);
        led += usize::from(must_be_led);
    }
    assert!(played > 1_000 && kept > 100 && led > 100, "{played} played, {kept} kept, {led} led");
}
