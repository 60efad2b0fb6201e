//! Model checking of Bully and Ring, the elections that ask no majority.
//!
//! Three members run the shipped machines; the model moves messages and time. Messages come in any order. Where the network
//! is *timely*, time passes only when no message is on its way and nobody is due: that is the textbooks' synchronous system.
//!
//! **Shows** by exhaustion that there is never more than one leader while the network is timely and nobody comes back, and
//! that the living agree on one in the end; and **finds**, for each [`Trouble`] that theory names, a run with two leaders at once.
//!
//! **Does not** show anything about runs beyond the horizon or about more than three members.

use std::fmt::{self, Debug};
use std::hash::Hash;

use baton_election::{Moment, Span};
use baton_peer::{Config, Effects, Group, Input, Machine, Member, NodeId, Start, Timing};
use stateright::{Checker, HasDiscoveries, Model, Property};

const MEMBERS: u16 = 3;

/// What may go wrong in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    Nothing,
    /// One member crashes for good.
    Crash,
    /// One member crashes and comes back with what it kept.
    Return,
    /// So many messages get lost.
    Loss(u8),
    /// The network splits once, and stays so: the last member is alone.
    Split,
    /// Time passes while messages are on their way.
    Late,
}

/// A small group in a small world.
pub struct Textbook<M> {
    trouble: Trouble,
    horizon: Moment,
    seed: u64,
    machine: std::marker::PhantomData<fn() -> M>,
}

/// A member: what it kept, and the machine unless it has crashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node<M: Machine> {
    saved: Option<M::Saved>,
    machine: Option<M>,
}

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Letter<M> {
    to: usize,
    from: usize,
    message: M,
}

/// All of it at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World<M: Machine> {
    now: Moment,
    nodes: Vec<Node<M>>,
    /// In order, so that worlds that differ in nothing else are one.
    wire: Vec<Letter<M::Message>>,
    split: bool,
    lost: u8,
    crashes: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A message arrives.
    Deliver(usize),
    /// A message gets lost.
    Lose(usize),
    /// A member whose deadline has come acts.
    Tick(usize),
    /// Time goes on to the next deadline.
    Pass,
    /// A member crashes.
    Crash(usize),
    /// It comes back.
    Return(usize),
    /// The network splits.
    Split,
}

/// What the properties are called.
pub mod promise {
    /// Never two at once.
    pub const ONE_LEADER: &str = "one leader at a time";
    /// Never two at once under the same number.
    pub const ONE_IN_A_TERM: &str = "one leader at a time in a term";
    /// At the horizon the living follow one who leads.
    pub const AGREED: &str = "the living agree at last";
    /// Somebody leads and all living know it.
    pub const LED: &str = "somebody leads and all know it";
}

/// What can be explored: a machine whose states can be told apart.
pub trait Explorable:
    Machine<Message: Ord + Send + Sync, Saved: Send + Sync> + Eq + Hash + Send + Sync
{
}
impl<M: Machine<Message: Ord + Send + Sync, Saved: Send + Sync> + Eq + Hash + Send + Sync> Explorable for M {}

/// What one exploration found: worlds seen, and for each promise a run that breaks it (or, for `LED`, keeps it).
#[derive(Debug)]
pub struct Findings {
    /// Different worlds seen.
    pub states: usize,
    /// The promises that have a run, with its steps.
    pub runs: Vec<(&'static str, Vec<String>)>,
}

impl Findings {
    /// The run of a promise.
    pub fn run(&self, promise: &str) -> Option<&[String]> {
        self.runs.iter().find(|(name, _)| *name == promise).map(|(_, run)| run.as_slice())
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} states", self.states)?;
        for (name, run) in &self.runs {
            writeln!(f, "    {name}: {}", run.join(" › "))?;
        }
        Ok(())
    }
}

impl<M: Explorable + 'static> Textbook<M> {
    /// A group that is being founded, and so much time. The seed decides how patient each member is.
    pub fn new(trouble: Trouble, horizon: Span, seed: u64) -> Textbook<M> {
        Textbook { trouble, horizon: Moment::default() + horizon, seed, machine: std::marker::PhantomData }
    }

    /// Explores everything.
    pub fn exhaust(self) -> Findings {
        let finish = HasDiscoveries::AnyFailures;
        let checker = self.checker().finish_when(finish).spawn_dfs().join();
        found(&checker)
    }

    /// Explores, short runs first, until that promise is broken.
    pub fn find(self, promise: &'static str) -> Findings {
        let finish = HasDiscoveries::AllOf([promise].into());
        let checker = self.checker().finish_when(finish).spawn_bfs().join();
        found(&checker)
    }

    fn start(&self, at: usize, start: Start<M::Saved>, now: Moment) -> M {
        let members = (0..usize::from(MEMBERS)).map(|at| Member::plain(id(at))).collect();
        let group = Group::founded(members).expect("three members");
        let seed = self.seed * 1_024 + u64::from(id(at).number());
        M::start(Config { id: id(at), group, timing: Timing::LAN, seed }, start, now)
    }

    fn carry_out(world: &mut World<M>, from: usize, effects: Effects<M::Saved, M::Message>) {
        if let Some(saved) = effects.persist {
            world.nodes[from].saved = Some(saved);
        }
        for envelope in effects.send {
            let to = usize::from(envelope.to.number()) - 1;
            world.wire.push(Letter { to, from, message: envelope.message });
        }
        world.wire.sort_unstable();
    }

    fn input(world: &mut World<M>, to: usize, input: Input<M::Message>) {
        let now = world.now;
        if let Some(machine) = &mut world.nodes[to].machine {
            let effects = machine.step(now, input);
            Self::carry_out(world, to, effects);
        }
    }

    fn due(world: &World<M>) -> impl Iterator<Item = (usize, Moment)> + '_ {
        world.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.machine.as_ref()?.deadline())))
    }

    fn leaders(world: &World<M>) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        world.nodes.iter().enumerate().filter_map(|(at, node)| {
            let view = node.machine.as_ref()?.view(world.now);
            view.leads(world.now).then_some((id(at), view.term.0))
        })
    }

    fn agreed(world: &World<M>) -> bool {
        let mut alive = world.nodes.iter().filter_map(|node| node.machine.as_ref());
        let mut leaders = Self::leaders(world);
        let (Some((leader, _)), None) = (leaders.next(), leaders.next()) else { return false };
        alive.all(|machine| machine.view(world.now).leader == Some(leader))
    }
}

