//! Fleets of a thousand to a million agents under one leader, or under regional leaders and one of these for all.
//!
//! Simulated event by event, with the shipped decisions of the lease. Every agent reports to its leader every 5 to 6 s and is
//! answered; who is not answered for 15 s looks into the store, waits until the lease has ended, and bids. A leader renews
//! a lease of 30 s every 10 s. *Flat*: all agents have one leader. *Regional*: each region of about a thousand has one, and
//! the regions' leaders report to the fleet's leader, which is one of them; its word travels with their answers.
//!
//! Assumes a network that delays by 5 to 15 ms and loses nothing, a store and processes that do so many things a second and
//! refuse what would wait longer than a second. Guarantees that the same seed gives the same numbers, and that no two
//! leaders are ever granted one election, or the run fails. Does **not** model the work itself, losses, or several stores:
//! what is shown is what leadership alone costs.

mod elections;
mod report;
mod tally;
mod wheel;
mod world;

use baton_election::time::Span;

pub use report::{page, table};

/// The lease of every election.
pub const LEASE: Span = Span::secs(30);
/// The most agents that can be simulated.
pub const MAX_AGENTS: u32 = 2_000_000;

/// Which leader leads which agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One leader for all.
    Flat,
    /// A leader for each region, and one of these for all.
    Regional {
        /// How many agents a region has.
        size: u32,
    },
}

impl Shape {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Flat => "flat",
            Shape::Regional { .. } => "regional",
        }
    }
}

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// How many agents.
    pub agents: u32,
    /// Which leader leads which agents.
    pub shape: Shape,
    /// How many operations a second the store does.
    pub store_capacity: u32,
    /// How many messages a second a process takes.
    pub process_capacity: u32,
    /// Of all chance.
    pub seed: u64,
}

impl Setup {
    /// A fleet on a store and processes of usual strength.
    pub fn new(agents: u32, shape: Shape, seed: u64) -> Setup {
        Setup { agents, shape, store_capacity: 20_000, process_capacity: 50_000, seed }
    }
}

/// What was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What was simulated.
    pub setup: Setup,
    /// How many elections there are.
    pub elections: u32,
    /// While nothing fails.
    pub steady: Load,
    /// In the busiest second after the leader died.
    pub worst: Load,
    /// How often the fleet's leadership was lost while nothing failed.
    pub lost_in_peace: u32,
    /// From the leader's death until another leads; none if nobody did within two minutes.
    pub failover_s: Option<f64>,
    /// From the leader's death until 99 of 100 agents had heard of another.
    pub most_know_s: Option<f64>,
    /// From the leader's death until all had.
    pub all_know_s: Option<f64>,
    /// How many events were carried out.
    pub events: u64,
}

/// What there is to do, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Messages of all kinds, those to and from the store too.
    pub messages: f64,
    /// What the store did.
    pub store_operations: f64,
    /// What the store refused, since it had too much to do.
    pub store_refusals: f64,
    /// What the store was asked, refused or not.
    pub store_asked: f64,
    /// What the busiest process received.
    pub busiest_process: f64,
    /// Reports that no leader took, since it had too much to do.
    pub reports_lost: f64,
}

/// Why there is no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// Fewer than ten, or more than [`MAX_AGENTS`].
    Agents(u32),
    /// A region of fewer than two, or one that is the whole fleet.
    Region(u32),
    /// A store or a process that does nothing.
    Capacity,
    /// Two leaders were granted one election: a bug.
    TwoLeaders,
    /// The simulation contradicts itself: a bug.
    Inconsistent,
}

impl Error {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Error::Agents(_) => "such as: --agents 1000,1000000",
            Error::Region(_) => "such as: --region 1000",
            Error::Capacity => "such as: --store-capacity 20000 --process-capacity 50000",
            Error::TwoLeaders | Error::Inconsistent => "please report it with the command line",
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Agents(agents) => write!(f, "a fleet of {agents}; it has 10 to {MAX_AGENTS} agents"),
            Error::Region(size) => {
                write!(f, "regions of {size}; they have at least 2 agents, and fewer than the fleet")
            }
            Error::Capacity => f.write_str("the store and the processes must do at least one thing a second"),
            Error::TwoLeaders => f.write_str("two leaders were granted one election"),
            Error::Inconsistent => f.write_str("the simulation contradicts itself"),
        }
    }
}

impl std::error::Error for Error {}

/// Simulates a fleet: half a minute of peace, then the death of the fleet's leader.
pub fn run(setup: Setup) -> Result<Outcome, Error> {
    if !(10..=MAX_AGENTS).contains(&setup.agents) {
        return Err(Error::Agents(setup.agents));
    }
    if let Shape::Regional { size } = setup.shape
        && (size < 2 || size >= setup.agents)
    {
        return Err(Error::Region(size));
    }
    if setup.store_capacity == 0 || setup.process_capacity == 0 {
        return Err(Error::Capacity);
    }
    world::World::new(setup)?.run()
}
