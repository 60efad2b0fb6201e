//! The store against the real server, where it is more than compare-and-swap.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod fence;
mod fence_log;
mod push;
mod races;
mod renewals;
mod shape;
