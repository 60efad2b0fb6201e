//! The heart of Baton: an election is one small document, and every change to it is a pure decision.
//!
//! Nothing here reads a clock, opens a socket, prints, or rolls dice: time, randomness and the wall clock come in as
//! values. [`decide()`] takes a [`Document`], a [`Command`] and the [`Evidence`] that goes with it, and returns what
//! shall be swapped in, or why not. [`Tenure`] is the holder's view of its lease, [`Observer`] the measure of a
//! lease's age where the store does not stamp, [`fence`] the check where the work is done.
#![no_std]

extern crate alloc;

pub mod audit;
pub mod bindings;
pub mod candidate;
pub mod command;
mod decide;
pub mod delegation;
pub mod document;
pub mod fence;
pub mod handover;
pub mod hex;
pub mod id;
pub mod lease;
pub mod log;
pub mod manifest;
pub mod name;
mod observe;
pub mod operator;
pub mod order;
mod plain_lease;
pub mod policy;
pub mod quorum;
mod raw_json;
mod refusal;
pub mod region;
pub mod removal_rules;
#[cfg(feature = "schema")]
mod schema;
pub mod select;
mod store_info;
pub mod store_order;
pub mod store_quorum;
mod tenure;
mod text;
pub mod time;
pub mod tokens;
mod wire;

pub use candidate::Candidate;
pub use command::{Answer, Command, Decision, Evidence, Persistence};
pub use decide::{checkpoint_hash, decide};
pub use document::{Document, State};
pub use fence::Fence;
pub use id::{
    ContentHash, ContentHasher, Credential, Epoch, Incarnation, KeyHash, LeaseKey, StoreId, TokenId,
};
pub use lease::Margins;
pub use name::{AgentName, ElectionName, InvalidName, ItemName, ResourceName};
pub use observe::Observer;
pub use plain_lease::PlainLease;
pub use policy::Policy;
pub use refusal::{OLDER_INSTRUCTION, Refusal};
pub use store_info::StoreInfo;
pub use tenure::{Tenure, TenureState};
pub use time::{Moment, Span, WallTime};
pub use tokens::Tokens;
pub use wire::{object, objects};
