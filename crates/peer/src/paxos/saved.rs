//! What an acceptor must not forget.

use serde::{Deserialize, Serialize};

use crate::memory_recovery::Founding;
use crate::pending_members::AdmittedMembers;
use crate::{Group, Term};

/// What was accepted: in an instance, under a ballot, a value.
///
/// The value is the token of the leadership whose lease the instance grants: the ballot under which it began. It is lower than the ballot
/// where a new leader completes an instance of its predecessor, and where a leader has raised its ballot since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vote {
    /// Instances are counted from 1; each renewal of a lease is the next one.
    pub instance: u64,
    /// Under which it was accepted.
    pub ballot: Term,
    /// Whose lease it is.
    pub value: Term,
}

impl Vote {
    /// Which of two votes says more about the past: that of the later instance, then that of the higher ballot.
    pub(super) const fn rank(&self) -> (u64, Term) {
        (self.instance, self.ballot)
    }
}

/// What must survive a crash, kept before anything is said that follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// Nothing lower is promised or accepted.
    pub promised: Term,
    /// The last vote. Of earlier instances nothing needs to be kept: a leader begins one only when the one before is chosen.
    pub vote: Option<Vote>,
    /// The members.
    pub group: Group,
    /// How the member came to take part.
    pub founding: Founding,
    /// Whom it has taken in as the leader.
    pub admitted: AdmittedMembers,
}
