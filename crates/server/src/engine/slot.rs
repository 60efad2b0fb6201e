//! What is known of one election.

use baton_election::Document;
use baton_election::time::Moment;
use baton_store::{Trace, Version};

/// An election as this engine knows it.
pub(super) enum Slot {
    /// There is none, and somebody is about to make it; what the store still knows of one that was there.
    Absent(Option<Trace>),
    /// As it stands: what is durable, and the renewals since.
    Known(Box<Known>),
    /// A change is on its way to the store; what was known before, if there was anything.
    Writing(Option<Box<Known>>),
    /// The store did not say what came of a change, the one of this number.
    Doubtful(u64),
}

/// An election as it stands.
pub(super) struct Known {
    pub(super) document: Document,
    /// Of what is durable.
    pub(super) version: Version,
    /// When its clock was last restarted.
    pub(super) stamp: Moment,
}

impl Slot {
    /// What may be shown to who only looks: what was durable last.
    pub(super) fn known(&self) -> Option<&Known> {
        match self {
            Slot::Known(known) | Slot::Writing(Some(known)) => Some(known),
            Slot::Absent(_) | Slot::Writing(None) | Slot::Doubtful(_) => None,
        }
    }
}
