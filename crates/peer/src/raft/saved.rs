//! What must survive a crash (§5: *persistent state on all servers*).

use serde::{Deserialize, Serialize};

use crate::memory_recovery::Founding;
use crate::pending_members::AdmittedMembers;
use crate::{Group, NodeId, Term};

/// What a member keeps: written before anything is said that depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The paper's `currentTerm`.
    pub term: Term,
    /// The paper's `votedFor`.
    pub vote: Vote,
    /// The newest list of members.
    pub group: Group,
    /// How the group was founded, for members that have forgotten.
    pub founding: Founding,
    /// Whom it has taken in as the leader.
    pub admitted: AdmittedMembers,
}

/// What became of the one vote of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Vote {
    /// Nobody has it.
    Free,
    /// It was given to this member.
    For(NodeId),
    /// It may have been given, but that was forgotten: nobody gets it.
    Barred,
}

impl Vote {
    /// Whether this candidate may have it.
    pub(super) fn is_open_to(self, candidate: NodeId) -> bool {
        match self {
            Vote::Free => true,
            Vote::For(other) => other == candidate,
            Vote::Barred => false,
        }
    }
}
