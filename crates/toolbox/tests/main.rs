//! The tests of this crate, in one program: it is linked once.

mod board;
mod play;
