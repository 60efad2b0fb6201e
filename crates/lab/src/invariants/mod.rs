//! What must always be true, one file each. Every one sees every fact, and says at once if it is broken.

mod agreement;
mod guarded_writes;
mod liveness;
mod majority;
mod no_witness;
mod one_actor;
mod one_leader_per_term;
mod one_lease;
mod rising_tokens;
mod stays_lost;

use baton_election::Span;

/// A promise that was seen to break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its name.
    pub invariant: &'static str,
    /// When, in true time from the beginning.
    pub at: Span,
    /// What was seen.
    pub what: String,
}

/// Somebody's work, while it may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acting {
    pub(crate) place: u8,
    /// Under which term or epoch.
    pub(crate) term: u64,
    /// Which work it is; every one has a number of its own.
    pub(crate) number: u64,
    /// When its own clock tells it to stop, in true time.
    pub(crate) until: u64,
    /// Its process stands still, and its work with it. It may go on at any instant.
    pub(crate) still: bool,
}

/// What a leadership rests on, as the world saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backing {
    /// How many of the members, itself included, it has heard since that term began there.
    pub(crate) heard: usize,
    /// How many are a majority.
    pub(crate) majority: usize,
    /// Whether it is a member that may lead.
    pub(crate) may_lead: bool,
}

impl Backing {
    /// A store asks nobody.
    pub(crate) const BY_A_STORE: Backing = Backing { heard: 1, majority: 1, may_lead: true };
}

/// Something that happened, as far as a promise is about it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fact<'a> {
    /// A member begins to act.
    Leads {
        place: u8,
        /// Under which term or epoch.
        term: u64,
        /// On what.
        backing: Backing,
    },
    /// A machine says that a leadership is longer.
    Extended {
        place: u8,
        /// Under which term.
        term: u64,
        /// Whether its end had come on its own clock before it said so.
        ended: bool,
    },
    /// After an event: who acts.
    Instant(&'a [Acting]),
    /// The guarded resource took a write.
    Accepted {
        /// The token shown.
        token: u64,
        /// Whose work it was.
        writer: u64,
    },
    /// The store took a swap.
    Swapped {
        /// How much longer the lease that stood there surely runs, and whose it is.
        running: Option<(u64, Span)>,
        /// Whose lease stands there after it.
        holder: Option<u64>,
        /// The epoch before and after.
        epochs: (u64, u64),
    },
    /// All faults have ended.
    Healed {
        /// By when there must be a leader.
        by: u64,
    },
    /// The run is over.
    Over {
        /// How many think that somebody else leads than who acts, or that nobody does.
        astray: usize,
        /// How many there are.
        all: usize,
    },
}

/// One promise.
pub(crate) trait Invariant {
    /// What it is called.
    const NAME: &'static str;

    /// Takes in what happened; an error says how the promise was broken.
    fn see(&mut self, now: u64, fact: &Fact<'_>) -> Result<(), String>;
}

/// Which promises are demanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demands {
    /// That no two act at once, that tokens rise and are nobody else's. Bully and Ring do not promise it.
    pub(crate) safety: bool,
    /// That a leader appears after the healing, and that all agree on it.
    pub(crate) liveness: bool,
}

/// Every promise that is checked, each with what it has seen.
#[derive(Debug)]
pub(crate) struct Invariants {
    demands: Demands,
    one_leader_per_term: one_leader_per_term::OneLeaderPerTerm,
    one_actor: one_actor::OneActor,
    rising_tokens: rising_tokens::RisingTokens,
    majority: majority::Majority,
    no_witness: no_witness::NoWitness,
    guarded_writes: guarded_writes::GuardedWrites,
    one_lease: one_lease::OneLease,
    stays_lost: stays_lost::StaysLost,
    liveness: liveness::Liveness,
    agreement: agreement::Agreement,
}

impl Invariants {
    pub(crate) fn new(demands: Demands) -> Invariants {
        Invariants {
            demands,
            one_leader_per_term: Default::default(),
            one_actor: Default::default(),
            rising_tokens: Default::default(),
            majority: Default::default(),
            no_witness: Default::default(),
            guarded_writes: Default::default(),
            one_lease: Default::default(),
            stays_lost: Default::default(),
            liveness: Default::default(),
            agreement: Default::default(),
        }
    }

    /// Shows a fact to every promise that is demanded. The first that is broken is returned.
    pub(crate) fn see(&mut self, now: u64, fact: &Fact<'_>) -> Result<(), Broken> {
        ask(&mut self.no_witness, now, fact)?;
        if self.demands.safety {
            ask(&mut self.one_leader_per_term, now, fact)?;
            ask(&mut self.one_actor, now, fact)?;
            ask(&mut self.rising_tokens, now, fact)?;
            ask(&mut self.majority, now, fact)?;
            ask(&mut self.guarded_writes, now, fact)?;
            ask(&mut self.one_lease, now, fact)?;
            ask(&mut self.stays_lost, now, fact)?;
        }
        if self.demands.liveness {
            ask(&mut self.liveness, now, fact)?;
            ask(&mut self.agreement, now, fact)?;
        }
        Ok(())
    }
}

fn ask<I: Invariant>(invariant: &mut I, now: u64, fact: &Fact<'_>) -> Result<(), Broken> {
    invariant.see(now, fact).map_err(|what| Broken { invariant: I::NAME, at: Span::nanos(now), what })
}
