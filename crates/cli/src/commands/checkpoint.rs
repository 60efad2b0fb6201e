//! `baton checkpoint`: leave something for the successor.

use std::io::Read;
use std::path::PathBuf;

use baton::CheckpointContent;
use baton::election::document::Reference;
use baton::election::time::Span;
use baton::election::{Answer, ContentHash, ElectionName, Refusal};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use super::approval::ApprovalWait;
use crate::context::{AgentOption, Context};
use crate::exit::{Exit, Speaker};
use crate::manifest;
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton checkpoint refactor-auth --as agent-a --summary 'parser done' --state '[\"parser\"]'
  baton checkpoint refactor-auth --as agent-a --summary 'see the notes' --reference notes.md
  baton checkpoint refactor-auth --as agent-a --summary 'parser done' --covers src --covers notes.md
  baton checkpoint refactor-auth --as agent-a --state @plan.json --wait-approval   until it is approved
  baton checkpoint refactor-auth --verify         what was changed since, of what the last one covers
  produce-state | baton checkpoint refactor-auth --as agent-a --state -

What is covered is hashed: files, folders without .git and .baton, symbolic links by their text; of the top of a working tree of git the commit, and what \
differs from it, byte by byte. At most 20,000 paths that differ, 200,000 that a commit has, and 2 GiB. --verify exits 0 if all is as it was, else 1; anybody may ask, on the machine where it lies.")]
pub(crate) struct Checkpoint {
    /// The election
    election: ElectionName,
    #[command(flatten)]
    who: AgentOption,
    /// One line for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    summary: String,
    /// The state as JSON, at most 64 KiB; @FILE or - to read it [default: null]
    #[arg(long, value_name = "JSON")]
    state: Option<String>,
    /// A file with a larger state; the checkpoint keeps its path and hash
    #[arg(long, value_name = "FILE")]
    reference: Option<String>,
    /// A file or folder to record (repeatable): the successor can see what changed since
    #[arg(long, value_name = "PATH")]
    covers: Vec<PathBuf>,
    /// Wait until an operator has approved it: exit 0 if so, 5 if it is rejected, 6 if nobody has decided in time [default DURATION: 1h]
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "1h", conflicts_with = "verify")]
    wait_approval: Option<Span>,
    /// Only see what was changed since the last one, of what that covers below ROOT (again for more) [default ROOT: the working folder]
    #[arg(long, value_name = "ROOT", num_args = 0..=1, require_equals = true, default_missing_value = ".",
          conflicts_with_all = ["summary", "state", "reference", "covers"])]
    verify: Vec<PathBuf>,
}

impl StoreCommand for Checkpoint {
    const SPEAKER: Speaker = Speaker::Holder;

    fn access(&self) -> Access {
        if self.verify.is_empty() { Access::Write } else { Access::Read }
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        if !self.verify.is_empty() {
            return self.compare(context).await;
        }
        if self.summary.is_empty()
            && self.state.is_none()
            && self.reference.is_none()
            && self.covers.is_empty()
        {
            // It would take the place of what was left before.
            return Err(Failure::usage(
                "there is nothing to leave",
                "give a --summary, a --state, a --reference or what it --covers",
            ));
        }
        let mut content = CheckpointContent {
            summary: self.summary.clone(),
            state: read_state(self.state.as_deref().unwrap_or("null"))?,
            reference: self.reference.as_deref().map(refer).transpose()?,
            covers: None,
        };
        let held = context.lease(&self.election, &self.who)?;
        if !self.covers.is_empty() {
            let places = self.covers.clone();
            content.covers = Some(manifest::cover(places, &context.state, content.state.len()).await?);
        }
        let written =
            context.coordinator.checkpoint(&self.election, held.epoch, held.credential, &content).await;
        match written? {
            Answer::Checkpointed { seq, hash, awaiting_approval: true } if self.wait_approval.is_some() => {
                let limit = self.wait_approval.unwrap_or(Span::ZERO);
                let (election, who) = (&self.election, &self.who);
                ApprovalWait { election, who, seq, hash, limit }.decided(context).await
            }
            Answer::Checkpointed { seq, hash, awaiting_approval } => {
                let data = json!({
                    "outcome": "checkpointed",
                    "election": self.election,
                    "agent": held.agent,
                    "seq": seq,
                    "hash": hash,
                    "awaiting_approval": awaiting_approval,
                    "covers": content.covers.as_ref().map(manifest::about),
                });
                let covers = content.covers.as_ref();
                let covered =
                    covers.map_or(String::new(), |covers| format!(" and {}", manifest::covered(covers)));
                let text = format!("checkpoint {seq} of {} is saved{covered}", self.election);
                let note = "an operator must approve it before the token is accepted again";
                Ok(Screen::new(data, text).notes(awaiting_approval.then_some(note)))
            }
            other => unreachable!("a checkpoint is answered as one, not with {other:?}"),
        }
    }
}

impl Checkpoint {
    /// What was changed since the last one.
    async fn compare(&self, context: &Context) -> Result<Screen, Failure> {
        let view = context.coordinator.view(&self.election).await?;
        let Some(document) = view.document else {
            return Err(Refusal::UnknownElection { election: self.election.to_string() }.into());
        };
        let checkpoint = document.checkpoint.as_deref();
        let Some((checkpoint, covers)) = checkpoint.and_then(|left| Some((left, left.covers.as_ref()?)))
        else {
            let data = json!({"outcome": "nothing", "election": self.election, "since": null});
            return Ok(Screen::new(data, format!("no checkpoint of {} covers anything", self.election)));
        };
        let since = manifest::compare(covers, &self.verify, &context.state).await?;
        let outcome = if since.is_empty() { "unchanged" } else { "changed" };
        let data = json!({
            "outcome": outcome, "election": self.election, "seq": checkpoint.seq, "since": manifest::data(&since),
        });
        let text = [vec![format!("checkpoint {}", checkpoint.seq)], manifest::lines(covers, &since)].concat();
        let exit = if since.is_empty() { Exit::Done } else { Exit::Error };
        Ok(Screen::new(data, text.join("\n")).exit(exit))
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
