//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod conformance;
mod faults;
mod support;
mod versions;
