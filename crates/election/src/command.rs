//! What may be asked of an election, and what is answered.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::document::{Cause, Document, Phase, Reference};
use crate::id::{ContentHash, Credential, Epoch, Incarnation, KeyHash, StoreId, TokenId};
use crate::manifest::Coverage;
use crate::name::{AgentName, ElectionName};
use crate::operator::PublicKey;
use crate::policy::Limits;
use crate::refusal::Refusal;
use crate::region::Proof;
use crate::removal_rules::OpenBreaker;
use crate::time::{Span, WallTime, as_optional_millis};

/// The largest state that a checkpoint carries in the document.
pub const MAX_CHECKPOINT_BYTES: usize = 64 * 1024;
/// How deeply that state may be nested: readers have limits, and the document nests it further.
pub const MAX_CHECKPOINT_DEPTH: usize = 64;
/// The longest free text: a task, a reason, a summary.
pub const MAX_TEXT_BYTES: usize = 1_024;
/// The longest contact.
pub const MAX_CONTACT_BYTES: usize = 256;
/// The most capabilities that an agent may claim.
pub const MAX_CAPABILITIES: usize = 64;

/// The table of commands. `commands!(rows)` calls the macro `rows!` with all rows: what the command does, its name, its field in a
/// batch, its variant and its type. `CONTRIBUTING.md` says how to add one.
#[macro_export]
macro_rules! commands {
    ($rows:ident) => {
        $rows! {
            /// Become the leader.
            "acquire" acquire Acquire($crate::command::Acquire),
            /// Stay the leader.
            "renew" renew Renew($crate::command::Renew),
            /// Stop being the leader; the work has stopped.
            "release" release Release($crate::command::Release),
            /// Release, and keep the election for a successor.
            "pass" pass Pass($crate::command::Pass),
            /// Leave something for the successor.
            "checkpoint" checkpoint Checkpoint($crate::command::WriteCheckpoint),
            /// Take on what the predecessor left.
            "acknowledge" acknowledge Acknowledge($crate::command::Acknowledge),
            /// Say that the leader is not useful.
            "report" report Report($crate::command::Report),
            /// An operator's signed act.
            "operate" operate Operate($crate::operator::SignedAct),
        }
    };
}

