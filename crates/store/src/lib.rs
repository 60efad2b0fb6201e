//! Where elections live: compare-and-swap, a way to tell how old a lease is, and a way to wait for a change.
//!
//! [`Store`] is all that Baton asks of a folder, a repository, a database. Its `conformance` suite states what an
//! implementation must do, and every one passes it whole. [`MemoryStore`] is here; the others are crates of
//! their own with the same files.

pub mod boot;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod disk;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;

mod key;
mod local;
mod memory;
mod network;
mod polled;
mod record;
#[cfg(feature = "conformance")]
pub mod rehearsal;
#[cfg(not(feature = "conformance"))]
mod spoken;
mod store;
mod url;
pub mod waiting;

pub use baton_election::Persistence;
pub use baton_toolbox as toolbox;
pub use baton_toolbox::Kind as ItemKind;
pub use error::{Claim, StoreError};
pub use key::{Key, Prefix};
pub use local::{Access, nearest_existing, refuse_network};
pub use memory::MemoryStore;
pub use network::network_failure;
pub use polled::{jittered, polled};
pub use record::{NotARecord, Record};
#[cfg(feature = "conformance")]
use rehearsal as spoken;
pub use spoken::format;
pub use store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Reading, Store,
    StoreProperties, Swapped, Trace, Version, Watching,
};
pub use url::{StoreUrl, UrlError};
