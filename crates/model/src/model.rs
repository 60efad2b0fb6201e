//! The steps of the world, and which of them are possible.

use std::fmt;

use stateright::{Model, Property};

use crate::config::{Config, Reads};
use crate::properties;
use crate::shipped::Shipped;
use crate::state::{Agent, Phase, RequestKind, Resource, SpentBounds, StoreSide, World};

/// One election in one bounded world.
pub struct Election {
    pub(crate) config: Config,
    pub(crate) shipped: Shipped,
}

impl Election {
    /// The world of this configuration.
    pub fn new(config: Config) -> Election {
        Election { config, shipped: Shipped::new() }
    }
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action(pub(crate) Step);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// True time goes on.
    Tick,
    /// An agent begins a request.
    Ask(usize, RequestKind),
    /// The store serves its read.
    Serve(usize),
    /// The reply to the read arrives, and the agent decides.
    Conclude(usize),
    /// Its swap arrives at the store.
    Arrive(usize),
    /// The answer arrives.
    Hear(usize),
    /// The agent gives up on its swap, and tries again.
    TimeOut(usize),
    /// The agent gives up on its request to lead. It may ask again later, under the same name.
    GiveUp(usize),
    /// A swap arrives that its sender has given up on.
    Late(usize, usize),
    /// The agent checks that it leads, and sends a guarded write.
    Write(usize),
    /// A write arrives at the resource, and its guard looks at the election.
    Look(usize),
    /// The fence decides on a write.
    Deliver(usize),
    /// The agent stops, having checked that it leads.
    Pause(usize),
    /// It goes on.
    Wake(usize),
    /// Its process dies and begins again.
    Restart(usize),
    /// The operator orders to depose whoever leads.
    Depose,
    /// The order arrives at the store.
    Deposed,
    /// The operator pauses everything.
    Halt,
    /// The operator resumes everything.
    Resume,
}

impl Model for Election {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let document = self.shipped.founded(&self.config);
        let begun = |clocks| World {
            now: 0,
            clocks,
            store: StoreSide { document: document.clone(), version: 0, stamp: 0 },
            agents: [Agent::default(), Agent::default()],
            order: None,
            halted: false,
            wire: Vec::new(),
            resource: Resource::default(),
            ledger: Default::default(),
            spent: SpentBounds::default(),
            event: None,
        };
        self.config.clocks.iter().copied().map(begun).collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let (bounds, spent) = (&self.config.bounds, &world.spent);
        let mut steps = Vec::with_capacity(16);
        if world.now < bounds.horizon {
            steps.push(Step::Tick);
        }
        for agent in 0..world.agents.len() {
            self.agent_steps(world, agent, &mut steps);
        }
        for (at, write) in world.wire.iter().enumerate() {
            let again = at > 0 && world.wire[at - 1] == *write;
            match (&write.sight, self.config.guards) {
                _ if again => {}
                (None, Reads::Delayed) => steps.push(Step::Look(at)),
                (Some(_), _) | (None, Reads::Instant) => steps.push(Step::Deliver(at)),
            }
        }
        if world.order.is_some() {
            steps.push(Step::Deposed);
        } else if spent.deposes < bounds.deposes && world.store.document.leader.is_some() {
            steps.push(Step::Depose);
        }
        if world.halted {
            steps.push(Step::Resume);
        } else if spent.halts < bounds.halts {
            steps.push(Step::Halt);
        }
        actions.extend(steps.into_iter().map(Action));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.event = None;
        self.step(&mut next, action.0)?;
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Election>> {
        properties::all(&self.config)
    }
}

impl Election {
    fn agent_steps(&self, world: &World, agent: usize, steps: &mut Vec<Step>) {
        let (bounds, spent) = (&self.config.bounds, &world.spent);
        let mine = &world.agents[agent];
        let phase = mine.request.as_ref().map(|request| &request.phase);
        match phase {
            Some(Phase::Asked) => steps.push(Step::Serve(agent)),
            Some(Phase::Sent(..)) => steps.push(Step::Arrive(agent)),
            Some(Phase::Served(_) | Phase::Applied(_) | Phase::Conflict) | None => {}
        }
        steps.extend((0..mine.ghosts.len()).map(|ghost| Step::Late(agent, ghost)));
        if spent.restarts < bounds.restarts && (mine.lead.is_some() || mine.request.is_some()) {
            steps.push(Step::Restart(agent));
        }
        if mine.paused {
            steps.push(Step::Wake(agent));
            return;
        }
        match phase {
            None => steps.extend(self.requests(world, agent).into_iter().map(|kind| Step::Ask(agent, kind))),
            Some(Phase::Served(_)) => steps.push(Step::Conclude(agent)),
            Some(Phase::Applied(_) | Phase::Conflict) => steps.push(Step::Hear(agent)),
            Some(Phase::Asked | Phase::Sent(..)) => {}
        }
        if spent.timeouts < bounds.timeouts && matches!(phase, Some(Phase::Sent(..) | Phase::Applied(_))) {
            steps.push(Step::TimeOut(agent));
        }
        let asks_to_lead = mine.request.as_ref().is_some_and(|request| request.kind == RequestKind::Acquire);
        if spent.give_ups < bounds.give_ups && asks_to_lead {
            steps.push(Step::GiveUp(agent));
        }
        if world.believes(agent) {
            if spent.writes < bounds.writes {
                steps.push(Step::Write(agent));
            }
            if spent.pauses < bounds.pauses {
                steps.push(Step::Pause(agent));
            }
        }
    }

