//! What a step of a machine asks of its shell.

use alloc::vec::Vec;

use baton_election::Moment;

use crate::{Group, NodeId, Term};

/// What shall be done, **in the order of the fields**: what is kept must be safe on disk before anything is sent or told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "what is not kept, sent and told did not happen"]
pub struct Effects<S, M> {
    /// Replaces what was kept before. If it cannot be kept, the shell must stop the machine and drop the rest.
    pub persist: Option<S>,
    /// Any of these may get lost, come late, twice, or in another order.
    pub send: Vec<Envelope<M>>,
    /// For whoever does the work.
    pub notify: Vec<Notice>,
}

impl<S, M> Effects<S, M> {
    /// Nothing to do.
    pub const fn none() -> Effects<S, M> {
        Effects { persist: None, send: Vec::new(), notify: Vec::new() }
    }
}

impl<S, M> Default for Effects<S, M> {
    fn default() -> Effects<S, M> {
        Effects::none()
    }
}

/// A message and whom it is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Envelope<M> {
    /// For whom.
    pub to: NodeId,
    /// The message, in the algorithm's own words.
    pub message: M,
}

/// What the shell tells whoever does the work.
///
/// A leadership is `Leads`, any number of `Extended`, at most one `Stop`, and one `Lost`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// This member leads: the work may start.
    Leads {
        /// The fencing token, where terms are tokens.
        term: Term,
        /// When the work must have stopped, on this member's clock; `None` where the algorithm has no lease.
        until: Option<Moment>,
    },
    /// The lease is longer.
    Extended {
        /// As in `Leads`.
        term: Term,
        /// The new end.
        until: Moment,
    },
    /// The work shall stop before the leadership is handed over; the shell answers [`crate::Input::Stopped`]. The lease goes on
    /// meanwhile.
    Stop {
        /// Of the leadership that ends.
        term: Term,
    },
    /// The leadership has ended; the work must not do anything more.
    Lost {
        /// Of the leadership that ended.
        term: Term,
        /// Why it ended.
        why: LossCause,
    },
    /// Another member leads, as far as is known here.
    Follows {
        /// The member that leads.
        leader: NodeId,
        /// In which term.
        term: Term,
    },
    /// Nobody is known to lead.
    Leaderless {
        /// The highest term seen.
        term: Term,
    },
    /// The list of members that counts here is this one.
    Members(Group),
    /// What was asked of the machine is not done, and why.
    Refused(&'static str),
}

/// Why a leadership ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// No majority was heard for the length of a lease.
    NoMajority,
    /// A higher term was seen.
    HigherTerm(Term),
    /// It was handed over, or given up.
    HandedOver,
    /// The member does not belong to the group any more, or may not lead any more.
    Removed,
    /// Another member of a higher rank leads (Bully, Ring).
    Outranked(NodeId),
}
