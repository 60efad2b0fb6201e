//! The candidates that wait to lead, for people to see.

use std::sync::Arc;

use baton_api::Elections;
use baton_api::waiting::{MOST_SHOWN, WaitingCandidate};
use baton_election::time::{Moment, WallTime};
use baton_election::{AgentName, Credential, ElectionName, Incarnation};
use baton_store::boot;
use baton_store::waiting::NOTE_EVERY;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::candidacy::Candidates;
use crate::coordinator::Coordinator;
use crate::error::Error;

impl Candidates<'_> {
    /// Those who wait to lead, where the store shows them; at most [`MOST_SHOWN`]. One that was killed may be among them for a minute.
    pub async fn waiting(self, election: &ElectionName) -> Result<Vec<WaitingCandidate>, Error> {
        match self.0.backend.waiters() {
            Some(waiters) => Ok(waiters.waiting(election, MOST_SHOWN).await?),
            None => Ok(Vec::new()),
        }
    }
}

/// That one candidate waits, as long as this is kept. It is written aside: nobody waits for that, and leading does not take it.
pub(crate) struct Note {
    backend: Arc<dyn Elections>,
    election: ElectionName,
    agent: AgentName,
    incarnation: Incarnation,
    since: WallTime,
    /// When it is written the next time; none if it never was.
    due: Option<Moment>,
    writing: Option<JoinHandle<()>>,
}

impl Note {
    pub(crate) fn new(
        coordinator: &Coordinator,
        election: &ElectionName,
        agent: &AgentName,
        credential: Credential,
    ) -> Note {
        Note {
            backend: Arc::clone(&coordinator.backend),
            election: election.clone(),
            agent: agent.clone(),
            incarnation: credential.incarnation,
            since: boot::wall(),
            due: None,
            writing: None,
        }
    }

    /// Writes it, if it is time to.
    pub(crate) fn write(&mut self) {
        let under_way = self.writing.as_ref().is_some_and(|writing| !writing.is_finished());
        let early = self.due.is_some_and(|due| boot::now() < due);
        if early || under_way || self.backend.waiters().is_none() {
            return;
        }
        self.due = Some(boot::now() + NOTE_EVERY);
        let (backend, election, incarnation) =
            (Arc::clone(&self.backend), self.election.clone(), self.incarnation);
        let waiting = WaitingCandidate { agent: self.agent.clone(), since: self.since };
        self.writing = Some(tokio::spawn(async move {
            if let Some(waiters) = backend.waiters() {
                // Whether it can be written matters to nobody: it decides nothing.
                let _ = waiters.note(&election, &waiting, incarnation).await;
            }
        }));
    }
}

impl Drop for Note {
    /// Takes it back, also where the wait was broken off. What is left behind lapses.
    fn drop(&mut self) {
        let (Some(writing), Ok(runtime)) = (self.writing.take(), Handle::try_current()) else { return };
        let (backend, election) = (Arc::clone(&self.backend), self.election.clone());
        let (agent, incarnation) = (self.agent.clone(), self.incarnation);
        runtime.spawn(async move {
            // Not before it is written: it would be written after.
            let _ = writing.await;
            if let Some(waiters) = backend.waiters() {
                let _ = waiters.leave(&election, &agent, incarnation).await;
            }
        });
    }
}
