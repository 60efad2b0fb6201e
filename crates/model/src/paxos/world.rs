//! Three members and a network, and the steps that they can take.

use std::fmt;
use std::sync::Arc;

use baton_election::Moment;
use baton_peer::paxos::{Message, Paxos, Saved};
use baton_peer::{Config, Effects, Input, Machine, Member, NodeId, Notice, Start, Term};
use stateright::{Model, Property};

use super::catalogue::{Bounds, BrokenRule, Clocks, Scope};
use super::check;
use super::ledger::Ledger;
use super::letter::Letter;
use crate::clock::{Rate, TICK};

/// True time goes on by so many ticks: half a lease, so that every boundary is met and a message can be late within it.
const STRIDE: u8 = 5;

/// A group in one bounded world.
pub struct Group {
    pub(crate) scene: Scope,
    members: baton_peer::Group,
}

/// All of it at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// True time in ticks; stands still where clocks are free.
    now: u8,
    rates: [Rate; 3],
    pub(super) nodes: [Arc<Node>; 3],
    /// In a fixed order, so that worlds that differ in nothing else are one.
    pub(super) wire: Vec<Letter>,
    spent: Bounds,
    pub(crate) ledger: Ledger,
    pub(crate) event: Event,
}

/// One member, its disk and its clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) machine: Paxos,
    pub(super) saved: Option<Arc<Saved>>,
    /// What was kept before that.
    before: Option<Arc<Saved>>,
    /// What its clock shows, where it is free.
    clock: Moment,
    lease: Option<(Term, Moment)>,
    has_restarted: bool,
}

/// What the last step showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// Nothing worth a word.
    #[default]
    Nothing,
    /// A request was refused.
    Refused,
    /// A member that restarted has promised or accepted.
    AnsweredAfterRestart,
    /// A lease ended before anything else was heard.
    Lost,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// True time goes on.
    Tick,
    /// A member whose deadline has come acts; where clocks are free, its deadline comes.
    Wake(usize),
    /// A message arrives.
    Deliver(usize),
    /// It arrives, and will arrive again.
    Repeat(usize),
    /// A prepare request arrives after all patience and quarantine, where clocks are free.
    Late(usize),
    /// A member crashes and begins again with what it kept.
    Restart(usize),
}

pub(super) fn number(node: usize) -> NodeId {
    let number = u16::try_from(node + 1).unwrap_or(NodeId::MAX);
    NodeId::new(number).unwrap_or_else(|_| unreachable!("three members"))
}

fn index(id: NodeId) -> usize {
    usize::from(id.number()) - 1
}

impl Group {
    /// The group of this scene.
    pub fn new(scene: Scope) -> Group {
        let member = |node| Member { witness: node == 2 && scene.witness, ..Member::plain(number(node)) };
        let members = baton_peer::Group::founded((0..3).map(member).collect());
        let members = members.unwrap_or_else(|wrong| unreachable!("{wrong}"));
        Group { scene, members }
    }

    fn config(&self, node: usize) -> Config {
        Config { id: number(node), group: self.members.clone(), timing: self.scene.timing, seed: 1 }
    }

    fn founded(&self, rates: [Rate; 3]) -> World {
        let awake = Moment::default() + self.scene.timing.quarantine();
        let node = |node| {
            let machine = Paxos::start(self.config(node), Start::Founded, Moment::default());
            Arc::new(Node {
                machine,
                saved: None,
                before: None,
                clock: awake,
                lease: None,
                has_restarted: false,
            })
        };
        World {
            now: first_tick(&self.scene),
            rates,
            nodes: [node(0), node(1), node(2)],
            wire: Vec::new(),
            spent: Bounds::default(),
            ledger: Ledger::default(),
            event: Event::Nothing,
        }
    }

    /// The first member leads, the third has accepted, and the second has promised itself a higher ballot.
    fn outbid(&self, mut world: World) -> World {
        self.take_due(&mut world, 0);
        for (kind, from, to) in [("prepare", 0, 2), ("promise", 2, 0), ("accept", 0, 2), ("accepted", 2, 0)] {
            let is_it = |letter: &Letter| (letter.message.kind(), letter.from, letter.to) == (kind, from, to);
            if let Some(at) = world.wire.iter().position(is_it) {
                self.deliver(&mut world, at, false);
            }
        }
        self.take_due(&mut world, 1);
        world
    }

