//! Elections without a store: the members of a group elect one of themselves by messages alone.
//!
//! Four machines stand behind one trait, [`Machine`]. Nothing here reads a clock, opens a socket, writes a file or rolls
//! dice: the moment and the message come in by [`Machine::step`], what shall be kept, sent and told comes out as
//! [`Effects`], and the seed of all randomness is in the [`Config`]. The shell that owns the machine carries the effects
//! out in the order of their fields, so that nothing is spoken that a crash could make untrue.
//!
//! | machine | its terms are fencing tokens | two leaders at once |
//! |---|---|---|
//! | `raft` | yes | never, while clocks drift less than [`Timing::margins`] says |
//! | `paxos` | yes | never, while clocks drift less than [`Timing::margins`] says |
//! | `bully` | **no** | whenever the network splits, or a message is late |
//! | `ring` | **no** | whenever the network splits, or a message is late |
//!
//! Not guaranteed by any of them: that there is a leader. With a majority that can talk both ways, Raft and Paxos elect
//! one after a few timeouts; without, they elect nobody.
#![no_std]

extern crate alloc;

mod algorithm;
pub mod bully;
mod effects;
mod group;
mod machine;
pub mod members;
pub mod memory_recovery;
mod node;
pub mod paxos;
pub mod pending_members;
pub mod raft;
mod random;
mod rank_election;
pub mod ring;
mod rounds;
mod timing;

pub use algorithm::{Algorithm, MachineVisitor};
pub use effects::{Effects, Envelope, LossCause, Notice};
pub use group::{Group, GroupStamp, InvalidGroup, MAX_MEMBERS, Member, Tally};
pub use machine::{Config, Input, Machine, RecoveryRole, Role, Start, View};
pub use node::{InvalidNodeId, NodeId, Term};
pub use random::Random;
pub use timing::{InvalidTiming, Timing};
