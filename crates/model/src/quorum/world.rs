//! The world at one instant, its steps, and which of them are possible.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use baton_election::{Margins, Moment, Span};
use baton_peer::{Config, Effects, Group, Input, Machine, Member, Notice, Role, Start, Term, Timing, View};
use stateright::{Model, Property};

use super::properties;

/// A rhythm in round figures. All are equally patient: who acts first is for the model to choose. A leader's lease is that of its first heartbeats;
/// those that follow would only make more worlds.
pub(super) const TIMING: Timing = Timing {
    heartbeat: Span::millis(100),
    timeout_min: Span::millis(30),
    timeout_max: Span::millis(30),
    margins: Margins::STANDARD,
};

/// A machine that can be explored.
pub trait Explored:
    Machine<Message: Send + Sync, Saved: Send + Sync> + Eq + Hash + Send + Sync + 'static
{
    /// Whether a message can still change anything for a receiver that has that view: what only refuses, or answers a question that is
    /// over, is left out, so that there are fewer worlds.
    fn matters(message: &Self::Message, receiver: &View) -> bool;

    /// The answer yes of a voter in that term, if the message asks something that binds nobody. The model gives it at once, whatever the
    /// voters would say: no promise may lean on such a question.
    fn agreed(message: &Self::Message, voter: Term) -> Option<Self::Message>;
}

/// How clocks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// Each member has its own, and they have nothing to do with each other.
    Free,
    /// There is one, and members may sleep.
    Shared,
}

/// A rule that is broken on purpose, outside of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenRule {
    /// What shall be kept is not kept.
    KeepsNothing,
    /// Who lost its disk says that it has never spoken.
    PretendsToBeNew,
    /// Who begins again takes part at once.
    SkipsQuarantine,
}

/// One bounded world.
#[derive(Clone, Debug)]
pub struct Scope {
    /// What it is called in reports.
    pub name: &'static str,
    /// Three of them.
    pub members: Vec<Member>,
    /// How clocks go.
    pub clocks: Clocks,
    /// The highest term.
    pub terms: u64,
    /// How often a member acts because its time has come.
    pub acts: u8,
    /// How often time goes on besides.
    pub passes: u8,
    /// How many messages arrive twice.
    pub doubles: u8,
    /// How often a member crashes and begins again.
    pub restarts: u8,
    /// What is broken.
    pub fault: Option<BrokenRule>,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node<M: Machine> {
    pub(super) machine: M,
    pub(super) saved: Option<M::Saved>,
    /// Its clock. With shared clocks, all have the same.
    pub(super) now: Moment,
    pub(super) restarts: u8,
}

impl<M: Machine> Node<M> {
    /// When something may change for it: the end of its lease, or what it waits for. Heartbeats change nothing.
    fn waits_for(&self) -> Moment {
        self.machine.view(self.now).until.unwrap_or_else(|| self.machine.deadline())
    }
}

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Letter<M> {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) message: M,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World<M: Machine> {
    pub(super) nodes: Vec<Node<M>>,
    /// In a fixed order, so that worlds that differ in nothing else are one.
    pub(super) wire: Vec<Letter<M::Message>>,
    /// Each term and the member elected in it, in the order in which it happened.
    pub(super) leads: Vec<(Term, usize)>,
    /// Somebody's kept term went back.
    pub(super) went_back: bool,
    pub(super) acts: u8,
    pub(super) passes: u8,
    pub(super) doubles: u8,
    pub(super) restarts: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A message arrives.
    Deliver(usize),
    /// It arrives, and will arrive again.
    Double(usize),
    /// A member's own clock goes on to what it waits for, and it acts.
    Wake(usize, Answerer),
    /// A member's own clock goes on by the shortest timeout.
    Sleep(usize),
    /// The clock of all goes on to what somebody waits for.
    Pass,
    /// A member acts that waited for something.
    Act(usize, Answerer),
    /// A member crashes and begins again.
    Restart(usize),
}

/// Who answers a question that binds nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// The one of the others that is in the lowest term.
    Lowest,
    /// The one that is in the highest.
    Highest,
}

/// The model of one world.
pub struct Quorum<M> {
    pub(super) small: Scope,
    machine: PhantomData<fn() -> M>,
}

impl<M: Explored> Quorum<M> {
    /// The world of these bounds.
    pub fn new(small: Scope) -> Quorum<M> {
        Quorum { small, machine: PhantomData }
    }

