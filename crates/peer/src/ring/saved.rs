//! What a member keeps.

/// The term and the list of members.
pub use crate::told::Kept as Saved;
