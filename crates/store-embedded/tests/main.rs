//! The tests of this crate, in one program: it is linked once.

mod conformance;
mod files;
mod group;
mod kill;
mod restore;
mod support;
mod versions;
