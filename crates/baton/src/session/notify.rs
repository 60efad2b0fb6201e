//! A release that waits until followers know of it.

use std::time::Duration;

use baton_api::retried;
use baton_api::sessions::NotifyReport;
use baton_election::command::{Pass, Release};
use baton_election::document::Document;
use baton_election::time::Span;
use baton_election::{AgentName, Command, Credential, ElectionName, Epoch};
use baton_store::boot;

use crate::coordinator::Coordinator;
use crate::error::Error;

impl Coordinator {
    /// Whether there is a server that knows who follows; otherwise why not.
    pub fn tells_followers(&self) -> Result<(), Error> {
        self.server_sessions().map(|_| ())
    }

    /// Gives the lease back, as [`Coordinator::leave`] does, and then waits until every session that follows the election knows of
    /// it, for at most so long. A successor does not wait.
    pub async fn leave_telling(
        &self,
        election: &ElectionName,
        release: Release,
        notify: Duration,
    ) -> Result<(Option<Document>, NotifyReport), Error> {
        self.execute_telling(election, Command::Release(release), notify).await
    }

    /// The same for [`Coordinator::pass`].
    pub async fn pass_telling(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        to: &AgentName,
        reason: Option<String>,
        notify: Duration,
    ) -> Result<(Option<Document>, NotifyReport), Error> {
        let pass = Pass { epoch, credential, to: to.clone(), reason };
        self.execute_telling(election, Command::Pass(pass), notify).await
    }

    async fn execute_telling(
        &self,
        election: &ElectionName,
        command: Command,
        notify: Duration,
    ) -> Result<(Option<Document>, NotifyReport), Error> {
        let sessions = self.server_sessions()?;
        let asked_at = boot::now();
        let notify = Span::nanos(u64::try_from(notify.as_nanos()).unwrap_or(u64::MAX));
        let (decided, notified) =
            retried(self.patience, || sessions.leave(election, &command, notify)).await?;
        if let Some(document) = &decided.document {
            self.backend.memory().heard_of(&|| self.backend.location(), document, asked_at)?;
        }
        Ok((decided.document.map(|document| *document), notified))
    }
}
