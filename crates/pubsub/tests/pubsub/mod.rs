//! Push against the emulator.

#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod faults;
mod push;
