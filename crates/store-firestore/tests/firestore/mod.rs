//! The store against the emulator, where it is more than compare-and-swap.

#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod deletion;
mod faults;
mod pace;
mod shape;
mod watching;
