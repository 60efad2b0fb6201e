//! What the tests of the shell share.
#![allow(clippy::unwrap_used, reason = "a helper of tests")]

pub(crate) mod toy;
pub(crate) mod wires;
