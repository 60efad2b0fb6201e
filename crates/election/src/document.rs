//! The document of an election: the one small thing that is compared and swapped.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::audit::Entry;
use crate::id::{ContentHash, Epoch, Incarnation, KeyHash, StoreId, TokenId};
use crate::lease;
use crate::manifest::Coverage;
use crate::name::{AgentName, ElectionName};
use crate::operator::{LastAct, PublicKey};
use crate::policy::{ApprovalMode, Limits, Policy};
use crate::quorum::Gathering;
use crate::region::Region;
use crate::removal_rules::Verdicts;
use crate::select::Vote;
use crate::time::{Span, WallTime, as_millis, as_optional_millis};

/// The form of the document that this Baton writes. A document of a higher format is refused.
pub const FORMAT: u32 = 1;

/// What an election is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nobody leads; a candidate may.
    Vacant,
    /// The document names a leader, who leads while its lease lasts.
    Held,
    /// A person must approve before anybody's token is accepted again.
    AwaitingApproval,
    /// An operator stopped the election.
    Paused,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Vacant => "vacant",
            State::Held => "held",
            State::AwaitingApproval => "awaiting-approval",
            State::Paused => "paused",
        })
    }
}

/// How far a leader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It leads but has not yet acknowledged what its predecessor left.
    Synchronising,
    /// It leads and works.
    Serving,
    /// It is stopping its work and will release.
    Draining,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Synchronising => "synchronising",
            Phase::Serving => "serving",
            Phase::Draining => "draining",
        })
    }
}

/// Why a leadership ended, which is also why the next one began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// There was none before.
    First,
    /// The leader released it.
    Release,
    /// The leader released it, and its work was done.
    Finished,
    /// The leader passed it to a successor that it named.
    Pass,
    /// The leader is gone: its lease ran out, or the warden gave it back.
    Failover,
    /// An operator deposed the leader.
    Depose,
    /// An operator appointed another.
    Appoint,
    /// An operator paused the election.
    Pause,
    /// A budget was used up.
    Budget,
    /// There was no progress for too long.
    Stall,
    /// The leader's output failed validation.
    Validation,
    /// Something failed that the leader depends on.
    Dependency,
    /// A circuit breaker of the leader opened.
    Breaker,
    /// An operator approved (the same leader goes on in a new epoch) or rejected.
    Approval,
    /// The leader lost the region from which it led.
    Region,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Cause::First => "first",
            Cause::Release => "release",
            Cause::Finished => "finished",
            Cause::Pass => "pass",
            Cause::Failover => "failover",
            Cause::Depose => "depose",
            Cause::Appoint => "appoint",
            Cause::Pause => "pause",
            Cause::Budget => "budget",
            Cause::Stall => "stall",
            Cause::Validation => "validation",
            Cause::Dependency => "dependency",
            Cause::Breaker => "breaker",
            Cause::Approval => "approval",
            Cause::Region => "region",
        })
    }
}

/// The holder of the lease, its terms, and what of them is used up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Leader {
    /// The agent's name.
    pub agent: AgentName,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The hash of its lease key.
    pub key_hash: KeyHash,
    /// The epoch of its token. Above `granted` after an approval started a new epoch under it.
    pub epoch: Epoch,
    /// The epoch that it was granted.
    pub granted: Epoch,
    /// How long the lease lasts after the last renewal. Candidates judge by it, never by the policy's.
    #[serde(rename = "ttl_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub ttl: Span,
    /// Renewals since the grant.
    pub renewals: u64,
    /// An offer: it leads after one renewal, sent since it heard of the grant.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub offered: bool,
    /// How far it is.
    pub phase: Phase,
    /// Where it is reached, if it said so: most often a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Contact>"))]
    pub contact: Option<Arc<str>>,
    /// The region from which it leads, if it leads from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Arc<Region>>,
    /// The access token through which it was granted, at a server that asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<TokenId>,
    /// What it may use up.
    #[serde(default)]
    pub limits: Limits,
    /// Time as the leader, summed up at renewals; a lower bound.
    #[serde(rename = "held_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub held: Span,
    /// Time without progress, summed up at renewals; a lower bound.
    #[serde(rename = "idle_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub idle: Span,
    /// Model tokens that it says it has used.
    pub spent_tokens: u64,
    /// What was said of its output.
    #[serde(default, skip_serializing_if = "Verdicts::is_empty")]
    pub verdicts: Verdicts,
    /// When it was granted, for people.
    pub acquired: WallTime,
    /// When the lease would end, for people.
    pub expires: WallTime,
}

