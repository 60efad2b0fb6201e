//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod faults;
mod manifests;
mod marks;
mod outage;
mod peers;
mod shape;
mod support;