    fn config(&self, index: usize) -> Config {
        let Ok(group) = Group::founded(self.small.members.clone()) else {
            unreachable!("the lists of the catalogue are sound")
        };
        let id = self.small.members[index].id;
        Config { id, group, timing: TIMING, seed: index as u64 }
    }

    /// Steps a machine, and returns what it asked that binds nobody. Elsewhere than in [`Quorum::act`] that gets lost: its sender will ask again.
    fn step(&self, world: &mut World<M>, index: usize, input: Input<M::Message>) -> Option<M::Message> {
        let mut asked = None;
        let node = &mut world.nodes[index];
        let Effects { persist, send, notify } = node.machine.step(node.now, input);
        if persist.is_some() && self.small.fault != Some(BrokenRule::KeepsNothing) {
            node.saved = persist;
        }
        for notice in notify {
            match notice {
                Notice::Leads { term, .. } => world.leads.push((term, index)),
                Notice::Extended { .. }
                | Notice::Stop { .. }
                | Notice::Lost { .. }
                | Notice::Follows { .. }
                | Notice::Leaderless { .. }
                | Notice::Members(_)
                | Notice::Refused(_) => {}
            }
        }
        for envelope in send {
            if M::agreed(&envelope.message, Term::ZERO).is_some() {
                asked = Some(envelope.message);
                continue;
            }
            let to = self.small.members.iter().position(|member| member.id == envelope.to);
            if let Some(to) = to {
                world.post(Letter { from: index, to, message: envelope.message });
            }
        }
        let views: Vec<View> = world.nodes.iter().map(|node| node.machine.view(node.now)).collect();
        world.wire.retain(|letter| M::matters(&letter.message, &views[letter.to]));
        asked
    }

    /// A member's time has come. A question that binds nobody is answered by one of the others at once.
    fn act(&self, world: &mut World<M>, index: usize, answerer: Answerer) {
        world.acts += 1;
        let asked = self.step(world, index, Input::Tick);
        let terms = world.nodes.iter().enumerate().filter(|(at, _)| *at != index);
        let terms = terms.map(|(at, node)| (node.machine.view(node.now).term, at));
        let chosen = match answerer {
            Answerer::Lowest => terms.min(),
            Answerer::Highest => terms.max(),
        };
        if let (Some(message), Some((term, voter))) = (asked, chosen)
            && let Some(message) = M::agreed(&message, term)
        {
            self.deliver(world, Letter { from: voter, to: index, message });
        }
    }

    fn deliver(&self, world: &mut World<M>, letter: Letter<M::Message>) {
        let from = self.small.members[letter.from].id;
        self.step(world, letter.to, Input::Received { from, message: letter.message });
    }

    fn restart(&self, world: &mut World<M>, index: usize) {
        world.restarts += 1;
        let config = self.config(index);
        let node = &mut world.nodes[index];
        node.restarts += 1;
        let start = match node.saved.clone() {
            Some(_) if self.small.fault == Some(BrokenRule::PretendsToBeNew) => Start::Founded,
            Some(saved) => Start::Restarted(saved),
            None => Start::Founded,
        };
        let is_early = self.small.fault == Some(BrokenRule::SkipsQuarantine);
        let begun = if is_early { node.now - TIMING.quarantine() } else { node.now };
        node.machine = M::start(config, start, begun);
    }
}

impl<M: Explored> World<M> {
    fn post(&mut self, letter: Letter<M::Message>) {
        let hash = |letter: &Letter<M::Message>| {
            let mut hasher = DefaultHasher::new();
            letter.hash(&mut hasher);
            hasher.finish()
        };
        let place = self.wire.partition_point(|other| hash(other) < hash(&letter));
        self.wire.insert(place, letter);
    }

    pub(super) fn now(&self) -> Moment {
        self.nodes.iter().map(|node| node.now).max().unwrap_or_default()
    }

    /// Whose work may run.
    pub(super) fn leading(&self) -> impl Iterator<Item = usize> + '_ {
        let leads = |node: &Node<M>| node.machine.view(node.now).leads(node.now);
        self.nodes.iter().enumerate().filter(move |(_, node)| leads(node)).map(|(index, _)| index)
    }

    fn highest_term(&self) -> Term {
        let terms = self.nodes.iter().map(|node| node.machine.view(node.now).term);
        terms.max().unwrap_or_default()
    }
}