impl Leader {
    /// How long others must wait after its last sign of life.
    pub fn lease(&self) -> Span {
        if self.offered { lease::offer(self.ttl) } else { self.ttl }
    }
}

/// The agent that may take a vacant election first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reservation {
    /// The agent that it is kept for.
    pub agent: AgentName,
    /// For how long after the vacancy began; without it, until it is taken.
    #[serde(rename = "lasts_ms", with = "as_optional_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub lasts: Option<Span>,
    /// An operator keeps it, so that the agent need not obey the policy's choice.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub by_operator: bool,
}

/// That an operator stopped the election.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pause {
    /// The operator.
    pub by: PublicKey,
    /// Why.
    pub reason: String,
    /// When, for people.
    pub at: WallTime,
    /// It is paused with everything else, and goes on with it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub halted: bool,
}

/// What the operator is asked to approve.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Question {
    /// That the leader goes on after this checkpoint.
    Checkpoint {
        /// The checkpoint's hash; an approval names it.
        hash: ContentHash,
    },
    /// That the leader goes on for another `approval_ttl`.
    MoreTime,
}

/// How approval stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Approval {
    /// Time led since the grant or the last approval, summed up at renewals.
    #[serde(rename = "used_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub used: Span,
    /// What an operator is asked, if anything.
    pub question: Option<Question>,
}

/// What the leader leaves for its successor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checkpoint {
    /// The epoch in which it was written.
    pub epoch: Epoch,
    /// Rises by one with every checkpoint of the election.
    pub seq: u64,
    /// Who wrote it.
    pub by: AgentName,
    /// When, for people.
    pub at: WallTime,
    /// One line for people.
    pub summary: String,
    /// The state itself, as JSON text, at most 64 KiB.
    #[serde(with = "crate::raw_json")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::AnyJson"))]
    pub state: String,
    /// Where a larger state lies, with its hash.
    pub reference: Option<Reference>,
    /// What it covers beside itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<Coverage>,
    /// The hash of summary, state, reference and what is covered.
    pub hash: ContentHash,
    /// The leader that read it and takes it on.
    pub acknowledged_by: Option<AgentName>,
}

/// Something that is too large for the document.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reference {
    /// Where it lies: a path, a URL, a commit.
    pub location: String,
    /// What it must hash to.
    pub sha256: ContentHash,
}

/// How a leadership ended, kept until the next one begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Departure {
    /// Why.
    pub cause: Cause,
    /// Whose leadership it was.
    pub agent: AgentName,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The epoch of its token.
    pub epoch: Epoch,
    /// In words.
    pub reason: String,
    /// When, for people.
    pub at: WallTime,
}

/// How long each phase of a transition took, as far as it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PhaseTimes {
    /// From the end of the former leadership until the successor noticed.
    #[serde(rename = "detection_ms", with = "as_optional_millis", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub detection: Option<Span>,
    /// From noticing until the grant.
    #[serde(rename = "election_ms", with = "as_optional_millis", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub election: Option<Span>,
    /// From the grant until the leader began to work.
    #[serde(rename = "promotion_ms", with = "as_optional_millis", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub promotion: Option<Span>,
    /// From the grant until the predecessor's checkpoint was acknowledged.
    #[serde(
        rename = "synchronisation_ms",
        with = "as_optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub synchronisation: Option<Span>,
    /// From the grant until the followers had acknowledged it. Without a server nobody can tell.
    #[serde(
        rename = "notification_ms",
        with = "as_optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub notification: Option<Span>,
}

/// A change of leader. Every one has exactly one of these, known by its epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transition {
    /// The epoch that began.
    pub epoch: Epoch,
    /// Why the former leadership ended.
    pub cause: Cause,
    /// Whose it was.
    pub from: Option<AgentName>,
    /// The leader.
    pub to: AgentName,
    /// Why this one was chosen, and what was said about the end of the former.
    pub reason: String,
    /// When, for people.
    pub at: WallTime,
    /// How long it took.
    #[serde(default)]
    pub phases: PhaseTimes,
}

