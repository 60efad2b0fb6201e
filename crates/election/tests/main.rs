//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cast;
mod findings;
mod interpreter;
mod late;
mod orders;
mod play;
mod properties;
mod regions;
mod scenarios;
