//! The leader's toolbox: a task board, proposals, quotas, versioned state.
//!
//! ```no_run
//! # async fn example(coordinator: baton::Coordinator, lead: baton::Mandate) -> Result<(), baton::Error> {
//! use baton::toolbox::{NewTask, Order};
//!
//! let tools = coordinator.toolbox(&"refactor-auth".parse()?);
//! let parser = NewTask { key: Some("parser".into()), title: "Rewrite the parser".into(), size: 1, ..NewTask::default() };
//! let added = tools.add(Some(lead), None, &[parser]).await?;
//! tools.assign(&added[0].id, lead, Some("agent-b".parse()?)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Each item is a record of the store, changed by compare-and-swap. Against a server a command is sent, and the server carries out those of one election one
//! after the other, with the leader's token checked in that very moment: nothing that a former leader sent is carried out after
//! its successor's first look at the board.
//!
//! Against any other store the election's document is read first and the item is swapped then. **Between the two lies a gap.** A leader that is deposed, or whose lease
//! ends, within it may still write an item that its successor has not written yet. What bounds it: an item that a leader of a
//! later epoch has written is never written by one of an earlier epoch, and a worker that has heard of a later epoch refuses an
//! instruction of an earlier one. The successor sees what happened in the gap when it next looks, with the
//! epoch of the writer.
//!
//! Without a leader workers go on: they accept what was assigned, report and complete it. New tasks are taken up to a bound, and wait.

mod breakers;
mod read;
mod slots;
mod worker;
mod write;

use baton_election::ElectionName;
pub use baton_store::toolbox::*;

use crate::coordinator::Coordinator;
pub use breakers::BreakerView;
pub use slots::{Begun, MarkedSlot};
pub use worker::WorkerKey;

/// The toolbox of one election's leader.
#[derive(Clone)]
pub struct Toolbox {
    coordinator: Coordinator,
    election: ElectionName,
}

impl Coordinator {
    /// The toolbox of an election's leader.
    pub fn toolbox(&self, election: &ElectionName) -> Toolbox {
        Toolbox { coordinator: self.clone(), election: election.clone() }
    }
}

impl Toolbox {
    /// Of which election.
    pub fn election(&self) -> &ElectionName {
        &self.election
    }
}