/// An election.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(into = "crate::wire::WireDocument"))]
#[serde(try_from = "crate::wire::WireDocument")]
pub struct Document {
    /// The name of the election, so that a record found in the wrong place is noticed.
    pub election: ElectionName,
    /// The store that the document was made in.
    pub store: StoreId,
    /// The highest epoch given, to a leader or past one.
    pub epoch: Epoch,
    /// What the leader coordinates, in words.
    pub task: Option<Arc<str>>,
    /// What the election is doing.
    pub state: State,
    /// Counts what restarts the document's clock: grants, renewals, the beginning of a vacancy.
    pub beat: u64,
    /// The holder of the lease while the state is held or awaiting approval.
    pub leader: Option<Leader>,
    /// Whose leadership was ended from outside while its lease may still be running.
    pub outgoing: Option<Leader>,
    /// The rules.
    pub policy: Arc<Policy>,
    /// The agent that may take it first.
    pub reserved_for: Option<Reservation>,
    /// The agent that goes last in this vacancy, because its leadership ended for a fault.
    pub passed_over: Option<AgentName>,
    /// That an operator stopped it.
    pub paused: Option<Pause>,
    /// How approval stands.
    pub approval: Approval,
    /// The operators' public keys.
    pub operator_keys: Arc<Vec<PublicKey>>,
    /// How many operators' acts were accepted; each is signed for its number.
    pub acts: u64,
    /// The last of them.
    pub last_act: Option<Arc<LastAct>>,
    /// What some operators have signed, and more must sign.
    pub gathering: Option<Arc<Vec<Gathering>>>,
    /// Whom operators voted for since somebody last led.
    pub votes: Option<Arc<Vec<Vote>>>,
    /// What the leader left for its successor.
    pub checkpoint: Option<Arc<Checkpoint>>,
    /// How the last leadership ended, while there is no new one.
    pub departure: Option<Arc<Departure>>,
    /// The last change of leader.
    pub last_transition: Option<Arc<Transition>>,
    /// The access token through which the election was begun, at a server that asked for one: it counts for that token.
    pub created_by: Option<TokenId>,
    /// The epoch in which an operator last retired the election. Nothing from before it is shown.
    pub forgotten: Option<Epoch>,
    /// The epoch of the server that decides on this election, if servers do: nobody else changes it, and how old its lease is only
    /// they know.
    pub server: Option<Epoch>,
}

/// What a lease's clock is told by: as long as it stands still, so does the lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pulse {
    /// The holder of the lease, if there is one.
    pub holder: Option<Incarnation>,
    /// The epoch of that holder, or the document's.
    pub epoch: Epoch,
    /// The count of beats.
    pub beat: u64,
}

impl Document {
    /// A vacant document that nobody has led.
    pub fn new(
        election: ElectionName,
        store: StoreId,
        epoch: Epoch,
        operator_keys: &[PublicKey],
    ) -> Document {
        Document {
            election,
            store,
            epoch,
            task: None,
            state: State::Vacant,
            beat: 0,
            leader: None,
            outgoing: None,
            policy: Arc::default(),
            reserved_for: None,
            passed_over: None,
            paused: None,
            approval: Approval::default(),
            operator_keys: Arc::new(operator_keys.to_vec()),
            acts: 0,
            last_act: None,
            gathering: None,
            votes: None,
            checkpoint: None,
            departure: None,
            last_transition: None,
            created_by: None,
            forgotten: None,
            server: None,
        }
    }

    /// Whether an operator retired the election, and nobody has begun it anew. It then counts as if there were none; the document keeps
    /// only the numbers that must never be given again.
    pub fn is_retired(&self) -> bool {
        self.forgotten == Some(self.epoch)
    }

    /// The least that a retired election needs: the epoch, so that no token is given twice; the clock; the operators' acts, so that none is
    /// carried out twice; and the server that decides on it.
    pub(crate) fn emptied(&self, operator_keys: &[PublicKey]) -> Document {
        Document {
            beat: self.beat,
            acts: self.acts,
            last_act: self.last_act.clone(),
            forgotten: self.forgotten,
            server: self.server,
            ..Document::new(self.election.clone(), self.store, self.epoch, operator_keys)
        }
    }

