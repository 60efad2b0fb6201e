//! What Baton offers to a program: [`Elections`], the interface that every way to reach elections
//! implements, and the types that travel over HTTP between a Baton server and its clients.
//!
//! A server and a client share each of these types, so that a field has one name and one meaning.
//! Assumes nothing of the transport. Guarantees that a value is read as it was written. Does not
//! check permissions and does no IO: the server and the client do that.

pub mod alerts;
pub mod batch;
pub mod command;
pub mod describe;
pub mod elections;
pub mod endpoints;
pub mod fences;
mod memory;
mod patience;
pub mod problem;
pub mod records;
pub mod served;
pub mod server;
pub mod sessions;
pub mod sign_ins;
pub mod summary;
pub mod toolbox;
pub mod uses;
pub mod waiting;

pub use elections::{CommandError, Elections};
pub use memory::{Memory, SharedMemory, TimedTrace, epoch_went_back};
pub use patience::{Backoff, Pace, Patience, jitter, retried};

/// The header of every request and every response: the newest format that its sender knows.
pub const FORMAT_HEADER: &str = "baton-format";
