//! How a store fails. Every variant says what the caller may assume.

use baton_election::{AgentName, Epoch};
use serde::Serialize;

use crate::store::Version;

/// A failure of a store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Not applied: something else is there than was expected. Read again.
    #[error("somebody else changed the record first")]
    Conflict,
    /// Not applied. The same may succeed later.
    #[error("{location} cannot be reached: {why}")]
    Unavailable {
        /// The store.
        location: String,
        /// What failed.
        why: String,
        /// What to do.
        hint: String,
    },
    /// May have been applied. Read again, assume nothing.
    #[error("{location} did not say whether the change was applied: {why}")]
    Unknown {
        /// The store.
        location: String,
        /// What failed.
        why: String,
    },
    /// Not applied, nothing was overwritten: what is there is not what a Baton wrote.
    #[error("{place} is not intact: {why}")]
    Corrupt {
        /// Where.
        place: String,
        /// What is wrong with it.
        why: String,
        /// What to do.
        hint: String,
    },
    /// Not applied, nothing was overwritten: what is there was written by a newer Baton, or a newer one answers.
    #[error("{place} needs a newer Baton (format {format}; this one reads up to {reads})")]
    Newer {
        /// Where.
        place: String,
        /// The format that it needs.
        format: u32,
        /// The newest format that this Baton knows.
        reads: u32,
    },
    /// Not applied, and the same will not succeed: this store cannot serve here.
    #[error("{place} is refused: {why}")]
    Refused {
        /// Where.
        place: String,
        /// Why.
        why: String,
        /// What to do.
        hint: String,
    },
    /// Nothing was asked: the name of the store, or a parameter in it, is none.
    #[error("{place} is refused: {why}")]
    Misnamed {
        /// The name, without secrets.
        place: String,
        /// What is wrong with it.
        why: String,
        /// What to do.
        hint: String,
    },
    /// Not applied: two histories claim the record. A person must say which one holds.
    #[error("{place} has two histories: {}", .claims.iter().map(Claim::to_string).collect::<Vec<_>>().join(" against "))]
    Diverged {
        /// Where.
        place: String,
        /// What each of them says; the one that is in force in the store first.
        claims: Vec<Claim>,
        /// What a swap that settles it expects.
        settles: Version,
    },
}

/// What one of two histories says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Its epoch.
    pub epoch: Epoch,
    /// The agent that leads by it.
    pub leader: Option<AgentName>,
    /// Where it stands.
    pub at: String,
    /// All of it, if it can be read: what an operator's word builds on.
    #[serde(skip)]
    pub record: Option<Box<crate::record::Record>>,
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let leader = self.leader.as_ref().map_or("nobody", AgentName::as_str);
        write!(f, "{leader} in epoch {} ({})", self.epoch, self.at)
    }
}

impl StoreError {
    /// The stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::Conflict => "conflict",
            StoreError::Unavailable { .. } => "unavailable",
            StoreError::Unknown { .. } => "unknown",
            StoreError::Corrupt { .. } => "corrupt",
            StoreError::Newer { .. } => "newer-format",
            StoreError::Refused { .. } => "refused",
            StoreError::Misnamed { .. } => "unknown-store",
            StoreError::Diverged { .. } => "diverged",
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            StoreError::Conflict => "try again".to_string(),
            StoreError::Unknown { .. } => "look with `baton status` before trying again".to_string(),
            StoreError::Unavailable { hint, .. }
            | StoreError::Corrupt { hint, .. }
            | StoreError::Refused { hint, .. }
            | StoreError::Misnamed { hint, .. } => hint.clone(),
            StoreError::Newer { format, .. } => {
                format!("update this Baton to a release that reads format {format}; nothing was changed")
            }
            StoreError::Diverged { .. } => {
                "an operator settles it with `baton appoint ELECTION AGENT`".to_string()
            }
        }
    }

    /// Whether the same request may succeed if it is simply sent again.
    pub fn is_passing(&self) -> bool {
        match self {
            StoreError::Conflict | StoreError::Unavailable { .. } | StoreError::Unknown { .. } => true,
            StoreError::Corrupt { .. }
            | StoreError::Newer { .. }
            | StoreError::Refused { .. }
            | StoreError::Misnamed { .. }
            | StoreError::Diverged { .. } => false,
        }
    }
}
