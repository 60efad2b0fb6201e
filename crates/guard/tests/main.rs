//! The tests of this crate, in one program: it is linked once.

mod proxy;
mod support;
mod tokens;