macro_rules! command {
    ($($(#[$about:meta])* $name:literal $field:ident $variant:ident($body:ty),)*) => {
        /// A command. It is written as its body: its name stands in the path of a request, or before it in a batch.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(untagged)]
        pub enum Command {
            $($(#[$about])* $variant($body),)*
        }

        impl Command {
            /// The names of all commands.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Its name in the path of a request, in a batch and in metrics.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Command::$variant(_) => $name,)*
                }
            }
        }
    };
}

commands!(command);

impl Command {
    /// Whether its sender may be granted a lease by it.
    pub const fn grants(&self) -> bool {
        match self {
            Command::Acquire(_) => true,
            Command::Renew(_)
            | Command::Release(_)
            | Command::Pass(_)
            | Command::Checkpoint(_)
            | Command::Acknowledge(_)
            | Command::Report(_)
            | Command::Operate(_) => false,
        }
    }

    /// The region that it shows, if it shows one.
    pub const fn region(&self) -> Option<&Proof> {
        match self {
            Command::Acquire(acquire) => acquire.region.as_ref(),
            Command::Renew(renew) => renew.region.as_ref(),
            Command::Release(_)
            | Command::Pass(_)
            | Command::Checkpoint(_)
            | Command::Acknowledge(_)
            | Command::Report(_)
            | Command::Operate(_) => None,
        }
    }

    /// The same with this proof in the place of the region that it shows. A command that shows no region stays as it is.
    #[must_use]
    pub fn with_region(&self, proof: Proof) -> Command {
        let mut command = self.clone();
        let shown = match &mut command {
            Command::Acquire(acquire) => acquire.region.as_mut(),
            Command::Renew(renew) => renew.region.as_mut(),
            Command::Release(_)
            | Command::Pass(_)
            | Command::Checkpoint(_)
            | Command::Acknowledge(_)
            | Command::Report(_)
            | Command::Operate(_) => None,
        };
        if let Some(shown) = shown {
            *shown = proof;
        }
        command
    }

    /// The proof that its sender holds the lease, if it shows one.
    pub const fn credential(&self) -> Option<&Credential> {
        match self {
            Command::Renew(renew) => Some(&renew.credential),
            Command::Release(release) => Some(&release.credential),
            Command::Pass(pass) => Some(&pass.credential),
            Command::Checkpoint(write) => Some(&write.credential),
            Command::Acknowledge(acknowledge) => Some(&acknowledge.credential),
            Command::Report(report) => report.credential.as_ref(),
            Command::Acquire(_) | Command::Operate(_) => None,
        }
    }
}

/// Become the leader. Repeated by the same incarnation, it is answered as the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// Who.
    pub agent: AgentName,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The hash of a fresh lease key.
    pub key_hash: KeyHash,
    /// How long the lease shall last; without it, as long as the policy says.
    #[serde(rename = "ttl_ms", default, with = "as_optional_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub ttl: Option<Span>,
    /// What will be coordinated, in words; without it, what stands there stays.
    #[serde(default)]
    pub task: Option<String>,
    /// What the agent can do.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "alloc::vec::Vec<crate::schema::Capability>", length(max = MAX_CAPABILITIES)))]
    pub capabilities: BTreeSet<String>,
    /// Limits of its own, beside the policy's.
    #[serde(default, deserialize_with = "crate::wire::object")]
    pub limits: Limits,
    /// Why the policy chose it, for the transition's entry.
    #[serde(default)]
    pub reason: Option<String>,
    /// How long ago it noticed that the election is free.
    #[serde(rename = "noticed_ms", default, with = "as_optional_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub noticed: Option<Span>,
    /// How long it has waited in line already: whoever asks anew goes before those who came later.
    #[serde(
        rename = "waited_ms",
        default,
        skip_serializing_if = "Option::is_none",
        with = "as_optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub waited: Option<Span>,
    /// It asked long ago: it must claim the grant with a renewal before it leads.
    #[serde(skip)]
    pub offer: bool,
    /// Where it is reached while it leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Contact>"))]
    pub contact: Option<String>,
    /// That it leads a region of this election: it leads this one only while it leads that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Proof>,
    /// What fails of all that it depends on, by its own word.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "alloc::vec::Vec<crate::schema::Capability>", length(max = MAX_CAPABILITIES)))]
    pub failing: BTreeSet<String>,
    /// The highest epoch of the election that its client knew of when it first asked. Where the election has gone on since, this may be a
    /// duplicate that was under way for long, and nobody may be there to hear of a lease: it is granted as an offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Epoch>,
    /// Its circuit breakers that are open, as who commits the decision has seen them; nobody else can say it. None if nobody looked.
    #[serde(skip)]
    pub open: Option<Vec<OpenBreaker>>,
    /// The access token that its sender showed to the server which decides; nobody else can say it.
    #[serde(skip)]
    pub through: Option<TokenId>,
}

impl Acquire {
    /// A plain one, on the policy's terms.
    pub fn new(agent: AgentName, incarnation: Incarnation, key_hash: KeyHash) -> Acquire {
        Acquire {
            agent,
            incarnation,
            key_hash,
            ttl: None,
            task: None,
            capabilities: BTreeSet::new(),
            limits: Limits::default(),
            reason: None,
            noticed: None,
            waited: None,
            offer: false,
            contact: None,
            region: None,
            failing: BTreeSet::new(),
            seen: None,
            open: None,
            through: None,
        }
    }

    /// Whether the election has gone on since this was first asked for.
    pub fn is_late(&self, epoch: Epoch) -> bool {
        self.seen.is_some_and(|seen| seen < epoch)
    }
}

/// Refuses a contact that is none: it is put into headers and onto screens.
pub fn check_contact(contact: &str) -> Result<(), Refusal> {
    if contact.is_empty()
        || contact.len() > MAX_CONTACT_BYTES
        || !contact.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(Refusal::invalid(
            format!("a contact is 1 to {MAX_CONTACT_BYTES} visible ASCII characters without spaces"),
            "write where the leader is reached, such as http://host:8080",
        ));
    }
    Ok(())
}

/// Stay the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The token that it holds.
    #[serde(rename = "token")]
    pub epoch: Epoch,
    /// The proof that it is the holder.
    pub credential: Credential,
    /// There was progress since the last renewal.
    #[serde(default)]
    pub progress: bool,
    /// Model tokens used since the grant, all in all.
    #[serde(default)]
    pub spent_tokens: Option<u64>,
    /// How far it is, if that changed.
    #[serde(default)]
    pub phase: Option<Phase>,
    /// From the grant until it began to work, once known.
    #[serde(rename = "promotion_ms", default, with = "as_optional_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub promotion: Option<Span>,
    /// That it still leads the region from which it leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Proof>,
}

