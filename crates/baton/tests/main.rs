//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod e2e_soak;
mod library;
mod properties;
mod support;
