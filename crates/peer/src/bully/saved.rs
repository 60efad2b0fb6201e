//! What a member keeps.

/// The term and the list of members.
pub use crate::rank_election::RankSaved as Saved;