impl Renew {
    /// A plain one, which tells nothing of the work.
    pub fn new(epoch: Epoch, credential: Credential) -> Renew {
        Renew {
            epoch,
            credential,
            progress: false,
            spent_tokens: None,
            phase: None,
            promotion: None,
            region: None,
        }
    }
}

/// Stop being the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The token that it held.
    #[serde(rename = "token")]
    pub epoch: Epoch,
    /// The proof that it is the holder.
    pub credential: Credential,
    /// Why, in words.
    #[serde(default)]
    pub reason: Option<String>,
    /// How the work ended.
    #[serde(default)]
    pub ending: Ending,
}

/// How the work of a leader ended that gives its lease back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// It stopped; somebody else may go on with it.
    #[default]
    Stopped,
    /// It is done. Nobody need lead from here on, though anybody may.
    Finished,
    /// The leader itself is gone; whoever ended its work gives the lease back in its place.
    Orphaned,
}

/// Pass the leadership on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// The token that it held.
    #[serde(rename = "token")]
    pub epoch: Epoch,
    /// The proof that it is the holder.
    pub credential: Credential,
    /// The successor.
    pub to: AgentName,
    /// Why, in words.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Leave something for the successor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WriteCheckpoint {
    /// The token that it holds.
    #[serde(rename = "token")]
    pub epoch: Epoch,
    /// The proof that it is the holder.
    pub credential: Credential,
    /// The number of the checkpoint: one above the last. Repeated, it is answered as the first time.
    pub seq: u64,
    /// One line for people.
    pub summary: String,
    /// The state, as JSON text.
    #[serde(with = "crate::raw_json")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::AnyJson"))]
    pub state: String,
    /// Where a larger state lies.
    #[serde(default)]
    pub reference: Option<Reference>,
    /// What it covers beside itself. A manifest in it counts to the bytes of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<Coverage>,
}

/// Take on what the predecessor left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Acknowledge {
    /// The token that it holds.
    #[serde(rename = "token")]
    pub epoch: Epoch,
    /// The proof that it is the holder.
    pub credential: Credential,
    /// The hash of the checkpoint that it read.
    pub hash: ContentHash,
}

/// What a watcher found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The leader's output failed validation.
    Validation,
    /// The leader's output passed validation. It ends nothing.
    Sound,
    /// Something failed that the leader depends on.
    Dependency,
    /// The leader used up what it was given.
    Budget,
    /// The leader makes no progress.
    Stall,
    /// A circuit breaker of the leader is open. Who commits the decision looks whether it is so.
    Breaker,
}

impl Finding {
    /// The cause under which it ends a leadership, if it can.
    pub fn cause(self) -> Option<Cause> {
        match self {
            Finding::Sound => None,
            Finding::Validation => Some(Cause::Validation),
            Finding::Dependency => Some(Cause::Dependency),
            Finding::Budget => Some(Cause::Budget),
            Finding::Stall => Some(Cause::Stall),
            Finding::Breaker => Some(Cause::Breaker),
        }
    }

    /// Whether it is a verdict on the leader's output, and whether a bad one.
    pub fn verdict(self) -> Option<bool> {
        match self {
            Finding::Validation => Some(true),
            Finding::Sound => Some(false),
            Finding::Dependency | Finding::Budget | Finding::Stall | Finding::Breaker => None,
        }
    }
}

/// A watcher's word that the leader is not useful.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The token of the leadership that it speaks of.
    #[serde(rename = "token")]
    pub epoch: Epoch,
    /// What it found.
    pub finding: Finding,
    /// In words.
    pub detail: String,
    /// Who says so.
    pub by: AgentName,
    /// The proof, if it is the leader itself.
    #[serde(default)]
    pub credential: Option<Credential>,
    /// Of a verdict, where the policy counts them: its number, one above those that this judge gave. Repeated, it is answered as the first
    /// time; without a number it may count twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Of a verdict: the number of the checkpoint that was judged. A judge that was started anew and judges it again gives no second verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    /// The circuit breakers of the leader that are open, as who commits the decision has seen them; nobody else can say it.
    #[serde(skip)]
    pub open: Option<Vec<OpenBreaker>>,
}

