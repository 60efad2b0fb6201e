//! `baton audit note`, `baton vote`: what operators say beside their acts.

use baton::election::{AgentName, Document, ElectionName, Refusal, select};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use super::acts::failure;
use crate::context::Context;
use crate::exit::Speaker;
use crate::keys;
use crate::output::{Failure, clean};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton audit note refactor-auth 'agent-b was restarted by hand, see ticket 12'

A note changes nothing. It is signed and kept in the audit log: baton audit refactor-auth")]
pub(crate) struct Note {
    /// The election
    election: ElectionName,
    /// The note, at most 1 KiB
    text: String,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton policy refactor-auth --select vote --nomination 1m    let operators vote
  baton vote refactor-auth agent-b

Operators vote while nobody leads; the last vote of each counts. The candidate with the most votes is chosen, of several the one with the highest \
priority; if nobody votes, the highest priority decides.")]
pub(crate) struct Vote {
    /// The election
    election: ElectionName,
    /// The candidate
    agent: AgentName,
}

impl StoreCommand for Note {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Operator;

    fn check(&self) -> Result<(), Failure> {
        keys::load().map(drop)
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let key = keys::load()?;
        let noted = context.coordinator.note(&self.election, &key, &self.text).await;
        noted.map_err(|error| failure(&error, &key))?;
        let data = json!({"outcome": "note", "election": self.election});
        Ok(Screen::new(data, format!("noted: {}", clean(&self.text))))
    }
}

impl StoreCommand for Vote {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Operator;

    fn check(&self) -> Result<(), Failure> {
        keys::load().map(drop)
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let key = keys::load()?;
        let fail = |error: baton::Error| failure(&error, &key);
        let standing = context.coordinator.candidates().list(&self.election).await.map_err(fail)?;
        if !standing.iter().any(|candidate| candidate.agent == self.agent) {
            let names: Vec<&str> = standing.iter().map(|candidate| candidate.agent.as_str()).collect();
            let hint = match names.as_slice() {
                [] => "candidates enlist by `baton run` or `baton enlist`".to_string(),
                names => format!("these stand: {}", names.join(", ")),
            };
            return Err(Failure::usage(format!("{} does not stand for {}", self.agent, self.election), hint));
        }
        context.coordinator.vote(&self.election, &key, &self.agent).await.map_err(fail)?;
        let document = document(context, &self.election).await?;
        let (votes, operators) = (select::votes_for(&document, &self.agent), document.operator_keys.len());
        let data = json!({
            "outcome": "vote", "election": self.election, "agent": self.agent, "votes": votes, "operators": operators,
        });
        let text = format!("{votes} of {operators} operators voted for {}", self.agent);
        Ok(Screen::new(data, text))
    }
}

pub(super) async fn document(context: &Context, election: &ElectionName) -> Result<Document, Failure> {
    let document = context.coordinator.view(election).await?.document;
    document.ok_or_else(|| Refusal::UnknownElection { election: election.to_string() }.into())
}
