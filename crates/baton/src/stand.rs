//! Standing for election where a policy compares candidates.

use baton_election::candidate::{self, Candidate};
use baton_election::select::{self, Ranked};
use baton_election::{AgentName, Credential, Document, ElectionName, Span};
use baton_store::{AgeStamp, Key, Persistence, Prefix, Record, boot};

use crate::coordinator::{Bid, Coordinator};
use crate::error::Error;
use crate::local::Step;
use crate::there::insist;

/// The most candidates that are compared.
const MAX_CANDIDATES: usize = 10_000;

impl Coordinator {
    /// Enlists, or goes on standing.
    pub async fn enlist(
        &self,
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
        self.enlist_candidate(&wanted).await
    }

    /// The same for a candidate of whom only the hash of the key is known.
    pub async fn enlist_candidate(&self, wanted: &Candidate) -> Result<Candidate, Error> {
        if let Some(decider) = self.store().decider() {
            return insist(self.patience, || decider.enlist(wanted)).await;
        }
        let key = Key::Candidate(wanted.election.clone(), wanted.agent.clone());
        self.local.info(self.patience, true).await?;
        self.local
            .change(&key, self.patience, |look| {
                let found = match look.record {
                    Some(Record::Candidate(found)) => Some((&**found, look.age)),
                    Some(_) | None => None,
                };
                let next = candidate::enlist(found, wanted)?;
                // Whoever still stands after a power cut says so again.
                let persistence = if found.is_none() { Persistence::Durable } else { Persistence::Synced };
                let record = Record::Candidate(Box::new(next.clone()));
                Ok(Step::Write(record, AgeStamp::Reset, persistence, next))
            })
            .await
    }

    /// Stands no longer. Returns whether it did.
    pub async fn withdraw(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        credential: Credential,
    ) -> Result<bool, Error> {
        if let Some(decider) = self.store().decider() {
            return insist(self.patience, || decider.withdraw(election, agent, &credential)).await;
        }
        let key = Key::Candidate(election.clone(), agent.clone());
        self.local
            .change(&key, self.patience, |look| {
                let found = match look.record {
                    Some(Record::Candidate(found)) => Some(&**found),
                    Some(_) | None => None,
                };
                Ok(match candidate::withdraw(found, &credential)? {
                    None => Step::Done(false),
                    Some(next) => Step::Write(
                        Record::Candidate(Box::new(next)),
                        AgeStamp::Reset,
                        Persistence::Synced,
                        true,
                    ),
                })
            })
            .await
    }

    /// The candidates that stand.
    pub async fn candidates(&self, election: &ElectionName) -> Result<Vec<Candidate>, Error> {
        let keys = self.local.store.list(&Prefix::Candidates(election.clone())).await?;
        let mut standing = Vec::new();
        for key in keys.iter().take(MAX_CANDIDATES) {
            let reading = self.local.store.read(key).await?;
            let age = self.local.memory().observe(key, &reading);
            if let Some((Record::Candidate(candidate), _)) = reading.found
                && candidate.stands(age)
            {
                standing.push(*candidate);
            }
        }
        Ok(standing)
    }

    /// The candidates that stand, in the policy's order.
    pub async fn ranking(&self, election: &ElectionName, document: &Document) -> Result<Vec<Ranked>, Error> {
        Ok(select::rank(document, &self.candidates(election).await?))
    }
}
