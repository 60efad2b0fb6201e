//! What goes wrong, and what is said about it.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

#[path = "../support/mod.rs"]
mod support;

mod foreign;
mod missing;
mod process;
mod wire;
