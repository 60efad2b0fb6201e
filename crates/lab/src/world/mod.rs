//! A group of members without a store, in simulated time.
//!
//! Runs any [`Machine`], the very code that ships. Assumes that a machine is a function of its inputs. Guarantees that a run
//! depends on nothing but its [`Setup`]. Does not simulate the transport of `crates/node`: a message is what a machine
//! sends, and what the network does to it is worse than what TCP would let through.

mod faults;
mod member;
mod steps;
mod work;

use baton_peer::{Config, Group, Machine, Member as Listed, NodeId, Random};

use crate::fault::Planned;
use crate::invariants::{Demands, Fact};
use crate::ledger::{Ledger, Resource};
use crate::network::{Links, Network};
use crate::queue::Queue;
use crate::setup::{Outcome, Setup};
use crate::timeline::Timeline;

use member::Member;

/// The most steps of one machine at one instant: one that wants more has a deadline that never moves on.
const MAX_STEPS_AT_ONCE: u32 = 10_000;

/// What happens later.
#[derive(Debug)]
enum Event<Message> {
    /// A message arrives.
    Arrives { from: u8, to: u8, sent: u64, message: Message },
    /// A disk is done, or a process that was held up goes on.
    Kept { place: u8, life: u32 },
    /// A pause ends.
    Resumes { place: u8, pause: u32 },
    /// A process starts again.
    Restarts { place: u8, life: u32 },
    /// A leader writes.
    Works { place: u8, number: u64 },
    /// Work has stopped, as it was asked to.
    Stopped { place: u8, number: u64 },
    /// A write reaches the resource.
    Writes { place: u8, token: u64, number: u64 },
}

/// A group, its network, and the time.
pub struct World<'s, M: Machine> {
    setup: &'s Setup,
    now: u64,
    members: Vec<Member<M>>,
    group: Group,
    links: Links,
    network: Network,
    queue: Queue<Event<M::Message>>,
    /// Of the network, of disks and delays, of the shell.
    random: Random,
    ledger: Ledger,
    resource: Resource,
    healed: bool,
    /// When the run ends.
    end: u64,
    steps_at_once: (u64, u32),
}

impl<'s, M: Machine> World<'s, M> {
    /// Runs a group to its end.
    pub fn run(setup: &'s Setup) -> Outcome {
        let (ledger, _) = World::<M>::new(setup, None).play();
        Outcome { statistics: ledger.statistics, broken: ledger.broken }
    }

    /// The same, keeping what happened.
    pub fn watch(setup: &'s Setup) -> (Outcome, Timeline) {
        let (mut ledger, _) = World::<M>::new(setup, Some(Timeline::default())).play();
        let timeline = ledger.timeline.take().unwrap_or_default();
        (Outcome { statistics: ledger.statistics, broken: ledger.broken }, timeline)
    }