    /// A member is woken at its deadline.
    fn take_due(&self, world: &mut World, node: usize) {
        let due = world.nodes[node].machine.deadline();
        let mine = Arc::make_mut(&mut world.nodes[node]);
        mine.clock = mine.clock.max(due);
        self.take(world, node, Input::Tick);
    }

    pub(crate) fn members(&self) -> &baton_peer::Group {
        &self.members
    }

    /// What a member's clock shows.
    pub(super) fn clock(&self, world: &World, node: usize) -> Moment {
        match self.scene.clocks {
            Clocks::Free => world.nodes[node].clock,
            Clocks::Drifting(_) => world.rates[node].at(world.now),
        }
    }

    /// Whether a member may work at this instant, as far as it knows.
    pub(crate) fn believes(&self, world: &World, node: usize) -> bool {
        world.nodes[node].lease.is_some_and(|(_, until)| self.clock(world, node) < until)
    }

    /// Whether two may.
    pub(crate) fn two_believe(&self, world: &World) -> bool {
        (0..3).filter(|node| self.believes(world, *node)).count() > 1
    }

    /// A member takes a step. Its queries are answered with yes, as answers that were given long ago would be: that
    /// is the worst that they can do, and no promise may lean on them.
    fn take(&self, world: &mut World, node: usize, input: Input<Message>) {
        let now = self.clock(world, node);
        let mut mine = (*world.nodes[node]).clone();
        let mut effects = mine.machine.step(now, input);
        let queries: Vec<_> = effects.send.extract_if(.., |sent| sent.message.kind() == "query").collect();
        for query in queries {
            let Message::Query { ballot, .. } = query.message else { continue };
            let promised =
                world.nodes[index(query.to)].saved.as_ref().map_or(Term::ZERO, |saved| saved.promised);
            let open = Input::Received { from: query.to, message: Message::Open { ballot, promised } };
            let after = mine.machine.step(now, open);
            effects.persist = after.persist.or(effects.persist);
            effects.send.extend(after.send);
            effects.notify.extend(after.notify);
        }
        // Chance is not part of the world: what it could decide, the model decides.
        mine.machine.reseed(1);
        self.carry_out(world, node, &mut mine, effects, now);
        world.nodes[node] = Arc::new(mine);
        self.forget_dead_letters(world, node);
    }

    fn carry_out(
        &self,
        world: &mut World,
        node: usize,
        mine: &mut Node,
        effects: Effects<Saved, Message>,
        now: Moment,
    ) {
        if let Some(saved) = effects.persist {
            world.ledger.keep(&self.members, node, mine.saved.as_deref(), &saved);
            mine.before = mine.saved.take();
            mine.saved = Some(Arc::new(saved));
        }
        for envelope in effects.send {
            let is_refusal = envelope.message.kind() == "refused";
            if is_refusal {
                world.event = Event::Refused;
            } else if mine.has_restarted && matches!(envelope.message.kind(), "promise" | "accepted") {
                world.event = Event::AnsweredAfterRestart;
            }
            if !is_refusal || self.scene.outbid {
                world.post(Letter::new(node, index(envelope.to), envelope.message));
            }
        }
        for notice in effects.notify {
            match notice {
                Notice::Leads { term, until } => {
                    mine.lease = until.map(|until| (term, until));
                    world.ledger.leads(number(node), term);
                }
                Notice::Extended { term, until } => {
                    let is_running = mine.lease.is_some_and(|(led, end)| led == term && now < end);
                    world.ledger.wrong.revived |= !is_running;
                    mine.lease = Some((term, until));
                }
                Notice::Lost { .. } => {
                    mine.lease = None;
                    world.event = Event::Lost;
                }
                Notice::Stop { .. }
                | Notice::Follows { .. }
                | Notice::Leaderless { .. }
                | Notice::Members(_)
                | Notice::Refused(_) => {}
            }
        }
    }

    fn restart(&self, world: &mut World, node: usize) {
        let mut now = self.clock(world, node);
        let mut mine = (*world.nodes[node]).clone();
        let kept = match self.scene.fault {
            Some(BrokenRule::Amnesia) => None,
            Some(BrokenRule::SpeakFirst) => mine.before.clone(),
            Some(BrokenRule::NoQuarantine | BrokenRule::WildClocks) | None => mine.saved.clone(),
        };
        if self.scene.fault == Some(BrokenRule::NoQuarantine) {
            now = Moment::default();
        }
        let start = kept.as_deref().cloned().map_or(Start::Founded, Start::Restarted);
        mine.machine = Paxos::start(self.config(node), start, now);
        mine.saved = kept;
        mine.lease = None;
        mine.has_restarted = true;
        world.nodes[node] = Arc::new(mine);
    }
}

