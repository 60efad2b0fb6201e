//! The only loop that decides: read → evidence → decide → log → swap, on the records of a [`baton_store::Store`].
//!
//! [`Executor`] implements [`baton_api::Elections`]. Assumes what the store assumes, and that clocks drift by less than 1 %.
//! Guarantees that what falls out of a document stands in the log beside it first, that a command whose outcome is unknown is read
//! and decided again, never given up as failed, and that a lease counts from before the first attempt of its request. Does not renew,
//! campaign or wait in line: a program does that through the crate `baton`, and a server in its own way.

mod audit;
mod audit_book;
pub mod breakers;
mod candidacies;
mod elections;
mod executor;
mod facts;
mod fences;
mod orders;
mod settle;
mod toolbox;

pub use audit_book::{AuditReader, known_tokens};
pub use executor::Executor;
pub use facts::Facts;
pub use toolbox::Toolbox;