    /// Whether a limit or an approval counts the time, the renewals or the tokens of the leader.
    pub(crate) fn is_counted(&self) -> bool {
        self.policy.approval != ApprovalMode::None
            || self.policy.limits != Limits::default()
            || self.leader.as_ref().is_some_and(|leader| leader.limits != Limits::default())
    }

    /// Whose lease may be running: the leader's, or that of one whose leadership was ended from outside.
    pub fn lease_holder(&self) -> Option<&Leader> {
        self.leader.as_ref().or(self.outgoing.as_ref())
    }

    /// The document after servers gave the election back: clients of the store decide on it again. A lease begins anew, since only the servers knew
    /// when it was last renewed. Its clock restarts with this write if the beat has changed.
    pub fn given_back(&self, wall: WallTime) -> Document {
        let mut next = Document { server: None, ..self.clone() };
        if next.lease_holder().is_some() {
            next.beat += 1;
        }
        if let Some(leader) = &mut next.leader {
            leader.expires = wall + leader.ttl;
        }
        next
    }

    /// What the lease's clock is told by.
    pub fn pulse(&self) -> Pulse {
        let holder = self.lease_holder();
        Pulse {
            holder: holder.map(|leader| leader.incarnation),
            epoch: holder.map_or(self.epoch, |leader| leader.granted),
            beat: self.beat,
        }
    }

    /// The change of leader that is no longer shown once `next` stands in this document's place.
    pub fn pushes_out(&self, next: &Document) -> Option<&Arc<Transition>> {
        let old = self.last_transition.as_ref()?;
        let new = next.last_transition.as_ref().map(|new| new.epoch);
        (new != Some(old.epoch)).then_some(old)
    }

    /// The act that is no longer shown once `next` stands in this document's place.
    pub fn pushes_out_act(&self, next: &Document) -> Option<&Entry> {
        let old = self.last_act.as_ref()?.entry.as_ref()?;
        let new = next.last_act.as_ref().and_then(|last| last.entry.as_ref());
        (new.map(|new| new.hash) != Some(old.hash)).then_some(old)
    }

    /// How much longer the running lease may last, given the age of the last beat; zero without a lease.
    pub fn lease_remaining(&self, age: Span) -> Span {
        self.lease_holder().map_or(Span::ZERO, |leader| leader.lease().minus(age))
    }

    /// How long the election has surely been free to take, given the age of the last beat.
    pub fn vacancy(&self, age: Span) -> Span {
        self.lease_holder().map_or(age, |leader| age.minus(leader.lease()))
    }

    /// For how long of a vacancy others go first, before whoever was ended for a fault.
    pub fn others_first(&self) -> Span {
        let ended = self.departure.as_ref().map(|departure| departure.cause);
        match (&self.policy.performance, ended) {
            (Some(performance), Some(Cause::Validation)) => self.policy.ttl.max(performance.cool_off),
            (_, _) => self.policy.ttl,
        }
    }

    /// Whether the leader goes on by an approval that ends after the policy's `approval_ttl`: one of time, or of a checkpoint.
    pub(crate) fn approval_runs_out(&self) -> bool {
        let approved = self.leader.as_ref().is_some_and(|leader| leader.epoch > leader.granted);
        self.state == State::Held
            && match self.policy.approval {
                ApprovalMode::None => false,
                ApprovalMode::Checkpoints => approved,
                ApprovalMode::Time => true,
            }
    }

    /// How long after the last beat the first limit by time is reached: of the leadership, of progress, of an approval. A renewal
    /// then shows it.
    pub fn limit_in(&self) -> Option<Span> {
        let leader = self.leader.as_ref()?;
        let approval = self.approval_runs_out();
        let limits = [
            leader.limits.time.map(|limit| limit.minus(leader.held)),
            leader.limits.stall.map(|limit| limit.minus(leader.idle)),
            approval.then(|| self.policy.approval_ttl.minus(self.approval.used)),
        ];
        limits.into_iter().flatten().min()
    }

    /// The leader whose token is accepted, given the age of the last beat.
    pub fn current_leader(&self, age: Span) -> Option<&Leader> {
        let leader = self.leader.as_ref()?;
        (self.state == State::Held && !leader.offered && age < leader.lease()).then_some(leader)
    }
}
