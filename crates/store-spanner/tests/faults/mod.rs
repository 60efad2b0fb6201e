//! What goes wrong, and what is said about it.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod foreign;
mod missing;
mod process;
mod wire;
