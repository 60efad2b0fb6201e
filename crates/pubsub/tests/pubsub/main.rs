//! Push against the emulator.

#![allow(clippy::unwrap_used, reason = "this is all tests")]

#[path = "../support/mod.rs"]
mod support;

mod faults;
mod push;
