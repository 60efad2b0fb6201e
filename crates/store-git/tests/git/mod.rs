//! The store against the real git, where it is more than compare-and-swap.

#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod divergence;
mod log;
mod races;
mod refusals;
mod surroundings;
