//! Model checking of the elections by a majority: the shipped machines of `baton_peer`, in every order of events within the bounds of
//! a [`Scope`] world.
//!
//! Three members. The model moves messages and time; what a member concludes is computed by the shipped machine. A message may arrive at any time,
//! in any order, never, or twice; a member may be stopped for any time between two steps, and may crash and begin again with what it
//! kept. What it sends leaves it only after what it keeps is kept; that is the shell's duty, and one of the [`BrokenRule`]s.
//!
//! Time is abstract. With [`Clocks::Free`] every member has a clock of its own that jumps to the next thing it waits for whenever the model
//! likes, whatever the others' do: what holds there holds for clocks of any rate. With [`Clocks::Shared`] there is one clock, which goes on to the next
//! thing that anybody waits for; a member may act then or any time later.
//!
//! **Guarantees**, by exhaustion of each world of [`Scope::raft`], every promise of [`promise`]. **Does not** show anything about longer runs, more members, or
//! changes of the list; the laboratory plays those. Drift is in the lease's formula, which `crates/election` tests.

mod catalogue;
mod explore;
mod properties;
mod world;

pub use explore::{exhaust, find};
pub use properties::promise;
pub use world::{Action, Answerer, BrokenRule, Clocks, Explored, Quorum, Scope, World};
