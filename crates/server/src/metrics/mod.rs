//! What a server counts of itself, for Prometheus and for its own alerts.
//!
//! Assumes nothing. Guarantees that to count costs a plain renewal no lock and no allocation: it is counted under the lock that it has
//! anyway. Everything is bounded: no label names an agent, and of so many elections each has series of its own (`elections.rs`).
//! Does not guarantee that counts outlive the server, or its turn as the active one of several: they then begin at zero, which
//! Prometheus expects.

mod count;
mod elections;
mod recent;
mod show;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use baton_election::document::{Cause, Transition};
use baton_election::time::{Moment, Span};
use baton_election::{Command, ElectionName, Epoch, Refusal};
use baton_store::boot;

use crate::alerts::Thresholds;
use crate::traces::Tracer;
pub(crate) use count::{Counter, Gauge, Histogram, Present};
use elections::Change;
pub(crate) use elections::{Notes, QUIET};
pub(crate) use recent::Recent;
pub(crate) use show::{MetricsSnapshot, standby};
pub(crate) use text::FORMAT;

/// All causes of a change of leader.
const CAUSES: [Cause; 15] = [
    Cause::First,
    Cause::Release,
    Cause::Finished,
    Cause::Pass,
    Cause::Failover,
    Cause::Depose,
    Cause::Appoint,
    Cause::Pause,
    Cause::Budget,
    Cause::Stall,
    Cause::Validation,
    Cause::Dependency,
    Cause::Breaker,
    Cause::Approval,
    Cause::Region,
];

/// The phases of a change of leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Detection,
    Election,
    Promotion,
    Synchronisation,
    Notification,
}

impl Part {
    pub(crate) const ALL: [Part; 5] =
        [Part::Detection, Part::Election, Part::Promotion, Part::Synchronisation, Part::Notification];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Detection => "detection",
            Part::Election => "election",
            Part::Promotion => "promotion",
            Part::Synchronisation => "synchronisation",
            Part::Notification => "notification",
        }
    }
}

/// What a token was refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Renew,
    Release,
    Pass,
    Checkpoint,
    Acknowledge,
    Check,
    Fence,
    Toolbox,
    Other,
}

impl At {
    const ALL: [At; 9] = [
        At::Renew,
        At::Release,
        At::Pass,
        At::Checkpoint,
        At::Acknowledge,
        At::Check,
        At::Fence,
        At::Toolbox,
        At::Other,
    ];

    /// A command that has no name here is counted among the others.
    fn of(command: &Command) -> At {
        At::ALL.into_iter().find(|at| at.name() == command.name()).unwrap_or(At::Other)
    }

    fn name(self) -> &'static str {
        match self {
            At::Renew => "renew",
            At::Release => "release",
            At::Pass => "pass",
            At::Checkpoint => "checkpoint",
            At::Acknowledge => "acknowledge",
            At::Check => "check",
            At::Fence => "fence",
            At::Toolbox => "toolbox",
            At::Other => "other",
        }
    }
}

/// Why a candidate was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwanted {
    Held,
    NotEligible,
    Paused,
    AwaitingApproval,
    Other,
}

impl Unwanted {
    const ALL: [Unwanted; 5] = [
        Unwanted::Held,
        Unwanted::NotEligible,
        Unwanted::Paused,
        Unwanted::AwaitingApproval,
        Unwanted::Other,
    ];

    fn of(refusal: &Refusal) -> Unwanted {
        match refusal {
            Refusal::Held { .. } => Unwanted::Held,
            Refusal::NotEligible { .. } => Unwanted::NotEligible,
            Refusal::Paused { .. } => Unwanted::Paused,
            Refusal::AwaitingApproval { .. } => Unwanted::AwaitingApproval,
            Refusal::Stale { .. }
            | Refusal::WrongKey { .. }
            | Refusal::UnknownElection { .. }
            | Refusal::NoSuchItem { .. }
            | Refusal::OutOfTurn { .. }
            | Refusal::Exhausted { .. }
            | Refusal::Invalid { .. } => Unwanted::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unwanted::Held => "held",
            Unwanted::NotEligible => "not-eligible",
            Unwanted::Paused => "paused",
            Unwanted::AwaitingApproval => "awaiting-approval",
            Unwanted::Other => "other",
        }
    }
}

/// How leases are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewalRoute {
    Single,
    Batch,
    Heartbeat,
}

impl RenewalRoute {
    const ALL: [RenewalRoute; 3] = [RenewalRoute::Single, RenewalRoute::Batch, RenewalRoute::Heartbeat];

    fn name(self) -> &'static str {
        match self {
            RenewalRoute::Single => "single",
            RenewalRoute::Batch => "batch",
            RenewalRoute::Heartbeat => "heartbeat",
        }
    }
}

/// What changed about who leads, by one write.
#[derive(Default)]
pub(crate) struct LeaderChange {
    /// A leadership ended, after so long.
    pub(crate) ended: Option<Span>,
    /// Another began.
    pub(crate) transition: Option<Arc<Transition>>,
    /// Phases of the last change of leader that have ended.
    pub(crate) phases: Option<Ended>,
}

/// Phases of a change of leader that have ended.
pub(crate) struct Ended {
    /// Of which one.
    pub(crate) epoch: Epoch,
    pub(crate) parts: Vec<(Part, Span)>,
    /// How long all of it took so far.
    pub(crate) took: Span,
}

