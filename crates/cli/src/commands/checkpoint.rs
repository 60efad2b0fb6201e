//! `baton checkpoint`: leave something for the successor.

use std::io::Read;

use baton::CheckpointContent;
use baton::election::document::Reference;
use baton::election::{Answer, ContentHash, ElectionName};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton checkpoint refactor-auth --as agent-a --summary 'parser done' --state '[\"parser\"]'
  baton checkpoint refactor-auth --as agent-a --summary 'see the notes' --reference notes.md
  produce-state | baton checkpoint refactor-auth --as agent-a --state -")]
pub(crate) struct Checkpoint {
    /// What is led
    election: ElectionName,
    #[command(flatten)]
    who: Who,
    /// One line for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    summary: String,
    /// The state as JSON, at most 64 KiB; @FILE or - to read it
    #[arg(long, value_name = "JSON", default_value = "null")]
    state: String,
    /// A file that holds a larger state; its path and hash are kept
    #[arg(long, value_name = "FILE")]
    reference: Option<String>,
}

impl Checkpoint {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let content = CheckpointContent {
            summary: self.summary.clone(),
            state: read_state(&self.state)?,
            reference: self.reference.as_deref().map(refer).transpose()?,
        };
        let context = Context::open(global, Access::Write).await?;
        let held = context.lease(&self.election, &self.who)?;
        let written =
            context.coordinator.checkpoint(&self.election, held.epoch, held.credential, &content).await;
        context.remember();
        match written.map_err(|error| Failure::from_error(&error, Speaker::Holder))? {
            Answer::Checkpointed { seq, hash, awaiting_approval } => {
                let data = json!({
                    "outcome": "checkpointed",
                    "election": self.election,
                    "agent": held.agent,
                    "seq": seq,
                    "hash": hash,
                    "awaiting_approval": awaiting_approval,
                });
                context.output.say(&data, &format!("checkpoint {seq} of {} stands", self.election))?;
                if awaiting_approval {
                    context.output.talk("an operator must approve it before the token is accepted again");
                }
                Ok(Exit::Done)
            }
            other => unreachable!("a checkpoint is answered as one, not with {other:?}"),
        }
    }
}

/// The state itself, or what it says to read.
fn read_state(given: &str) -> Result<String, Failure> {
    let mut text = String::new();
    match given.strip_prefix('@') {
        Some(path) => {
            text = std::fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("cannot read {path}: {error}"), "give a file of JSON")
            })?;
        }
        None if given == "-" => {
            std::io::stdin().take(16 << 20).read_to_string(&mut text)?;
        }
        None => text.push_str(given),
    }
    // In canonical form, so that the same state has the same hash however it was written.
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(value) => Ok(value.to_string()),
        Err(error) => Err(Failure::usage(
            format!("the state is not JSON: {error}"),
            "quote plain text as a JSON string, or put it into --summary",
        )),
    }
}

/// Where a file lies, and what it hashes to.
pub(crate) fn refer(path: &str) -> Result<Reference, Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::usage(format!("cannot read {path}: {error}"), "the reference must be a file")
    })?;
    let location = std::fs::canonicalize(path)?.display().to_string();
    Ok(Reference { location, sha256: ContentHash::of(&bytes) })
}
