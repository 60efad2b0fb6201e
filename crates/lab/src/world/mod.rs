//! A group of members without a store, in simulated time.
//!
//! Runs any [`Machine`], the very code that ships. Assumes that a machine is a function of its inputs. Guarantees that a run
//! depends on nothing but its [`Setup`]. Does not simulate the transport of `crates/node`: a message is what a machine
//! sends, and what the network does to it is worse than what TCP would let through.

mod faults;
mod member;
mod steps;
mod work;

use baton_peer::memory_recovery::{MemoryRecovery, needed};
use baton_peer::{Config, Group, GroupStamp, Machine, Member as Listed, NodeId, Random};

use crate::fault::Fault;
use crate::host::next_alarm;
use crate::invariants::Demands;
use crate::ledger::{Ledger, Resource};
use crate::network::{Links, Network};
use crate::queue::Queue;
use crate::setup::{Outcome, Setup};
use crate::simulation::{Simulation, play};
use crate::timeline::Timeline;

use member::{Letter, Member};

/// The most steps of one machine at one instant: one that wants more has a deadline that never moves on.
const MAX_STEPS_AT_ONCE: u32 = 10_000;

/// What happens later.
#[derive(Debug)]
enum Event<Message> {
    /// A message arrives.
    Arrives { to: u8, letter: Letter<Message> },
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
    links: Links,
    network: Network,
    queue: Queue<Event<M::Message>>,
    /// Of the network, of disks and delays, of the shell.
    random: Random,
    ledger: Ledger,
    resource: Resource,
    healed: bool,
    steps_at_once: (u64, u32),
}

impl<'s, M: Machine> World<'s, M> {
    /// Runs a group to its end.
    pub fn run(setup: &'s Setup) -> Outcome {
        World::<M>::play(setup, None).0
    }

    /// The same, keeping what happened.
    pub fn watch(setup: &'s Setup) -> (Outcome, Timeline) {
        World::<M>::play(setup, Some(Timeline::default()))
    }

    pub(crate) fn play(setup: &'s Setup, timeline: Option<Timeline>) -> (Outcome, Timeline) {
        play(World::<M>::new(setup, timeline), setup)
    }

    fn new(setup: &'s Setup, timeline: Option<Timeline>) -> World<'s, M> {
        let mut random = Random::seeded(setup.seed ^ 0x6c61_6221);
        let group = founding_group(setup);
        let members =
            (0..setup.places()).map(|place| Member::new(setup, place, group.clone(), &mut random)).collect();
        let demands = Demands { safety: M::TERMS_ARE_TOKENS, liveness: true };
        let mut world = World {
            setup,
            now: 0,
            members,
            links: Links::whole(setup.places()),
            network: setup.network,
            queue: Queue::new(),
            random,
            ledger: Ledger::new(demands, timeline),
            resource: Resource::default(),
            healed: false,
            steps_at_once: (0, 0),
        };
        for place in 0..usize::from(setup.members) {
            // Processes of a group are not started at the same instant.
            let at = world.random.below(setup.timing.heartbeat.as_nanos());
            world.queue.put(at, Event::Restarts { place: small(place), life: 0 });
        }
        world
    }

    /// The list of members that counts: the leader's, or the newest.
    fn group(&self) -> &Group {
        let newest = || self.members.iter().map(Member::group).max_by_key(|group| group.stamp());
        let led_by = self.ledger.leader().and_then(|leader| self.members.get(usize::from(leader)));
        led_by.map(Member::group).or_else(newest).unwrap_or_else(|| unreachable!("a world has members"))
    }

    /// How many of the group remember nothing, and how many remember and have its list. The others never kept anything and do not know
    /// why, or lost their disks, or have an older list. `soon` says of whom it counts what it is about to remember.
    fn memories(&self, soon: impl Fn(NodeId) -> bool) -> (usize, usize) {
        let group = self.group();
        let (mut forgotten, mut remember) = (0, 0);
        for listed in group.members() {
            let Some(member) = self.members.get(place_of(listed.id)) else { continue };
            if member.saved.is_none() && !member.founds && !soon(listed.id) {
                forgotten += 1;
            } else if is_same_list(member.group(), group) {
                remember += 1;
            }
        }
        (forgotten, remember)
    }

    /// Whether that one will remember although its disk is empty: what it learnt is being written, or a founding that somebody has kept, or is writing, names
    /// it in its present life.
    fn is_about_to_remember(&self, id: NodeId) -> bool {
        let Some(member) = self.members.get(place_of(id)) else { return false };
        let Some(life) = member.machine.as_ref().and_then(M::memory_recovery).map(MemoryRecovery::life)
        else {
            return member.busy.as_ref().is_some_and(|pending| pending.effects.persist.is_some());
        };
        let written = |member: &Member<M>| {
            let pending = member.busy.as_ref().and_then(|pending| pending.effects.persist.as_ref());
            let mut kept = [member.saved.as_ref(), pending].into_iter().flatten().filter_map(M::founding);
            kept.any(|founding| founding.names(id, life))
        };
        self.members.iter().any(written)
    }

    fn next_tick(&self) -> (u64, usize) {
        next_alarm(self.members.iter().map(|member| &member.host))
    }
}

impl<M: Machine> Simulation for World<'_, M> {
    fn next_at(&self) -> u64 {
        self.next_tick().0.min(self.queue.next_at().unwrap_or(u64::MAX))
    }

    fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    fn happen(&mut self) {
        if self.queue.next_at() != Some(self.now) {
            let (_, ticking) = self.next_tick();
            return self.tick(ticking);
        }
        let Some((_, event)) = self.queue.take() else { return };
        match event {
            Event::Arrives { to, letter } => self.arrive(usize::from(to), letter),
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

    fn befall(&mut self, fault: &Fault) {
        self.strike(fault);
    }

    fn heal(&mut self) {
        self.mend_all();
    }

    fn astray(&self) -> (usize, usize) {
        let leader = self.ledger.leader();
        let group = self.group();
        let listed = |place: usize| group.member(node(place)).is_some();
        let places: Vec<usize> = (0..self.members.len()).filter(|place| listed(*place)).collect();
        let knows = |place: &&usize| {
            let member = &self.members[**place];
            let view = member.machine.as_ref().map(|machine| machine.view(member.host.clock.at(self.now)));
            view.and_then(|view| view.leader) == leader.map(|leader| node(usize::from(leader)))
        };
        let known = places.iter().filter(knows).count();
        (places.len() - known, places.len())
    }

    fn has_preferences(&self) -> bool {
        let members = self.group().members();
        members.iter().any(|member| Some(member.priority) != members.first().map(|first| first.priority))
    }

    fn demands_a_leader(&self) -> bool {
        // Bully and Ring call no roll: whoever is there elects.
        if !M::TERMS_ARE_TOKENS {
            return true;
        }
        let (forgotten, remember) = self.memories(|id| self.is_about_to_remember(id));
        let group = self.group();
        // All can found a group that nobody has led; some can learn from enough others.
        let is_new = group.stamp() == GroupStamp::default();
        forgotten == 0 || (is_new && forgotten == group.size()) || (remember > 0 && remember >= needed(group))
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

/// Whether two lists are one, perhaps taken over by a later leader. Equal members are not enough: somebody may have left and come back, and who
/// has only the first of these lists remembers nothing of what was in between.
fn is_same_list(one: &Group, other: &Group) -> bool {
    one.stamp().version == other.stamp().version && one.members() == other.members()
}

/// A place as it stands in a list that it is put into: the last of the first members may be witnesses.
fn listed(setup: &Setup, place: usize) -> Listed {
    let members = usize::from(setup.members);
    let plain = members.saturating_sub(usize::from(setup.witnesses));
    Listed {
        witness: (plain..members).contains(&place),
        priority: setup.priorities.get(place).copied().unwrap_or(0),
        ..Listed::plain(node(place))
    }
}

/// The group of the first members.
fn founding_group(setup: &Setup) -> Group {
    let listed = (0..usize::from(setup.members)).map(|place| listed(setup, place));
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
fn config(setup: &Setup, place: usize, group: Group, starts: u32) -> Config {
    let seed = setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((place as u64) << 32) ^ u64::from(starts);
    Config { id: node(place), group, timing: setup.timing, seed }
}
