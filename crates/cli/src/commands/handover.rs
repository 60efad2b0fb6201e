//! `baton handover`: see what the predecessor left, and take it on.

use std::path::PathBuf;

use baton::Renewal;
use baton::election::ElectionName;
use baton::election::document::Checkpoint;
use baton::manifest::{Coverage, Differences};
use baton::store::Access;
use clap::Args;
use serde_json::{Value, json};

use super::renew::renew;
use crate::context::{AgentOption, Context};
use crate::exit::{Exit, Speaker};
use crate::manifest;
use crate::output::{Failure, clean};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton handover refactor-auth --as agent-b          the leader reads and acknowledges it
  baton handover refactor-auth --look                anybody may look
  baton handover refactor-auth --look --compare      see what was changed since, of what it covers
  baton handover refactor-auth --unless-changed      not if something that it covers was changed since

The writer of a checkpoint chooses the files it covers. Baton reads them only with --compare or --unless-changed, and only below the working folder or ROOT. It runs no hooks or filters of a repository.")]
pub(crate) struct Handover {
    /// The election
    election: ElectionName,
    #[command(flatten)]
    who: AgentOption,
    /// Only look, do not acknowledge it
    #[arg(long)]
    look: bool,
    /// See what was changed since, of what it covers below ROOT (again for more) [default ROOT: the working folder]
    #[arg(long, value_name = "ROOT", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    compare: Vec<PathBuf>,
    /// Compare; do not take it on, and exit 1, if something that it covers was changed since
    #[arg(long)]
    unless_changed: bool,
}

impl StoreCommand for Handover {
    const SPEAKER: Speaker = Speaker::Holder;

    fn access(&self) -> Access {
        if self.look { Access::Read } else { Access::Write }
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let held = if self.look { None } else { Some(context.lease(&self.election, &self.who)?) };
        let view = context.coordinator.view(&self.election).await?;
        let Some(document) = view.document else {
            let unknown = baton::election::Refusal::UnknownElection { election: self.election.to_string() };
            return Err(unknown.into());
        };
        let Some(checkpoint) = document.checkpoint.as_deref() else {
            if let Some(held) = &held {
                // To look is a sign of life, also where there is nothing.
                renew(context, &self.election, held, &Renewal::new(held.epoch, held.credential)).await?;
            }
            let data = json!({"outcome": "nothing", "election": self.election, "checkpoint": null});
            let text = format!("nothing was left for the leader of {}", self.election);
            return Ok(Screen::new(data, text));
        };
        let since = self.since(checkpoint, context).await;
        let stays = self.unless_changed && since.as_ref().is_some_and(CoverageChanges::is_changed);
        let held = held.filter(|_| !stays);
        if let Some(held) = &held {
            let coordinator = &context.coordinator;
            coordinator.acknowledge(&self.election, held.epoch, held.credential, checkpoint).await?;
        }
        let state: Value = serde_json::from_str(&checkpoint.state).unwrap_or(Value::Null);
        let data = json!({
            "outcome": if held.is_some() { "acknowledged" } else { "seen" },
            "election": self.election,
            "checkpoint": {
                "seq": checkpoint.seq, "epoch": checkpoint.epoch, "by": checkpoint.by, "at": checkpoint.at,
                "summary": checkpoint.summary, "state": state, "reference": checkpoint.reference,
                "hash": checkpoint.hash, "covers": checkpoint.covers.as_ref().map(manifest::about),
            },
            "acknowledged": held.is_some() || checkpoint.acknowledged_by.is_some(),
            "since": since.as_ref().map(CoverageChanges::data),
        });
        let mut lines = described(checkpoint, &state);
        match (&since, &checkpoint.covers) {
            (Some(since), _) => lines.extend(since.lines()),
            (None, Some(covers)) => {
                let (covered, name) = (manifest::covered(covers), &self.election);
                lines.push(format!("{covered}; not compared (baton handover {name} --look --compare)"));
            }
            (None, None) => {}
        }
        let screen = Screen::new(data, lines.join("\n"));
        if stays {
            let note = "it is not taken on, since something that it covers was changed after it";
            return Ok(screen.note(note).exit(Exit::Error));
        }
        Ok(screen)
    }
}

impl Handover {
    /// What was changed since; none if that was not asked for, or if it covers nothing.
    async fn since<'a>(&self, checkpoint: &'a Checkpoint, context: &Context) -> Option<CoverageChanges<'a>> {
        let covers = checkpoint.covers.as_ref()?;
        let here = [PathBuf::from(".")];
        let below = match (self.compare.as_slice(), self.unless_changed) {
            ([], false) => return None,
            ([], true) => &here,
            (named, _) => named,
        };
        Some(CoverageChanges { covers, found: manifest::compare(covers, below, &context.state).await })
    }
}

fn described(checkpoint: &Checkpoint, state: &Value) -> Vec<String> {
    let mut lines = vec![format!(
        "checkpoint {} by {} with token {} at {}",
        checkpoint.seq, checkpoint.by, checkpoint.epoch, checkpoint.at
    )];
    lines.extend((!checkpoint.summary.is_empty()).then(|| clean(&checkpoint.summary)));
    if let Some(reference) = &checkpoint.reference {
        lines.push(format!("at {} (sha256 {})", clean(&reference.location), reference.sha256));
    }
    lines.extend((*state != Value::Null).then(|| serde_json::to_string_pretty(state).unwrap_or_default()));
    lines
}

/// What was changed after a checkpoint, of what it covers.
struct CoverageChanges<'a> {
    covers: &'a Coverage,
    found: Result<Differences, Failure>,
}

impl CoverageChanges<'_> {
    /// What cannot be compared is not known to be as it was.
    fn is_changed(&self) -> bool {
        self.found.as_ref().map_or(true, |found| !found.is_empty())
    }

    fn data(&self) -> Value {
        match &self.found {
            Ok(found) => manifest::data(found),
            Err(failure) => json!({"error": failure.message}),
        }
    }

    fn lines(&self) -> Vec<String> {
        match &self.found {
            Ok(found) => manifest::lines(self.covers, found),
            Err(failure) => vec![format!("{}: {}", manifest::covered(self.covers), clean(&failure.message))],
        }
    }
}
