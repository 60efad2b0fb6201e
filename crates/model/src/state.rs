//! What the world looks like at one instant.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use baton_election::{Document, Epoch, Fence, Observer, Span, Tenure};

use crate::clock::Clocks;
use crate::ledger::Ledger;

/// The world at one instant of true time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// True time, in ticks.
    pub(crate) now: u8,
    /// How fast the clocks run.
    pub(crate) clocks: Clocks,
    /// The store.
    pub(crate) store: StoreSide,
    /// The agents.
    pub(crate) agents: [Agent; 2],
    /// An operator's order that is under way to the store.
    pub(crate) order: Option<Swap>,
    /// Everything is paused: the store's own record says so, the election's does not.
    pub(crate) halted: bool,
    /// Guarded writes that are under way, in a fixed order.
    pub(crate) wire: Vec<Write>,
    /// The guarded resource.
    pub(crate) resource: Resource,
    /// Which leases are running, told apart from what the document says.
    pub(crate) ledger: Ledger,
    /// What of the run's bounds is used up.
    pub(crate) spent: SpentBounds,
    /// What the last step showed, if it is worth a word.
    pub(crate) event: Option<Event>,
}

/// The store: one record, its version, and when its clock was restarted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoreSide {
    pub(crate) document: HashedDocument,
    pub(crate) version: u8,
    /// The tick of the last swap that changed the beat.
    pub(crate) stamp: u8,
}

/// One agent, with all that it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Agent {
    /// Counts its incarnations.
    pub(crate) life: u8,
    /// The leadership that it was granted, even if that is lost.
    pub(crate) lead: Option<Lead>,
    /// What it has asked for.
    pub(crate) request: Option<Request>,
    /// Swaps of former attempts that may still arrive.
    pub(crate) ghosts: Vec<Swap>,
    /// It was refused while such a swap was under way.
    pub(crate) refused_since: bool,
    /// Its measure of age on a store that does not stamp.
    pub(crate) observer: Observer,
    /// It does nothing, and does not know it.
    pub(crate) paused: bool,
}

/// A leadership as its holder sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lead {
    pub(crate) tenure: Tenure,
    pub(crate) token: Epoch,
}

/// What an agent can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequestKind {
    Acquire,
    Renew,
    Release,
    Pass,
}

/// A request under way: a read, a decision, a swap; repeated until there is an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) kind: RequestKind,
    /// Before the first attempt.
    pub(crate) asked_at: u8,
    /// Before this attempt.
    pub(crate) tried_at: u8,
    pub(crate) phase: Phase,
}

/// How far an attempt is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// The read is under way to the store.
    Asked,
    /// Its reply is under way to the agent.
    Served(Reading),
    /// The swap is under way to the store.
    Sent(Swap, AgentAnswer),
    /// The swap was applied; the reply is under way to the agent.
    Applied(AgentAnswer),
    /// The swap found another version; the reply is under way to the agent.
    Conflict,
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reading {
    pub(crate) document: HashedDocument,
    pub(crate) version: u8,
    /// On a stamped store.
    pub(crate) age: Option<Span>,
}

/// A compare-and-swap under way to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Swap {
    pub(crate) expect: u8,
    pub(crate) next: HashedDocument,
    pub(crate) by: Sender,
}

/// Whose a swap is, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sender {
    Agent(usize, RequestKind),
    Operator,
}

/// An answer, as far as the agent acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AgentAnswer {
    Granted { token: Epoch, ttl: Span, unconfirmed: bool, repeated: bool },
    Renewed,
    Released,
}

/// A guarded write under way to the resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Write {
    pub(crate) token: Epoch,
    /// The election as the guard saw it, once it has looked, and the age of it.
    pub(crate) sight: Option<(HashedDocument, Span)>,
}

/// The resource: its fence, and the tokens of the writes that it took, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Resource {
    pub(crate) fence: Option<Fence>,
    pub(crate) written: Vec<Epoch>,
}

/// How often each bounded thing was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SpentBounds {
    pub(crate) renewals: u8,
    pub(crate) leaves: u8,
    pub(crate) timeouts: u8,
    pub(crate) give_ups: u8,
    pub(crate) halts: u8,
    pub(crate) writes: u8,
    pub(crate) deposes: u8,
    pub(crate) pauses: u8,
    pub(crate) restarts: u8,
}

/// What a step showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    /// A swap found another version.
    Conflict,
    /// A retry found what an earlier attempt had been granted.
    FoundOwnGrant,
    /// A renewal confirmed such a grant.
    Confirmed,
    /// A grant was applied whose asker had given up on it, and was refused since.
    GrantedAfterRefusal,
    /// A candidate was told to wait for the lease of a leadership that had been ended.
    WaitsForEnded,
    /// A write was refused since a later epoch had begun.
    StaleWriteRefused,
    /// A write was refused since its leadership had been ended, though nobody led yet.
    EndedWriteRefused,
    /// An agent woke after another had taken its place.
    WokeTooLate,
    /// A renewal was applied after its sender's deadline.
    RenewedLate,
    /// A deposed leader gave its lease back before the end.
    EndedReleased,
    /// A leadership that was lost came back.
    Revived,
    /// An epoch did not rise, or was given to a second incarnation.
    EpochBroken,
    /// A write was taken whose token was not that of the leader whom the guard saw.
    EndedWriteTaken,
}

/// A document that is hashed once, since it is part of many states.
#[derive(Clone)]
pub(crate) struct HashedDocument(Arc<(u64, Document)>);

impl HashedDocument {
    pub(crate) fn new(document: Document) -> HashedDocument {
        let mut hasher = DefaultHasher::new();
        document.hash(&mut hasher);
        HashedDocument(Arc::new((hasher.finish(), document)))
    }

    /// The order in which swaps are listed, so that equal worlds look equal.
    pub(crate) fn rank(&self) -> u64 {
        self.0.0
    }
}

impl Deref for HashedDocument {
    type Target = Document;
    fn deref(&self) -> &Document {
        &self.0.1
    }
}

impl Hash for HashedDocument {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.0);
    }
}

impl PartialEq for HashedDocument {
    fn eq(&self, other: &HashedDocument) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for HashedDocument {}

impl fmt::Debug for HashedDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (leader, outgoing) = (&self.leader, &self.outgoing);
        let name = |of: &Option<baton_election::document::Leader>| {
            of.as_ref().map_or("-".to_string(), |leader| format!("{}/{}", leader.agent, leader.incarnation))
        };
        write!(
            f,
            "{} epoch {} beat {} leader {} outgoing {}",
            self.state,
            self.epoch,
            self.beat,
            name(leader),
            name(outgoing)
        )
    }
}