    fn new(setup: &'s Setup, timeline: Option<Timeline>) -> World<'s, M> {
        let mut random = Random::seeded(setup.seed ^ 0x6c61_6221);
        let group = founding_group(setup);
        let members =
            (0..setup.places()).map(|place| Member::new(setup, place, group.clone(), &mut random)).collect();
        let demands = Demands { safety: M::TERMS_ARE_TOKENS, liveness: true };
        World {
            setup,
            now: 0,
            members,
            group,
            links: Links::whole(setup.places()),
            network: setup.network,
            queue: Queue::new(),
            random,
            ledger: Ledger::new(demands, timeline),
            resource: Resource::default(),
            healed: false,
            end: u64::MAX,
            steps_at_once: (0, 0),
        }
    }

    fn play(mut self) -> (Ledger, Group) {
        for place in 0..usize::from(self.setup.members) {
            // Processes of a group are not started at the same instant.
            let within = self.setup.timing.heartbeat.as_nanos();
            let at = self.random.below(within);
            self.queue.put(at, Event::Restarts { place: small(place), life: 0 });
        }
        let mut planned = self.setup.plan.iter().peekable();
        let chaos = self.setup.chaos.as_nanos();
        while self.ledger.broken.is_none() {
            let (tick_at, ticking) = self.next_tick();
            let queued = self.queue.next_at().unwrap_or(u64::MAX);
            let fault_at = planned.peek().map_or(u64::MAX, |next| next.at.as_nanos());
            let heal_at = if self.healed { u64::MAX } else { chaos };
            let at = tick_at.min(queued).min(fault_at).min(heal_at).min(self.end);
            self.ledger.advance(at);
            self.now = at;
            if at >= self.end {
                break;
            }
            if at == heal_at {
                self.heal();
            } else if at == fault_at {
                if let Some(Planned { fault, .. }) = planned.next().filter(|_| !self.healed) {
                    self.befall(fault);
                }
            } else if at == queued {
                if let Some((_, event)) = self.queue.take() {
                    self.happen(event);
                }
            } else {
                self.tick(ticking);
            }
            self.ledger.check_instant();
            self.look_for_the_end();
        }
        self.conclude();
        (self.ledger, self.group)
    }

    /// Who wants to be woken next, and when. The first of several.
    fn next_tick(&self) -> (u64, usize) {
        let mut first = (u64::MAX, 0);
        for (place, member) in self.members.iter().enumerate() {
            if member.tick_at < first.0 {
                first = (member.tick_at, place);
            }
        }
        first
    }

    fn happen(&mut self, event: Event<M::Message>) {
        match event {
            Event::Arrives { from, to, sent, message } => self.arrive(from, to, sent, message),
            Event::Kept { place, life } => self.kept(usize::from(place), life),
            Event::Resumes { place, pause } => self.resume(usize::from(place), pause),
            Event::Restarts { place, life } => self.start(usize::from(place), life),
            Event::Works { place, number } => self.work(usize::from(place), number),
            Event::Stopped { place, number } => self.stopped(usize::from(place), number),
            Event::Writes { place, token, number } => {
                self.resource.write(&mut self.ledger, place, token, number);
            }
        }
    }

    /// Once it is healed: the run ends a while after there is a leader, or when it is overdue.
    fn look_for_the_end(&mut self) {
        if self.healed && self.end == u64::MAX && self.ledger.actors() == 1 {
            self.end = self.now + self.setup.steady.as_nanos();
        }
    }

    fn conclude(&mut self) {
        let leader = self.ledger.leader();
        let listed = |place: usize| self.group.member(node(place)).is_some();
        let places: Vec<usize> = (0..self.members.len()).filter(|place| listed(*place)).collect();
        let knows = |place: &&usize| {
            let member = &self.members[**place];
            let view = member.machine.as_ref().map(|machine| machine.view(member.clock.at(self.now)));
            view.and_then(|view| view.leader) == leader.map(|leader| node(usize::from(leader)))
        };
        let known = places.iter().filter(knows).count();
        let all = places.len();
        if self.demands_a_leader() {
            self.ledger.see(&Fact::Over { astray: all - known, all });
        }
    }

    /// Whether the faults have left enough for a leader to be elected.
    fn demands_a_leader(&self) -> bool {
        !self.setup.any_disk_may_go
    }
}

/// The group of the first members.
fn founding_group(setup: &Setup) -> Group {
    let plain = setup.members.saturating_sub(setup.witnesses);
    let listed = (0..setup.members).map(|place| {
        let member = Listed::plain(node(usize::from(place)));
        Listed { witness: place >= plain, ..member }
    });
    Group::founded(listed.collect()).unwrap_or_else(|error| panic!("a setup without a group: {error}"))
}

/// The id of the member at a place.
fn node(place: usize) -> NodeId {
    let number = u16::try_from(place + 1).unwrap_or(NodeId::MAX);
    NodeId::new(number).unwrap_or_else(|_| unreachable!("places are fewer than ids"))
}

/// The place of a member.
fn place_of(id: NodeId) -> usize {
    usize::from(id.number()) - 1
}

fn small(place: usize) -> u8 {
    u8::try_from(place).unwrap_or(u8::MAX)
}

/// What a machine is told at its start.
fn config(setup: &Setup, place: usize, group: &Group, starts: u32) -> Config {
    let seed = setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((place as u64) << 32) ^ u64::from(starts);
    Config { id: node(place), group: group.clone(), timing: setup.timing, seed }
}
