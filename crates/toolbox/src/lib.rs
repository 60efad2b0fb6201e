//! What a leader coordinates with: a task board, proposals, quotas, versioned state. Pure, as the election is.
//!
//! Each item is one record, and every change to it a decision on it alone, committed by compare-and-swap. What only a leader may do carries
//! its [`Mandate`], which is checked against the election's document. Guarantees that an item that was written in an epoch is never
//! again written by a leader of a lower one, that a worker reports on its own tasks only, that a task is done at most once, and that the shares
//! of a quota never exceed the whole. Does not guarantee that the election still stands as it was read when the item is
//! swapped: between the two lies a gap, which the item's own fence and the workers' refusal of older epochs bound, and which a server closes. Nor that
//! work is done once only: a worker whose task was taken from it may have done some of it.
#![no_std]

extern crate alloc;

pub mod board;
mod bounds;
pub mod breaker;
mod item;
mod mandate;
pub mod proposal;
pub mod quota;
pub mod slot;
pub mod value;
mod weight;

pub use board::{AddTasks, Added, Attempt, NewTask, Order, Outcome, Progress, State, Task, Worker, choose};
pub use bounds::{MAX_BODY_BYTES, MAX_NOTE_BYTES, MAX_TITLE_BYTES};
pub use breaker::Breaker;
pub use item::{Answer, Command, Counts, Item, Kind, Page, Query};
pub use mandate::{Mandate, Sight};
pub use proposal::{Proposal, Propose, Ruling};
pub use quota::{Draw, Drawn, Quota, SetQuota};
pub use slot::{Again, RunEnd, SLOT_VALUE, SlotRun, SlotStanding, Slots};
pub use value::{Put, Value};
pub use weight::MAX_WEIGHT;
