//! Types that travel over HTTP between a Baton server and its clients.
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
pub mod problem;
pub mod records;
pub mod server;
pub mod sessions;
pub mod sign_ins;
pub mod toolbox;
pub mod uses;
pub mod waiting;
