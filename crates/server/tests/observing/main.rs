//! What a server tells of itself: metrics, alerts and traces, each caused for real.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

mod alerts;
#[allow(dead_code, reason = "the tests of security use the rest")]
#[path = "../security/client.rs"]
mod client;
mod metrics;
mod place;
mod traces;
