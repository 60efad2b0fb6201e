//! The tests of this crate, in one program: it is linked once.

mod faults;
mod paxos;
mod promises;
mod raft;
mod textbook;
