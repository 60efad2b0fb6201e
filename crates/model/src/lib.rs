//! Model checking of the shipped decisions, lease arithmetic and fences.
//!
//! Two agents, an operator, a store and a guarded resource, in every order of events within the bounds of a
//! [`Config`]. The model moves messages and time; what an agent, the store and the resource *conclude* is computed by
//! `baton_election` itself: [`decide`](baton_election::decide()) and [`fence::admit`](baton_election::fence::admit) through the
//! adapter in `shipped.rs`, [`Tenure`](baton_election::Tenure) with its [`Margins`](baton_election::Margins) and
//! [`Observer`](baton_election::Observer) as part of each agent's state. Nothing of it is copied.
//!
//! **Assumes** that a store's reads are of one instant and that its swaps compare versions; that a clock's rate is constant
//! within a run; that time passes in ticks of a second. The drift is blown up (ρ = 20 %) and the lease is six ticks, so
//! that at zero guard the formula is *exactly* tight: a slow holder may work until the tick before the fifth, and a fast
//! store lets the next one in at the fifth. A deadline that is a nanosecond too late lets both work for a tick, and is seen.
//!
//! A message may take any time, arrive after its sender has given up on it and was refused since, or never. Where reads take no time
//! ([`Reads::Instant`]) that is the worst case: a holder counts from the asking, so an earlier asking only ends its view
//! earlier. Two configurations let them take time nevertheless.
//!
//! **Guarantees**, by exhaustion of each configuration of [`Config::promises`], every [`Promise`]: accepted tokens never go
//! back; there are never two valid leases; two agents never both believe; a holder's view ends first, and what is lost stays
//! lost; epochs rise and are given once; a token is refused from the instant that its leadership is ended. Beside them stand
//! properties of what must *happen* in some run, so that none is kept by idleness.
//!
//! **Does not** show anything about runs that are longer than the horizon, about more than two agents, approvals, budgets,
//! deletion of the record, or about the stores and clients themselves: those have their conformance suite and simulator.
//!
//! [`Config::faults`] are the model's own test: each breaks one rule, in the client or the store, and must be caught.
//!
//! The elections without a store have models of their own: [`textbook`] for Bully and Ring, [`quorum`] for Raft.
//!
//! ```text
//! cargo test -p baton-model -- --nocapture                             what was explored, and each fault's run
//! BATON_CAMPAIGN=1 cargo test -p baton-model --release -- --nocapture  wider bounds, many minutes
//! ```

mod agent;
mod catalogue;
mod clock;
mod config;
mod explore;
mod ledger;
mod model;
mod operator;
pub mod paxos;
mod properties;
pub mod quorum;
mod resource;
mod shipped;
mod state;
mod store;
pub mod textbook;

pub use clock::{Clocks, Rate};
pub use config::{Bounds, BrokenRule, Config, Reads, StoreKind};
pub use explore::{Exploration, find_violation, run};
pub use model::{Action, Election};
pub use properties::Promise;
