//! Model checking of the shipped Paxos: [`Paxos`](baton_peer::paxos::Paxos) itself, behind a network that loses, repeats and reorders.
//!
//! Three members, one of which may be a witness. The model moves messages and time and restarts members; everything else is what the machine does.
//! A message that is never delivered is a lost one, and a pause is a member that is not woken.
//!
//! Two kinds of clocks ([`Clocks`]):
//! - **Free**: each member's clock goes on by itself, as far as it likes. What must not lean on clocks is shown here: one leader
//!   per token, a promise never goes back, what is chosen stays chosen, chosen tokens never go back. That leases *do* lean on clocks is shown as well: two members that
//!   believe to lead at the same time must be found.
//! - **Drifting**: true time passes in ticks of a second, and clocks run up to 20 % slow or fast, for which the timing is made exactly
//!   tight. Here two never believe at once, and tokens rise in the order in which they lead.
//!
//! **Does not** show anything beyond the bounds of [`Bounds`], about other sizes, changes of members or members that have forgotten: those
//! have the random schedules in `crates/peer/tests`. It says nothing about progress.
//!
//! [`Scope::faults`] are the model's own test: each breaks a rule around the machine, and must be caught.

mod catalogue;
mod check;
mod ledger;
mod letter;
mod world;

pub use catalogue::{Bounds, BrokenRule, Clocks, Scope};
pub use check::{find_violation, run};
pub use world::{Group, Step, World};
