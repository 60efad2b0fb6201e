//! Rights over HTTP: every route by every role, tokens that expired, were forged, revoked or replayed,
//! limits, odd requests.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

mod approvals;
mod bodies;
pub(crate) mod client;
mod fences;
mod jwt;
mod limits;
mod matrix;
mod odd;
mod page;
mod setting;
mod socket;
mod tokens;
mod uses;
