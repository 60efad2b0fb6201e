//! What a decision rests on: the one place that calls the core's `decide`.

use baton_api::served::SERVERS;
use baton_election::time::Span;
use baton_election::{
    Command, Decision, Document, ElectionName, Epoch, Evidence, Refusal, StoreInfo, decide,
};
use baton_store::boot;

/// What a decision rests on, beside the document and the command.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The election.
    pub election: &'a ElectionName,
    /// What the store knows of itself.
    pub info: &'a StoreInfo,
    /// Whether `info` is current. A pause of everything in an older one refuses no request for the lease: whoever swaps reads it anew before
    /// a grant.
    pub info_is_current: bool,
    /// A lower bound on the time since the document's last beat.
    pub age: Span,
    /// The next epoch is above this one.
    pub floor: Epoch,
    /// How long the lease of a record that is gone may still last.
    pub vanished_lease: Span,
}

impl Facts<'_> {
    /// Decides a command.
    pub fn decide(&self, document: Option<&Document>, command: &Command) -> Result<Decision, Refusal> {
        let is_looked_at_later = !self.info_is_current && matches!(command, Command::Acquire(_));
        // The servers themselves go on: without them nobody could end the pause.
        if self.election.as_str() != SERVERS && !is_looked_at_later {
            self.info.allow(command)?;
        }
        let evidence = Evidence {
            election: self.election,
            store: self.info.id,
            age: self.age,
            wall: boot::wall(),
            floor: self.floor,
            vanished_lease: self.vanished_lease,
            operator_keys: &self.info.operator_keys,
        };
        decide(document, command, &evidence)
    }
}
