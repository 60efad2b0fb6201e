//! The agents, their leaders and the store, event by event. What is known of an agent is sixteen bytes, in one array.

mod asking;

use baton_peer::Random;

use crate::scale::elections::{Elections, Member, Reply};
use crate::scale::tally::Tally;
use crate::scale::wheel::{Wheel, short};
use crate::scale::{Error, LEASE, Load, Outcome, Setup, Shape};

const SECOND: u64 = 1_000_000;
/// An agent reports after this and up to a second more (G6).
const REPORT_EVERY: u64 = 5 * SECOND;
/// Three reports without an answer (G6).
const SILENCE: u64 = 15 * SECOND;
/// What would wait longer than this is refused.
const QUEUE: u64 = SECOND;
/// Candidates bid within this after a lease has ended, so that not all do at once.
const SPREAD: u64 = SECOND;
/// A refused request is tried again after a random time up to this, which doubles (G20) …
const BACKOFF_FIRST: u64 = SECOND;
/// … up to this.
const BACKOFF_LONGEST: u64 = 30 * SECOND;
/// A refused renewal is tried again after a random time up to this.
const RENEW_AGAIN: u64 = SECOND;
/// From when on the peace is measured.
const SETTLED: u64 = 30 * SECOND;
/// When the leader dies, or up to a renewal later.
const DEATH: u64 = 60 * SECOND;
/// How long after a leader's death the news is waited for.
const PATIENCE: u64 = 120 * SECOND;

/// What a member asks of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Look,
    Bid,
    Renew,
}

/// What happens.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// It is time for a member's report.
    Report(Member),
    /// A report of the first reaches the second.
    Reported(Member, Member),
    /// A leader's answer reaches a member: the token of their election, and the fleet's.
    Heard { member: Member, token: u32, fleet: u32 },
    /// A member turns to the store.
    Turn(Member, Ask),
    /// A request reaches the store; when it was first asked.
    Asked { member: Member, ask: Ask, since: u32 },
    /// The store's answer reaches a member; it lies in the post.
    Answered(u32),
    /// The fleet's leader dies.
    Death,
}

const _: () = assert!(size_of::<(u32, Event)>() <= 20, "a million events shall be small");

/// An answer of the store on its way.
#[derive(Debug, Clone, Copy)]
struct Answer {
    member: Member,
    ask: Ask,
    since: u32,
    reply: Reply,
}

/// What a member knows.
#[derive(Debug, Clone, Copy, Default)]
struct Knowledge {
    /// The leader of its election.
    leader: Member,
    /// Under which token.
    token: u32,
    /// When it was last heard of, in microseconds.
    heard_at: u32,
    /// How often the store was asked in vain.
    tries: u8,
    /// It is waiting for the store, or for the end of a lease.
    asking: bool,
}

/// A simulated fleet.
pub(super) struct World {
    setup: Setup,
    agents: u32,
    regions: u32,
    random: Random,
    wheel: Wheel<Event>,
    elections: Elections,
    tally: Tally,
    /// Members are the agents and, behind them, each region's seat in the fleet.
    members: Vec<Knowledge>,
    /// Answers of the store on their way, and the places that are free there.
    post: Vec<Answer>,
    post_free: Vec<u32>,
    /// The fleet's token, as each agent knows it.
    fleet: Vec<u32>,
    /// Until when each process has something to do.
    busy_until: Vec<u64>,
    store_busy_until: u64,
    dead: Option<u32>,
    died_at: u64,
    grants: u32,
    events: u64,
    news: LeaderNotice,
}

/// How the word of a new leader spreads.
#[derive(Default)]
struct LeaderNotice {
    token: u32,
    led_at: Option<u64>,
    know: u32,
    most_at: Option<u64>,
    all_at: Option<u64>,
}

