//! The laboratory: every algorithm under the same faults, from a seed.
//!
//! A run has two phases: *chaos*, in which a plan of [faults](Fault) unfolds and every promise is checked after every event,
//! then *healing*, after which a leader must appear within a bound. It runs the machines that ship.
//!
//! Assumes that whatever is simulated does nothing but by its inputs. Guarantees that a run depends on nothing but its
//! [`Setup`], and that the setup of a seed is the same everywhere. Does not prove anything: what no seed has shown may
//! still be there; for small worlds `crates/model` looks at all of them.

pub mod compare;
pub mod plot;
pub mod scale;
pub mod tune;

mod clock;
mod fault;
mod host;
mod invariants;
mod lease;
mod ledger;
mod network;
mod picture;
mod queue;
mod run;
mod scenarios;
mod seed;
mod setup;
mod simulation;
mod statistics;
mod timeline;
mod world;

pub use fault::{DiskFate, Fault, FaultTarget, PlannedFault};
pub use invariants::Broken;
pub use network::{Links, Network};
pub use picture::svg;
pub use run::{Campaign, Progress, campaign, run, watch};
pub use scenarios::{PlanBounds, Scenario};
pub use seed::SeedOptions;
pub use setup::{Elector, Outcome, Setup};
pub use statistics::{Statistics, percentile};
pub use timeline::{Entry, EventKind, MAX_ENTRIES, Timeline};
pub use world::World;
