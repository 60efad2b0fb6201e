//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod compare;
mod founding;
mod joining;
mod mutants;
mod pictures;
mod preferences;
mod scale;
mod seeds;
mod strikes;
mod tune_model;
mod world;