impl World {
    pub(super) fn new(setup: Setup) -> Result<World, Error> {
        let (agents, regions) = match setup.shape {
            Shape::Flat => (setup.agents, 0),
            Shape::Regional { size } => (setup.agents, setup.agents.div_ceil(size)),
        };
        let members = usize::try_from(agents + regions).map_err(|_| Error::Agents(agents))?;
        let processes = usize::try_from(agents).map_err(|_| Error::Agents(agents))?;
        let mut world = World {
            setup,
            agents,
            regions,
            random: Random::seeded(setup.seed),
            wheel: Wheel::new(),
            elections: Elections::new(1 + regions, LEASE)?,
            tally: Tally::new(agents),
            members: vec![Knowledge::default(); members],
            post: Vec::new(),
            post_free: Vec::new(),
            fleet: vec![0; processes],
            busy_until: vec![0; processes],
            store_busy_until: 0,
            dead: None,
            died_at: 0,
            grants: 0,
            events: 0,
            news: LeaderNotice::default(),
        };
        world.found()?;
        Ok(world)
    }

    /// Everybody knows its leader when it begins.
    fn found(&mut self) -> Result<(), Error> {
        for scope in (0..=self.regions).rev() {
            let first = self.first_of(scope);
            // So that not all leases are renewed in the same moment.
            let at = self.random.below(10 * SECOND);
            let Reply::Granted { .. } = self.elections.acquire(scope, first, at, at)? else {
                return Err(Error::Inconsistent);
            };
            self.wheel.plan(at + 10 * SECOND, Event::Turn(first, Ask::Renew));
        }
        for member in 0..self.agents + self.regions {
            let leader = self.first_of(self.scope(member));
            *self.of(member) = Knowledge { leader, token: 1, ..Knowledge::default() };
            let at = self.random.below(REPORT_EVERY + SECOND);
            self.wheel.plan(at, Event::Report(member));
        }
        self.fleet.fill(1);
        let death = DEATH + self.random.below(10 * SECOND);
        self.wheel.plan(death, Event::Death);
        Ok(())
    }

    pub(super) fn run(mut self) -> Result<Outcome, Error> {
        let mut batch = Vec::new();
        while self.wheel.take(&mut batch) {
            for (at, event) in batch.drain(..) {
                let at = u64::from(at);
                self.events += 1;
                self.happen(at, event)?;
                // A fleet that overload leaves without a leader for so long has none that could die.
                let begun = if self.dead.is_some() { self.died_at } else { DEATH + 10 * SECOND };
                if self.news.all_at.is_some() || at > begun + PATIENCE {
                    return Ok(self.outcome(at));
                }
            }
        }
        Err(Error::Inconsistent)
    }

    fn outcome(self, now: u64) -> Outcome {
        let since = |at: Option<u64>| at.map(|at| seconds(at - self.died_at));
        let worst =
            if self.dead.is_some() { self.tally.worst(self.died_at, now + SECOND) } else { Load::default() };
        Outcome {
            setup: self.setup,
            elections: 1 + self.regions,
            steady: self.tally.average(SETTLED, DEATH),
            worst,
            lost_in_peace: self.grants,
            failover_s: since(self.news.led_at),
            most_know_s: since(self.news.most_at),
            all_know_s: since(self.news.all_at),
            events: self.events,
        }
    }

    fn happen(&mut self, now: u64, event: Event) -> Result<(), Error> {
        match event {
            Event::Report(member) => self.report(now, member),
            Event::Reported(from, to) => self.reported(now, from, to),
            Event::Heard { member, token, fleet } => self.heard(now, member, token, fleet),
            Event::Turn(member, ask) => self.turn(now, member, ask),
            Event::Asked { member, ask, since } => return self.asked(now, member, ask, since),
            Event::Answered(place) => self.answered(now, place),
            Event::Death => self.death(now),
        }
        Ok(())
    }

    fn place(&self, member: Member) -> usize {
        usize::try_from(member).unwrap_or(0)
    }

    fn of(&mut self, member: Member) -> &mut Knowledge {
        let place = self.place(member);
        &mut self.members[place]
    }

    /// Which election a member takes part in: 0 is the fleet's.
    fn scope(&self, member: Member) -> u32 {
        match self.setup.shape {
            Shape::Flat => 0,
            Shape::Regional { .. } if member >= self.agents => 0,
            Shape::Regional { size } => 1 + member / size,
        }
    }

