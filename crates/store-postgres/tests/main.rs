//! The tests of this crate, in one program: it is linked once.

mod conformance;
mod faults;
mod postgres;
mod support;
