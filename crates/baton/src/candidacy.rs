//! Standing for election where a policy compares candidates.

use baton_api::elections::QueuedCandidate;
use baton_election::candidate::Candidate;
use baton_election::select::{self, Ranked};
use baton_election::{AgentName, Credential, Document, ElectionName, Span};
use baton_store::{Prefix, Record, boot};

use crate::coordinator::{Bid, Coordinator};
use crate::error::Error;

/// The most candidates that are compared.
const MAX_CANDIDATES: usize = 10_000;

/// The candidates for the elections of a store.
#[derive(Clone, Copy)]
pub struct Candidates<'a>(pub(crate) &'a Coordinator);

impl Coordinator {
    /// The candidates: those that a policy compares, and those that wait in line.
    pub fn candidates(&self) -> Candidates<'_> {
        Candidates(self)
    }
}

impl Candidates<'_> {
    /// Enlists, or goes on standing.
    pub async fn enlist(
        self,
        election: &ElectionName,
        bid: &Bid,
        credential: Credential,
        ttl: Span,
    ) -> Result<Candidate, Error> {
        let wanted = Candidate {
            election: election.clone(),
            agent: bid.agent.clone(),
            incarnation: credential.incarnation,
            key_hash: credential.key.hash(),
            priority: bid.priority,
            capabilities: bid.capabilities.clone(),
            score: bid.score,
            load: bid.load,
            ttl,
            beat: 0,
            withdrawn: false,
            enlisted: boot::wall(),
            through: None,
        };
        self.enlist_record(&wanted).await
    }

    /// The same for a candidate of whom only the hash of the key is known.
    pub async fn enlist_record(self, wanted: &Candidate) -> Result<Candidate, Error> {
        Ok(self.0.backend.candidacies()?.enlist(self.0.patience, wanted).await?)
    }

    /// Stands no longer. Returns whether it did.
    pub async fn withdraw(
        self,
        election: &ElectionName,
        agent: &AgentName,
        credential: Credential,
    ) -> Result<bool, Error> {
        Ok(self.0.backend.candidacies()?.withdraw(self.0.patience, election, agent, &credential).await?)
    }

    /// The candidates that stand.
    pub async fn list(self, election: &ElectionName) -> Result<Vec<Candidate>, Error> {
        let keys = self.0.backend.list(&Prefix::Candidates(election.clone())).await?;
        let mut standing = Vec::new();
        for key in keys.iter().take(MAX_CANDIDATES) {
            let reading = self.0.backend.read(key).await?;
            let age = self.0.backend.memory().lock().observe(key, &reading);
            if let Some((Record::Candidate(candidate), _)) = reading.found
                && candidate.stands(age)
            {
                standing.push(*candidate);
            }
        }
        Ok(standing)
    }

    /// The candidates that stand, in the policy's order.
    pub async fn ranking(self, election: &ElectionName, document: &Document) -> Result<Vec<Ranked>, Error> {
        Ok(select::rank(document, &self.list(election).await?))
    }

    /// The candidates in the store's own line for an election, the leader first, each with what is left of
    /// its lease: a candidate whose process has died stands until its lease expires. At most `limit`; nobody
    /// where the store has no elections of its own.
    pub async fn line(self, election: &ElectionName, limit: usize) -> Result<Vec<QueuedCandidate>, Error> {
        Ok(self.0.backend.line(election, limit).await?)
    }
}