    /// Takes one step; none if it turns out to be impossible.
    fn step(&self, world: &mut World, step: Step) -> Option<()> {
        match step {
            Step::Tick => {
                world.now += 1;
                let (now, clocks) = (world.now, world.clocks);
                world.ledger.expire(now, &clocks, &self.config);
            }
            Step::Ask(agent, kind) => self.ask(world, agent, kind),
            Step::Serve(agent) => self.serve(world, agent),
            Step::Conclude(agent) => match phase(world, agent)? {
                Phase::Served(reading) => self.conclude(world, agent, &reading),
                Phase::Asked | Phase::Sent(..) | Phase::Applied(_) | Phase::Conflict => return None,
            },
            Step::Arrive(agent) => self.arrive(world, agent),
            Step::Hear(agent) => match phase(world, agent)? {
                Phase::Applied(heard) => self.hear(world, agent, heard),
                Phase::Conflict => self.retry(world, agent),
                Phase::Asked | Phase::Served(_) | Phase::Sent(..) => return None,
            },
            Step::TimeOut(agent) => self.time_out(world, agent),
            Step::GiveUp(agent) => self.give_up(world, agent),
            Step::Late(agent, ghost) => self.arrive_late(world, agent, ghost),
            Step::Write(agent) => {
                let token = world.agents[agent].lead.as_ref()?.token;
                world.send_write(token);
            }
            Step::Look(write) => self.look(world, write),
            Step::Deliver(write) => self.deliver(world, write)?,
            Step::Pause(agent) => {
                world.spent.pauses += 1;
                world.agents[agent].paused = true;
            }
            Step::Wake(agent) => self.wake(world, agent),
            Step::Restart(agent) => self.restart(world, agent),
            Step::Depose => self.order(world)?,
            Step::Deposed => {
                let swap = world.order.take()?;
                let _ = self.swap(world, &swap);
            }
            Step::Halt => {
                world.spent.halts += 1;
                world.halted = true;
            }
            Step::Resume => world.halted = false,
        }
        Some(())
    }
}

fn phase(world: &World, agent: usize) -> Option<Phase> {
    world.agents[agent].request.as_ref().map(|request| request.phase.clone())
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |agent: usize| if agent == 0 { "a" } else { "b" };
        match self.0 {
            Step::Tick => f.write_str("tick"),
            Step::Ask(agent, kind) => {
                write!(f, "{} asks to {}", name(agent), format!("{kind:?}").to_lowercase())
            }
            Step::Serve(agent) => write!(f, "{}'s read is served", name(agent)),
            Step::Conclude(agent) => write!(f, "{} receives its reading and decides", name(agent)),
            Step::Arrive(agent) => write!(f, "{}'s swap arrives", name(agent)),
            Step::Hear(agent) => write!(f, "{} hears the answer", name(agent)),
            Step::TimeOut(agent) => write!(f, "{} times out and tries again", name(agent)),
            Step::GiveUp(agent) => write!(f, "{} gives up on its request", name(agent)),
            Step::Late(agent, _) => write!(f, "{}'s abandoned swap arrives", name(agent)),
            Step::Write(agent) => write!(f, "{} checks and sends a write", name(agent)),
            Step::Look(write) => write!(f, "the guard looks at the election for write {write}"),
            Step::Deliver(write) => write!(f, "the fence decides on write {write}"),
            Step::Pause(agent) => write!(f, "{} is paused", name(agent)),
            Step::Wake(agent) => write!(f, "{} wakes and writes", name(agent)),
            Step::Restart(agent) => write!(f, "{} restarts", name(agent)),
            Step::Depose => f.write_str("the operator orders to depose"),
            Step::Deposed => f.write_str("the order arrives"),
            Step::Halt => f.write_str("the operator pauses everything"),
            Step::Resume => f.write_str("the operator resumes everything"),
        }
    }
}
