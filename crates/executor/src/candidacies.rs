//! Candidacies, where a policy compares candidates.

use baton_api::Patience;
use baton_api::elections::{BoxResult, Candidacies};
use baton_election::candidate::{self, Candidate};
use baton_election::{AgentName, Credential, ElectionName};
use baton_store::{AgeStamp, Key, Persistence, Record};

use crate::executor::{Executor, Step};

impl Candidacies for Executor {
    fn enlist<'a>(&'a self, patience: Patience, wanted: &'a Candidate) -> BoxResult<'a, Candidate> {
        Box::pin(async move {
            let key = Key::Candidate(wanted.election.clone(), wanted.agent.clone());
            self.known_info(patience, true).await?;
            self.change(&key, patience, |look| {
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
        })
    }

    fn withdraw<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        agent: &'a AgentName,
        credential: &'a Credential,
    ) -> BoxResult<'a, bool> {
        Box::pin(async move {
            let key = Key::Candidate(election.clone(), agent.clone());
            self.change(&key, patience, |look| {
                let found = match look.record {
                    Some(Record::Candidate(found)) => Some(&**found),
                    Some(_) | None => None,
                };
                Ok(match candidate::withdraw(found, credential)? {
                    None => Step::Done(false),
                    Some(next) => {
                        let record = Record::Candidate(Box::new(next));
                        Step::Write(record, AgeStamp::Reset, Persistence::Synced, true)
                    }
                })
            })
            .await
        })
    }
}
