//! The election in which servers elect the active one. They take part in it as everybody does, through the store; here it is only shown.

use baton_election::time::Span;
use baton_election::{ElectionName, Refusal};
use baton_store::{Key, Reading, Record, StoreError};

use super::{Shared, View};

/// Whether it is that one.
pub(super) fn is_reserved(election: &ElectionName) -> bool {
    election.as_str() == baton::SERVERS
}

pub(super) fn refuse_reserved(election: &ElectionName) -> Result<(), Refusal> {
    if is_reserved(election) {
        let why = format!("the servers themselves are elected in `{election}`");
        return Err(Refusal::invalid(why, "choose another name"));
    }
    Ok(())
}

impl Shared {
    /// An election that is not decided here, as its store shows it.
    pub(super) async fn look_at(&self, election: &ElectionName) -> Result<View, StoreError> {
        let Reading { found, age, .. } = self.store.read(&Key::Election(election.clone())).await?;
        let document = match found {
            Some((Record::Election(document), _)) => Some(*document),
            Some(_) | None => None,
        };
        Ok(View { document, age: age.unwrap_or(Span::ZERO) })
    }
}