/// The first tick at which even the slowest member has ended its quarantine.
fn first_tick(scene: &Scope) -> u8 {
    match &scene.clocks {
        Clocks::Free => 0,
        Clocks::Drifting(rates) => {
            let slowest = rates.iter().flatten().map(|rate| u64::from(rate.0)).min().unwrap_or(1_000);
            let ticks = scene.timing.quarantine().as_nanos().div_ceil(TICK.as_nanos() * slowest / 1_000);
            u8::try_from(ticks).unwrap_or(u8::MAX)
        }
    }
}

impl World {
    fn post(&mut self, letter: Letter) {
        if let Err(at) = self.wire.binary_search_by_key(&letter.rank, |letter| letter.rank) {
            self.wire.insert(at, letter);
        }
    }
}

impl Model for Group {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        match &self.scene.clocks {
            Clocks::Free if self.scene.outbid => vec![self.outbid(self.founded([Rate(1_000); 3]))],
            Clocks::Free => vec![self.founded([Rate(1_000); 3])],
            Clocks::Drifting(rates) => rates.iter().map(|rates| self.founded(*rates)).collect(),
        }
    }

    fn actions(&self, world: &World, actions: &mut Vec<Step>) {
        let (bounds, spent) = (&self.scene.bounds, &world.spent);
        let is_free = matches!(self.scene.clocks, Clocks::Free);
        for at in 0..world.wire.len() {
            actions.push(Step::Deliver(at));
            if spent.repeats < bounds.repeats {
                actions.push(Step::Repeat(at));
            }
            let is_prepare = matches!(*world.wire[at].message, Message::Prepare { .. });
            if is_free && is_prepare && spent.ticks < bounds.ticks {
                actions.push(Step::Late(at));
            }
        }
        if !is_free && spent.ticks < bounds.ticks {
            actions.push(Step::Tick);
        }
        for node in 0..3 {
            let is_due = is_free || world.nodes[node].machine.deadline() <= self.clock(world, node);
            if is_due && spent.wakes < bounds.wakes {
                actions.push(Step::Wake(node));
            }
            if spent.restarts < bounds.restarts && world.nodes[node].saved.is_some() {
                actions.push(Step::Restart(node));
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.event = Event::Nothing;
        match step {
            Step::Tick => {
                next.spent.ticks += 1;
                next.now += STRIDE;
            }
            Step::Wake(node) => {
                next.spent.wakes += 1;
                self.take_due(&mut next, node);
            }
            Step::Deliver(at) => self.deliver(&mut next, at, false),
            Step::Repeat(at) => {
                next.spent.repeats += 1;
                self.deliver(&mut next, at, true);
            }
            Step::Late(at) => {
                next.spent.ticks += 1;
                let mine = Arc::make_mut(&mut next.nodes[world.wire[at].to]);
                mine.clock = mine.clock + self.scene.timing.quarantine();
                self.deliver(&mut next, at, false);
            }
            Step::Restart(node) => {
                next.spent.restarts += 1;
                self.restart(&mut next, node);
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Group>> {
        check::properties(&self.scene)
    }
}

impl Group {
    fn deliver(&self, world: &mut World, at: usize, again: bool) {
        let letter = if again { world.wire[at].clone() } else { world.wire.remove(at) };
        let input = Input::Received { from: number(letter.from), message: (*letter.message).clone() };
        self.take(world, letter.to, input);
    }

    /// A step as a person would say it.
    pub(crate) fn say(&self, world: &World, step: Step) -> String {
        let letter = |at: usize| {
            let Letter { from, to, message, .. } = &world.wire[at];
            format!("{} from {} to {}", message.kind(), from + 1, to + 1)
        };
        match step {
            Step::Tick => "tick".to_string(),
            Step::Wake(node) => format!("{} is woken", node + 1),
            Step::Deliver(at) => letter(at),
            Step::Repeat(at) => format!("{}, not for the last time", letter(at)),
            Step::Late(at) => format!("{}, late", letter(at)),
            Step::Restart(node) => format!("{} restarts", node + 1),
        }
    }
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            BrokenRule::Amnesia => "amnesia",
            BrokenRule::SpeakFirst => "speaks before it keeps",
            BrokenRule::NoQuarantine => "no quarantine",
            BrokenRule::WildClocks => "wild clocks",
        })
    }
}
