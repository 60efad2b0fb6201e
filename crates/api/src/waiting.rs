//! The agents that wait to lead an election, for people to see.

pub use baton_store::waiting::{MOST_SHOWN, WaitingCandidate};
