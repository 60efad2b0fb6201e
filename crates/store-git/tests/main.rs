//! The tests of this crate, in one program: it is linked once.

mod conformance;
mod git;
mod support;
mod versions;
