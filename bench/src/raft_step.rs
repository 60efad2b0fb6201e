//! What a step of a Raft machine costs: five members in memory, a leader that sends heartbeats and is answered.

use std::hint::black_box;
use std::time::{Duration, Instant};

use baton_election::Moment;
use baton_peer::raft::{Message, Raft};
use baton_peer::{Config, Envelope, Group, Input, Machine, Member, NodeId, Start, Timing};

use crate::figures::{Figure, median_of_five};

const MEMBERS: u16 = 5;
const ROUNDS: u32 = 50_000;

/// A group in which every message arrives at once.
struct Crowd {
    machines: Vec<(NodeId, Raft)>,
    now: Moment,
    /// Steps taken.
    steps: u32,
}

impl Crowd {
    fn founded() -> Crowd {
        let ids = || (1..=MEMBERS).filter_map(|number| NodeId::new(number).ok());
        let Ok(group) = Group::founded(ids().map(Member::plain).collect()) else {
            unreachable!("five plain members are a group")
        };
        let now = Moment::from_nanos(0);
        let start = |id: NodeId| {
            let config =
                Config { id, group: group.clone(), timing: Timing::LAN, seed: u64::from(id.number()) };
            (id, Raft::start(config, Start::Founded, now))
        };
        Crowd { machines: ids().map(start).collect(), now, steps: 0 }
    }

    /// One member's step, and all that follows from it at the same moment.
    fn step(&mut self, at: usize, input: Input<Message>) {
        let mut queue = vec![(at, input)];
        while let Some((at, input)) = queue.pop() {
            let Some((from, machine)) = self.machines.get_mut(at) else { continue };
            let from = *from;
            self.steps += 1;
            for Envelope { to, message } in black_box(machine.step(self.now, black_box(input))).send {
                queue.push((usize::from(to.number()) - 1, Input::Received { from, message }));
            }
        }
    }

    /// Time goes on to the next deadline, and whoever has it acts.
    fn advance(&mut self) {
        let deadlines = self.machines.iter().enumerate().map(|(at, (_, machine))| (machine.deadline(), at));
        if let Some((deadline, at)) = deadlines.min() {
            self.now = self.now.max(deadline);
            self.step(at, Input::Tick);
        }
    }

    fn is_led(&self) -> bool {
        self.machines.iter().any(|(_, machine)| machine.view(self.now).leads(self.now))
    }
}

/// A step, over rounds of heartbeats: one sends, four are asked, four answers come.
pub(crate) fn measure() -> Figure {
    let mut crowd = Crowd::founded();
    while !crowd.is_led() {
        crowd.advance();
    }
    let each = median_of_five(|| {
        crowd.steps = 0;
        let begun = Instant::now();
        for _ in 0..ROUNDS {
            crowd.advance();
        }
        begun.elapsed() / crowd.steps
    });
    assert!(crowd.is_led(), "the leader that was measured leads");
    Figure::at_most(
        "raft-step: heartbeats of five members, each step",
        each,
        Duration::from_micros(1),
        format!("{} steps a round, with the queue between them", crowd.steps / ROUNDS),
    )
}
