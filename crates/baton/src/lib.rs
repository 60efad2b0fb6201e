//! What a program links to take part in an election: campaign, lead while it is safe, hand over, follow.
//!
//! ```no_run
//! # async fn example() -> Result<(), baton::Error> {
//! use baton::{Bid, Campaign, Coordinator};
//! use std::time::Duration;
//!
//! let coordinator = Coordinator::connect("file:.baton").await?;
//! let election = "refactor-auth".parse()?;
//! let lead = coordinator.campaign(&election, Campaign::new(Bid::new("agent-a".parse()?))).await?;
//! while lead.ensure(Duration::from_secs(5)) {
//!     // Do one piece of work that takes less than five seconds, and show `lead.token()` wherever it writes.
//! }
//! lead.release("done").await?;
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees: while [`Leadership::ensure`] says so, nobody else can have been granted the election, as long as clocks drift by less
//! than 1 %. Does not guarantee that work stops by itself when the leadership is lost, nor anything about a process that
//! is suspended between the check and the act: show the token to a fence where the work is done.

mod agents;
mod alerts;
mod audit;
pub mod caller;
mod campaign;
mod candidacy;
mod connect;
mod coordinator;
mod error;
mod fences;
mod follow;
mod grant;
mod leadership;
mod lease_state;
mod locate;
pub mod manifest;
mod many;
mod operators;
mod pause_all;
pub mod private;
mod region;
mod renewer;
mod session;
mod sign_in;
mod store_orders;
mod tokens;
pub mod toolbox;
mod waiting;

pub use agents::{AgentView, Presence};
pub use audit::AuditLogs;
pub use baton_api as api;
pub use baton_api::elections::{Decides, Elections};
pub use baton_api::served::SERVERS;
pub use baton_api::{Memory, Patience};
pub use baton_election as election;
pub use baton_election::command::Renew as Renewal;
pub use baton_executor::Executor;
pub use baton_store as store;
#[cfg(feature = "embedded")]
pub use baton_store_embedded as embedded;
pub use baton_store_file as file;
pub use campaign::{Campaign, Standby, TellStandby};
pub use candidacy::Candidates;
pub use connect::{STORES, StoreKind, embedded_file, open_store, schemes};
pub use coordinator::{Bid, CheckpointContent, Coordinator, Renewed, View, mint_credential};
pub use error::Error;
pub use fences::{FenceView, Fences};
pub use follow::{Follower, LeaderView};
pub use grant::Grant;
pub use leadership::{Leadership, Validity};
pub use lease_state::Status;
pub use locate::{DefaultStore, Origin, default_store, locate};
pub use operators::{Operators, Spread};
pub use region::Region;
pub use session::{Session, SessionLeadership};
pub use sign_in::SignInLink;
pub use store_orders::{StoreOrders, WaitingOrders};
pub use tokens::{AccessTokens, NewToken, Swept};
pub use toolbox::{Mandate, Toolbox, WorkerKey};