/// What is known from outside the document when a command is decided.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// The election that was asked for.
    pub election: &'a ElectionName,
    /// The store that was asked.
    pub store: StoreId,
    /// A lower bound on the time since the document's last beat.
    pub age: Span,
    /// The wall clock, for people.
    pub wall: WallTime,
    /// An epoch that the next one must be above, beside the document's own: the store's own rising counter or reservation,
    /// or what this client has seen.
    pub floor: Epoch,
    /// If the record has vanished although this client saw it held: how long that lease may still last.
    pub vanished_lease: Span,
    /// The operators' keys of the store, for a new document.
    pub operator_keys: &'a [PublicKey],
}

/// What shall be written and answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    /// The document to swap in; none if the answer stands without a write.
    pub next: Option<Document>,
    /// The answer, valid once `next` is committed.
    pub answer: Answer,
    /// How durable `next` must be before it is answered; [`Persistence::Volatile`] if there is none.
    pub persistence: Persistence,
}

impl Decision {
    /// An answer that stands without a write.
    pub(crate) fn unchanged(answer: Answer) -> Decision {
        Decision { next: None, answer, persistence: Persistence::Volatile }
    }

    /// A change, and how durable it must be.
    pub(crate) fn change(next: Document, answer: Answer, persistence: Persistence) -> Decision {
        Decision { next: Some(next), answer, persistence }
    }
}

/// How durable a change must be before it is answered: what a crash may take back. Of two changes that are written together, the
/// greater one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Persistence {
    /// A crash of the process may lose it. A server may keep it in memory: it is a renewal that nothing counts, and a restarted
    /// server gives every lease its full length.
    Volatile,
    /// A crash of the process must not lose it, a power cut may. It begins or ends a leadership, or counts: a machine that starts
    /// again ends all leases of its own store, and a lost epoch is never given twice.
    Synced,
    /// Not even a power cut may lose it: the first version of a record, an operator's act or signature, a checkpoint, a question
    /// to an operator.
    Durable,
}

/// The answer to a command that was not refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Answer {
    /// It leads.
    Granted {
        /// Its token.
        #[serde(rename = "token")]
        epoch: Epoch,
        /// How long the lease lasts after each renewal.
        ttl: Span,
        /// How the former leadership ended.
        cause: Cause,
        /// It leads only after a renewal.
        offer: bool,
        /// It had been granted before; nothing was written.
        repeated: bool,
    },
    /// It goes on to hold the lease.
    Renewed {
        /// Its token; higher than the one shown after an approval.
        #[serde(rename = "token")]
        epoch: Epoch,
        /// Its token is refused until an operator approves.
        awaiting_approval: bool,
        /// An operator should approve soon.
        approval_wanted: bool,
    },
    /// The renewal itself ended the leadership: a limit was reached.
    Ended {
        /// Which.
        cause: Cause,
        /// In words.
        reason: String,
    },
    /// It no longer leads.
    Released {
        /// The agent that may take it first.
        reserved_for: Option<AgentName>,
    },
    /// The checkpoint stands.
    Checkpointed {
        /// Its number.
        seq: u64,
        /// Its hash.
        hash: ContentHash,
        /// Its writer's token is refused until an operator approves.
        awaiting_approval: bool,
    },
    /// The successor has taken on what was left.
    Acknowledged {
        /// The number of the checkpoint.
        seq: u64,
    },
    /// An operator signed an act that takes several: it is not carried out yet.
    Signed {
        /// The election's epoch.
        #[serde(rename = "token")]
        epoch: Epoch,
        /// How many have signed it.
        have: u64,
        /// How many must.
        need: u64,
    },
    /// An operator's act or a watcher's report was carried out.
    Done {
        /// The election's epoch after it.
        #[serde(rename = "token")]
        epoch: Epoch,
        /// Whose leadership it ended, if any.
        ended: Option<AgentName>,
        /// The longest that the ended leader's lease can still last.
        waits: Span,
    },
}

impl Answer {
    /// Whether it tells of a lease whose age its client does not know: an earlier request began it, or it is an offer.
    ///
    /// The client then renews before it leads, and counts its deadline from before that renewal was sent.
    pub fn is_unconfirmed(&self) -> bool {
        matches!(self, Answer::Granted { repeated, offer, .. } if *repeated || *offer)
    }
}
