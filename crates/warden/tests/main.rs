//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod command;
mod failing;
mod handle;
mod outliving;
mod stopping;
mod support;
mod unkillable;
mod validating;
