//! What operators did, as it stands in the store: read, and verified.

use baton_election::ElectionName;
use baton_election::audit::{Book, Entry, Verdict};
use baton_executor::AuditReader;
use baton_store::{Key, Prefix};

use crate::coordinator::Coordinator;
use crate::error::Error;

/// The audit logs of a store and its elections.
#[derive(Clone, Copy)]
pub struct AuditLogs<'a>(pub(crate) &'a Coordinator);

impl Coordinator {
    /// The acts of operators, as the store keeps them: read, and verified.
    pub fn audit(&self) -> AuditLogs<'_> {
        AuditLogs(self)
    }
}

impl AuditLogs<'_> {
    /// What operators did, the oldest first; at most `limit` of the newest.
    pub async fn read(self, book: &Book, limit: usize) -> Result<Vec<Entry>, Error> {
        Ok(AuditReader::new(&*self.0.backend, self.0.patience).entries(book, limit).await?)
    }

    /// The elections that have acts in a log. One that is not among [`Coordinator::elections`] has lost its record.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn elections(self) -> Result<Vec<ElectionName>, Error> {
        let keys = self.0.backend.list(&Prefix::Audits).await?;
        let election = |key| match key {
            Key::Audit(Book::Election(election), _) => Some(election),
            _ => None,
        };
        Ok(keys.into_iter().filter_map(election).collect())
    }

    /// Looks at all of it: whether each entry is as it was written and signed, and none is missing. Of its access tokens a server
    /// tells what it found itself, since it shows nobody the hashes that those orders are signed over.
    pub async fn verify(self, book: &Book) -> Result<Verdict, Error> {
        Ok(AuditReader::new(&*self.0.backend, self.0.patience).verify(book).await?)
    }
}