fn found<M: Explorable + 'static>(checker: &impl Checker<Textbook<M>>) -> Findings {
    let run = |(name, path): (&'static str, stateright::Path<World<M>, Step>)| {
        let mut run: Vec<String> = Vec::new();
        for (world, step) in path.into_vec() {
            let Some(step) = step else { continue };
            run.push(match step {
                Step::Deliver(at) | Step::Lose(at) => {
                    let Letter { from, to, message } = &world.wire[at];
                    let lost = if matches!(step, Step::Lose(_)) { " (lost)" } else { "" };
                    format!("{} → {} {}{lost}", from + 1, to + 1, M::kind(message))
                }
                Step::Tick(at) => format!("{} ticks", at + 1),
                Step::Pass => format!("at {} ms time passes", world.now.as_nanos() / 1_000_000),
                Step::Crash(at) => format!("{} crashes", at + 1),
                Step::Return(at) => format!("{} returns", at + 1),
                Step::Split => "split".to_owned(),
            });
        }
        (name, run)
    };
    let mut runs: Vec<_> = checker.discoveries().into_iter().map(run).collect();
    runs.sort_unstable();
    Findings { states: checker.unique_state_count(), runs }
}

fn id(at: usize) -> NodeId {
    let number = u16::try_from(at + 1).unwrap_or(MEMBERS);
    NodeId::new(number).expect("a number of three")
}

impl<M: Explorable + 'static> Model for Textbook<M> {
    type State = World<M>;
    type Action = Step;

    fn init_states(&self) -> Vec<World<M>> {
        let now = Moment::default();
        let node = |at| Node { saved: None, machine: Some(self.start(at, Start::Founded, now)) };
        let nodes = (0..usize::from(MEMBERS)).map(node).collect();
        vec![World { now, nodes, wire: Vec::new(), split: false, lost: 0, crashes: 0 }]
    }

    fn actions(&self, world: &World<M>, steps: &mut Vec<Step>) {
        let crashed = world.nodes.iter().position(|node| node.machine.is_none());
        for at in 0..world.wire.len() {
            if at == 0 || world.wire[at - 1] != world.wire[at] {
                steps.push(Step::Deliver(at));
                if matches!(self.trouble, Trouble::Loss(losses) if world.lost < losses) {
                    steps.push(Step::Lose(at));
                }
            }
        }
        let due = Self::due(world).filter(|(_, due)| *due <= world.now);
        let before = steps.len();
        steps.extend(due.map(|(at, _)| Step::Tick(at)));
        let idle = world.wire.is_empty() || self.trouble == Trouble::Late;
        if steps.len() == before && idle && world.now < self.horizon {
            steps.push(Step::Pass);
        }
        // Early enough that the others can elect somebody before the horizon.
        let early = world.now.as_nanos() < self.horizon.as_nanos() / 2;
        match self.trouble {
            Trouble::Crash | Trouble::Return if world.crashes == 0 && early => {
                steps.extend((0..world.nodes.len()).map(Step::Crash));
            }
            Trouble::Return if early => steps.extend(crashed.map(Step::Return)),
            Trouble::Split if !world.split => steps.push(Step::Split),
            Trouble::Nothing
            | Trouble::Crash
            | Trouble::Return
            | Trouble::Loss(_)
            | Trouble::Split
            | Trouble::Late => {}
        }
    }

    fn next_state(&self, world: &World<M>, step: Step) -> Option<World<M>> {
        let mut next = world.clone();
        match step {
            Step::Deliver(at) => {
                let Letter { to, from, message } = next.wire.remove(at);
                if !next.split || (to == 2) == (from == 2) {
                    Self::input(&mut next, to, Input::Received { from: id(from), message });
                }
            }
            Step::Lose(at) => {
                next.wire.remove(at);
                next.lost += 1;
            }
            Step::Tick(at) => Self::input(&mut next, at, Input::Tick),
            Step::Pass => next.now = Self::due(world).map(|(_, due)| due).min()?,
            Step::Crash(at) => {
                next.nodes[at].machine = None;
                next.crashes += 1;
            }
            Step::Return(at) => {
                let how = next.nodes[at].saved.clone().map_or(Start::Founded, Start::Restarted);
                next.nodes[at].machine = Some(self.start(at, how, next.now));
            }
            Step::Split => next.split = true,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Textbook<M>>> {
        vec![
            Property::always(promise::ONE_LEADER, |_, world| Self::leaders(world).count() <= 1),
            Property::always(promise::ONE_IN_A_TERM, |_, world| {
                let terms: Vec<u64> = Self::leaders(world).map(|(_, term)| term).collect();
                !terms.iter().enumerate().any(|(at, term)| terms[..at].contains(term))
            }),
            Property::always(promise::AGREED, |model: &Textbook<M>, world: &World<M>| {
                world.now < model.horizon || !world.wire.is_empty() || Self::agreed(world)
            }),
            Property::sometimes(promise::LED, |_, world| Self::agreed(world)),
        ]
    }
}