    /// The leader of an election when the election begins.
    fn first_of(&self, scope: u32) -> Member {
        match self.setup.shape {
            Shape::Flat => 0,
            Shape::Regional { .. } if scope == 0 => self.agents,
            Shape::Regional { size } => (scope - 1) * size,
        }
    }

    /// The process that a member is, if it is one that lives: a region's seat is its leader's.
    fn process(&mut self, now: u64, member: Member) -> Option<u32> {
        let process = if member < self.agents {
            member
        } else {
            self.elections.holder(1 + member - self.agents, now)?.member
        };
        (self.dead != Some(process)).then_some(process)
    }

    /// Whether a member leads its election; a seat only while its region's lease lasts too.
    fn leads(&mut self, now: u64, member: Member) -> bool {
        let scope = self.scope(member);
        self.process(now, member).is_some()
            && self.elections.holder(scope, now).is_some_and(|hold| hold.member == member)
    }

    fn travel(&mut self) -> u64 {
        self.random.between(5_000, 15_000)
    }

    fn report(&mut self, now: u64, member: Member) {
        let next = now + REPORT_EVERY + self.random.below(SECOND);
        self.wheel.plan(next, Event::Report(member));
        let known = *self.of(member);
        if known.asking || self.process(now, member).is_none() || self.leads(now, member) {
            return;
        }
        if now.saturating_sub(u64::from(known.heard_at)) > SILENCE {
            self.turn(now, member, Ask::Look);
            return;
        }
        self.send_report(now, member);
    }

    fn send_report(&mut self, now: u64, member: Member) {
        self.tally.message(now);
        let (travel, leader) = (self.travel(), self.of(member).leader);
        self.wheel.plan(now + travel, Event::Reported(member, leader));
    }

    fn reported(&mut self, now: u64, from: Member, to: Member) {
        let Some(process) = self.process(now, to) else { return };
        self.tally.received(now, process);
        let place = self.place(process);
        let done = self.busy_until[place].max(now) + SECOND / u64::from(self.setup.process_capacity);
        if done > now + QUEUE {
            self.tally.lost(now);
            return;
        }
        self.busy_until[place] = done;
        if !self.leads(now, to) {
            return;
        }
        let token = self.of(to).token;
        let fleet = if to < self.agents && self.regions > 0 { self.fleet[place] } else { token };
        self.tally.message(now);
        let travel = self.travel();
        self.wheel.plan(done + travel, Event::Heard { member: from, token, fleet });
    }

    fn heard(&mut self, now: u64, member: Member, token: u32, fleet: u32) {
        let Some(process) = self.process(now, member) else { return };
        let known = self.of(member);
        if token >= known.token {
            (known.token, known.heard_at) = (token, short(now));
        }
        self.learn(now, process, fleet);
    }

    /// A process learns of the fleet's token.
    fn learn(&mut self, now: u64, process: u32, fleet: u32) {
        let place = self.place(process);
        if fleet <= self.fleet[place] {
            return;
        }
        let knew = self.fleet[place] >= self.news.token;
        self.fleet[place] = fleet;
        if self.dead.is_none() || knew || fleet < self.news.token {
            return;
        }
        let news = &mut self.news;
        news.know += 1;
        let living = self.agents - 1;
        if news.most_at.is_none() && u64::from(news.know) * 100 >= u64::from(living) * 99 {
            news.most_at = Some(now);
        }
        if news.know == living {
            news.all_at = Some(now);
        }
    }

    fn death(&mut self, now: u64) {
        let holder = self.elections.holder(0, now).map(|hold| hold.member);
        let process = holder.and_then(|member| self.process(now, member));
        match process {
            Some(process) => {
                (self.dead, self.died_at) = (Some(process), now);
                // Nothing that anybody knows is news before somebody leads anew.
                self.news.token = u32::MAX;
            }
            // Overload may leave the fleet without a leader for a while.
            None => self.wheel.plan(now + SECOND, Event::Death),
        }
    }
}

fn seconds(microseconds: u64) -> f64 {
    std::time::Duration::from_micros(microseconds).as_secs_f64()
}
