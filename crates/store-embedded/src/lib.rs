//! Elections in one file, for one process: the Baton server's own store.
//!
//! ```text
//! embedded:FILE
//! ```
//!
//! Assumes one process at a time, a local file system whose `fdatasync` means what it says, and that nobody else writes the
//! file. A second opener is refused at once. The file has a journal of fixed size and, behind it, a [redb](https://www.redb.org)
//! database; only its owner can read it.
//!
//! Guarantees what every store does, and that what was answered is on the disk: one thread applies all swaps that wait, each
//! against the state that the ones before it left, in one frame of the journal with one `fdatasync`, and then answers them; when
//! the journal is full, it goes into the database by one transaction. Readers see only what is on the disk. When a write fails,
//! its swaps are answered as not known, and nothing more is written until the
//! file was closed, read from the disk again, checked as a whole and written to. At every opening, too, the file is checked as a
//! whole before it is used: what is damaged is refused, not overwritten. A version never comes back, a transition stands in the
//! history by the same commit that brings it, and an epoch does not go back, not by a [`restore()`] either.
//!
//! **Stamps live in memory only.** The age of a record counts from the later of its last swap with
//! [`AgeStamp::Reset`](baton_store::AgeStamp::Reset) in this process and the moment at which this process opened the file, on the
//! boot-time clock. So a server that keeps renewals in memory need not write them, and every restart gives each held lease its
//! full length. A crash loop delays expiry; a command that is not a process never sees a lease run out here.
//!
//! Does not guarantee anything against whoever can write the file, nor that damage to the very last commit of a database that
//! was not closed is told from a commit that was never finished: it is rolled back. Whoever deletes the file makes a new store,
//! with a new id, which fences refuse. A process that is stopped keeps the file: the next opener is refused, at once. An older
//! copy is put back with [`restore()`] and with nothing else.

mod fault;
mod former;
mod fresh;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod history;
mod journal;
mod layout;
mod open;
mod peek;
mod pending;
mod reader;
mod restore;
mod shape;
mod stamps;
mod store;
mod watch;
mod writer;

#[cfg(test)]
mod fault_tests;

pub use former::FormerStore;
pub use restore::{Restore, Restored, restore};
pub use store::{EmbeddedStore, Write};
