//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod git;
mod support;
mod versions;
