//! The tests of this crate, in one program: it is linked once.

mod e2e_soak;
mod library;
mod properties;
mod support;
