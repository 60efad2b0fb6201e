//! What a server tells of itself: metrics, alerts and traces, each caused for real.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

mod alerts;
mod metrics;
mod test_server;
mod traces;
