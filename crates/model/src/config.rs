//! What a world is made of: the store, the clocks, the bounds, and what is broken on purpose.

use baton_election::{Margins, Span};

use crate::clock::Clocks;

/// How the age of a lease is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// By two stamps of the store's own clock.
    Stamped,
    /// By each agent's own clock, for as long as it has seen the lease stand still.
    Observed,
}

/// How often each thing happens in a run at most. Time is bounded by the horizon, everything else follows from these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// The last tick.
    pub horizon: u8,
    /// Renewals asked for.
    pub renewals: u8,
    /// Releases and passes asked for.
    pub leaves: u8,
    /// Attempts that are given up on, and repeated.
    pub timeouts: u8,
    /// Requests to lead that are given up on as a whole; the agent may ask again under the same name.
    pub give_ups: u8,
    /// Orders to pause the whole store, each until it is resumed.
    pub halts: u8,
    /// Guarded writes.
    pub writes: u8,
    /// Orders of the operator to depose.
    pub deposes: u8,
    /// Pauses of an agent that leads.
    pub pauses: u8,
    /// Restarts of an agent that forgets everything.
    pub restarts: u8,
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenRule {
    /// A client counts its deadline from its last attempt.
    DeadlineFromRetry,
    /// A client counts a grant that it finds from the request that found it.
    RepeatedFromAsking,
    /// A candidate judges by the policy's lease, not by the leader's.
    JudgeByPolicy,
    /// An observer counts from when it asked, not from the receipt.
    ObserveFromAsking,
    /// A client releases while its work goes on.
    ReleaseBeforeStopping,
    /// The store swaps without comparing.
    BlindSwap,
    /// The resource does not ask its fence.
    NoFence,
    /// The operator deposes by force.
    Force,
}

/// Whether time passes between reading and acting on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// None: the worst case for a holder, who counts from the asking.
    Instant,
    /// Any, even between the asking, the serving and the receipt.
    Delayed,
}

/// One bounded world.
#[derive(Clone, Debug)]
pub struct Config {
    /// What it is called in reports.
    pub name: &'static str,
    /// How ages are told.
    pub store: StoreKind,
    /// Whether an agent's reads take time.
    pub reads: Reads,
    /// Whether time passes between a guard's look at the election and the fence's decision.
    pub guards: Reads,
    /// The arithmetic under test.
    pub margins: Margins,
    /// The lease that the agents ask for.
    pub ttl: Span,
    /// The lease of the policy, which is also how long a deposed agent lets others go first.
    pub policy_ttl: Span,
    /// Every way in which the clocks may run.
    pub clocks: Vec<Clocks>,
    /// How long, and how often.
    pub bounds: Bounds,
    /// Agents ask for offers, as waiters do.
    pub offers: bool,
    /// What is broken, if anything.
    pub fault: Option<BrokenRule>,
}
