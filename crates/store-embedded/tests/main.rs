//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod files;
mod group;
mod kill;
mod restore;
mod support;
mod versions;