/// Everything that is counted.
pub(crate) struct Meters {
    transitions: [Counter; CAUSES.len()],
    leaderships: Histogram,
    phases: [Histogram; Part::ALL.len()],
    expected: Counter,
    acknowledged: Counter,
    unwanted: [Counter; Unwanted::ALL.len()],
    stale: [Counter; At::ALL.len()],
    /// Renewals that took more than memory; the others are counted by the shards.
    renewed: Counter,
    renewals_refused: Counter,
    renewals_failed: Counter,
    renewing: [Histogram; RenewalRoute::ALL.len()],
    leaderless: Counter,
    pub(crate) writes: Histogram,
    pub(crate) writes_failed: Counter,
    pub(crate) streams: Arc<Gauge>,
    pub(crate) webhooks_lost: Arc<Counter>,
    notes: Mutex<Notes>,
    tracer: OnceLock<Arc<Tracer>>,
}

impl Default for Meters {
    fn default() -> Meters {
        Meters {
            transitions: Default::default(),
            leaderships: Histogram::of(count::LEADERSHIPS),
            phases: Part::ALL.map(|_| Histogram::of(count::PHASES)),
            expected: Counter::default(),
            acknowledged: Counter::default(),
            unwanted: Default::default(),
            stale: Default::default(),
            renewed: Counter::default(),
            renewals_refused: Counter::default(),
            renewals_failed: Counter::default(),
            renewing: RenewalRoute::ALL.map(|_| Histogram::of(count::MOMENTS)),
            leaderless: Counter::default(),
            writes: Histogram::of(count::MOMENTS),
            writes_failed: Counter::default(),
            streams: Arc::default(),
            webhooks_lost: Arc::default(),
            notes: Mutex::new(Notes::new(&Thresholds::default())),
            tracer: OnceLock::new(),
        }
    }
}

impl Meters {
    /// What is remembered of single elections.
    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts over the windows of these.
    pub(crate) fn judge_by(&self, limits: &Thresholds) {
        self.notes().judge_by(limits);
    }

    /// From here on changes of leader are traced.
    pub(crate) fn trace_by(&self, tracer: &Arc<Tracer>) {
        let _ = self.tracer.set(Arc::clone(tracer));
    }

    /// A change is durable.
    pub(crate) fn changed(&self, election: &ElectionName, change: &LeaderChange, now: Moment) {
        if let Some(lasted) = change.ended {
            self.leaderships.observe(lasted);
        }
        if let Some(transition) = &change.transition {
            let place = CAUSES.iter().position(|cause| *cause == transition.cause).unwrap_or(0);
            self.transitions[place].one();
            let phases = &transition.phases;
            let took = phases.took().unwrap_or_default();
            for (part, span) in [(Part::Detection, phases.detection), (Part::Election, phases.election)] {
                if let Some(span) = span {
                    self.phases[part as usize].observe(span);
                }
            }
            self.notes().transition(election, now, took, Change::of(transition));
            if let Some(tracer) = self.tracer.get() {
                tracer.transition(election, transition);
            }
        }
        if let Some(Ended { epoch, parts, took }) = &change.phases {
            for (part, span) in parts {
                self.phase(election, *epoch, *part, *span);
            }
            self.notes().took(election, *took);
        }
    }

    /// A phase of a change of leader has ended, after the grant.
    pub(crate) fn phase(&self, election: &ElectionName, epoch: Epoch, part: Part, took: Span) {
        self.phases[part as usize].observe(took);
        if let Some(tracer) = self.tracer.get() {
            tracer.phase(election, epoch, part, took);
        }
    }

    /// A command was refused.
    pub(crate) fn refused(&self, election: &ElectionName, command: &Command, refusal: &Refusal) {
        if let Command::Acquire(_) = command {
            let why = Unwanted::of(refusal);
            self.unwanted[why as usize].one();
            if matches!(why, Unwanted::Held | Unwanted::NotEligible) {
                self.notes().refused(election, boot::now(), why == Unwanted::NotEligible);
            }
        }
        if let Refusal::Stale { .. } = refusal {
            self.stale(At::of(command));
        }
        if let Command::Renew(_) = command {
            self.renewals_refused.one();
        }
    }

    /// A token that is not the current one was refused.
    pub(crate) fn stale(&self, at: At) {
        self.stale[at as usize].one();
    }

    /// A lease was renewed by more than memory; or could not be, since the store failed.
    pub(crate) fn renewed(&self, done: bool) {
        if done { self.renewed.one() } else { self.renewals_failed.one() }
    }

    /// Leases were renewed this way, since this moment.
    pub(crate) fn renewing(&self, way: RenewalRoute, begun: std::time::Instant) {
        self.renewing[way as usize].since(begun);
    }

    /// So many should have acknowledged a change of leader, and so many did.
    pub(crate) fn participated(&self, acknowledged: u64, expected: u64) {
        self.acknowledged.add(acknowledged);
        self.expected.add(expected);
    }

    /// Nobody led these for so much longer, while somebody waited.
    pub(crate) fn leaderless<'a>(
        &self,
        elections: impl Iterator<Item = &'a ElectionName>,
        now: Moment,
        more: Span,
    ) {
        let mut notes = self.notes();
        for election in elections {
            self.leaderless.add(more.as_millis());
            notes.leaderless(election, now, more);
        }
    }
}
