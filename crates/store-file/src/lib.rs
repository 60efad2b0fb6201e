//! Elections in a folder of this machine, for agents that share it. No server, no lock.
//!
//! Assumes one machine and a local file system whose `link(2)` is atomic. A commit is the link of a synced temporary file to
//! `versions/N+1`: if that name exists, somebody else was first. The highest number is the truth. Guarantees what
//! every store does, stamped by the boot-time clock, and that a stopped or dead process blocks nobody; a reboot frees all
//! leases. Does not guarantee anything against whoever can write the folder: who wipes it makes a new store, with a
//! new id, which fences refuse. Records of another machine are refused, and so is every file system that is not known to be local.

mod chores;
mod fault;
mod machine;
mod mark;
mod open;
mod shape;
mod spare;
mod store;
mod version;
mod waiting;
mod watch;

pub use machine::Machine;
pub use store::FileStore;