impl<M: Explored> Model for Quorum<M> {
    type State = World<M>;
    type Action = Action;

    fn init_states(&self) -> Vec<World<M>> {
        let begun = Moment::from_nanos(Span::secs(1).as_nanos());
        let node = |index| Node {
            machine: M::start(self.config(index), Start::Founded, begun),
            saved: None,
            now: begun + TIMING.quarantine(),
            restarts: 0,
        };
        vec![World {
            nodes: (0..self.small.members.len()).map(node).collect(),
            wire: Vec::new(),
            leads: Vec::new(),
            went_back: false,
            acts: 0,
            passes: 0,
            doubles: 0,
            restarts: 0,
        }]
    }

    fn actions(&self, world: &World<M>, actions: &mut Vec<Action>) {
        for (at, letter) in world.wire.iter().enumerate() {
            if at > 0 && world.wire[at - 1] == *letter {
                continue;
            }
            actions.push(Action::Deliver(at));
            if world.doubles < self.small.doubles {
                actions.push(Action::Double(at));
            }
        }
        let (may_act, may_pass) = (world.acts < self.small.acts, world.passes < self.small.passes);
        let now = world.now();
        let terms = || world.nodes.iter().map(|node| node.machine.view(node.now).term);
        let differ = terms().min() != terms().max();
        let answerers = || [Answerer::Lowest, Answerer::Highest].into_iter().take(if differ { 2 } else { 1 });
        for (index, node) in world.nodes.iter().enumerate() {
            let view = node.machine.view(node.now);
            match self.small.clocks {
                Clocks::Free => {
                    // A leader's next heartbeats are like its first, and who waits for nobody does not care how long.
                    if may_act && view.role != Role::Leader {
                        actions.extend(answerers().map(|answerer| Action::Wake(index, answerer)));
                    }
                    if may_pass && view.leader.is_some() {
                        actions.push(Action::Sleep(index));
                    }
                }
                Clocks::Shared if may_act && node.waits_for() <= now => {
                    actions.extend(answerers().map(|answerer| Action::Act(index, answerer)));
                }
                Clocks::Shared => {}
            }
            if world.restarts < self.small.restarts && view.term > Term::ZERO {
                actions.push(Action::Restart(index));
            }
        }
        if may_pass && self.small.clocks == Clocks::Shared {
            actions.push(Action::Pass);
        }
    }

    fn next_state(&self, world: &World<M>, action: Action) -> Option<World<M>> {
        let mut next = world.clone();
        match action {
            Action::Deliver(at) => {
                let letter = next.wire.remove(at);
                self.deliver(&mut next, letter);
            }
            Action::Double(at) => {
                next.doubles += 1;
                let letter = next.wire[at].clone();
                self.deliver(&mut next, letter);
            }
            Action::Wake(index, answerer) => {
                let node = &mut next.nodes[index];
                node.now = node.machine.deadline().max(node.now);
                self.act(&mut next, index, answerer);
            }
            Action::Sleep(index) => {
                next.passes += 1;
                let node = &mut next.nodes[index];
                node.now = node.now + TIMING.timeout_min;
            }
            Action::Pass => {
                next.passes += 1;
                let now = next.now();
                let later =
                    next.nodes.iter().map(|node| node.machine.deadline()).filter(|at| *at > now).min()?;
                for node in &mut next.nodes {
                    node.now = later;
                }
            }
            Action::Act(index, answerer) => self.act(&mut next, index, answerer),
            Action::Restart(index) => self.restart(&mut next, index),
        }
        let kept = |nodes: &[Node<M>]| -> Vec<Term> {
            nodes.iter().map(|node| node.machine.view(node.now).term).collect()
        };
        next.went_back =
            kept(&next.nodes).iter().zip(kept(&world.nodes)).any(|(after, before)| *after < before);
        (next.highest_term().0 <= self.small.terms).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Quorum<M>>> {
        properties::all(&self.small)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Deliver(at) => write!(f, "message {at} arrives"),
            Action::Double(at) => write!(f, "message {at} arrives and will again"),
            Action::Wake(index, _) => write!(f, "{} wakes at its deadline", index + 1),
            Action::Sleep(index) => write!(f, "{} sleeps for the shortest timeout", index + 1),
            Action::Pass => f.write_str("time passes"),
            Action::Act(index, _) => write!(f, "{} acts", index + 1),
            Action::Restart(index) => write!(f, "{} crashes and begins again", index + 1),
        }
    }
}
