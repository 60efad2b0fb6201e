//! The tests of this crate, in one program: it is linked once.

mod daemon;
mod pilot;
mod shell;
mod support;
mod trouble;
