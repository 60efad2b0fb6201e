//! Commands that the store decides by itself: they are sent, and sent again until there is an answer.

use baton_api::command::Decided;
use baton_election::command::Acquire;
use baton_election::time::{Moment, Span};
use baton_election::{Answer, Command, Document, ElectionName, Epoch, StoreId};
use baton_store::{Decider, Decision, StoreError, Undecided, boot};

use crate::backoff::Patience;
use crate::error::Error;
use crate::local::{Executed, Local, Pace};

impl From<Undecided> for Error {
    fn from(undecided: Undecided) -> Error {
        match undecided {
            Undecided::Refused(refusal) => Error::Refused(refusal),
            Undecided::Store(error) => Error::Store(error),
        }
    }
}

/// Asks until there is an answer, or the store has failed too often. Whatever is asked may be asked again.
pub(crate) async fn insist<'a, T>(patience: Patience, ask: impl Fn() -> Decision<'a, T>) -> Result<T, Error> {
    let mut pace = Pace::new(patience);
    loop {
        match ask().await {
            Err(Undecided::Store(error)) if error.is_passing() => pace.wait_after(error).await?,
            outcome => return Ok(outcome?),
        }
    }
}

impl Local {
    /// Carries out a command there.
    pub(crate) async fn execute_there(
        &self,
        decider: &dyn Decider,
        election: &ElectionName,
        patience: Patience,
        make: &(dyn Fn(Option<&Document>, StoreId, Epoch) -> Command + Send + Sync),
    ) -> Result<Executed, Error> {
        let asked_at = boot::now();
        let info = self.info(patience, true).await?;
        let send = || -> Decision<'_, Decided> {
            let command = make(None, info.id, Epoch(0));
            Box::pin(async move { decider.execute(election, &command).await })
        };
        let decided = insist(patience, send).await?;
        let Decided { answer, document, ttl } = decided;
        let document = self.known_by(election, info.id, &answer, document, asked_at)?;
        Ok(Executed { answer, document, asked_at, ttl })
    }

    /// The document after a command. A renewal shows none.
    pub(crate) fn known_by(
        &self,
        election: &ElectionName,
        store: StoreId,
        answer: &Answer,
        document: Option<Box<Document>>,
        asked_at: Moment,
    ) -> Result<Document, StoreError> {
        match document {
            Some(document) => {
                match self.accept(Some(&document), Span::ZERO, asked_at, None) {
                    Ok(()) => self.memory().wrote(&document),
                    // Another task has heard of what came after it.
                    Err(StoreError::Conflict) => {}
                    Err(error) => return Err(error),
                }
                Ok(*document)
            }
            None => {
                let epoch = if let Answer::Renewed { epoch, .. } = answer { *epoch } else { Epoch(0) };
                Ok(Document::new(election.clone(), store, epoch, &[]))
            }
        }
    }

    /// Waits in the store's line for at most so long. Whoever is granted the lease after a wait must claim it with a renewal.
    pub(crate) async fn acquire_in_line(
        &self,
        decider: &dyn Decider,
        election: &ElectionName,
        acquire: &Acquire,
        wait: Span,
    ) -> Result<Executed, Error> {
        // Before it asks: an offer does not wait long.
        let info = self.info(Patience::default(), true).await?;
        let asked_at = boot::now();
        let Decided { answer, document, ttl } = decider.acquire(election, acquire, wait).await?;
        let document = self.known_by(election, info.id, &answer, document, asked_at)?;
        Ok(Executed { answer, document, asked_at, ttl })
    }
}
