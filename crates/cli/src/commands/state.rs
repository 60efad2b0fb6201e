//! `baton state`: small versioned values that the leader writes and its successor inherits.

use baton::Error;
use baton::election::{ElectionName, ItemName};
use baton::store::Access;
use baton::toolbox::{Item, Kind, Query};
use clap::{Args, Subcommand};
use serde_json::json;

use super::task::mandate;
use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::input::text_of;
use crate::output::{Failure, Outcome, table};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton state put refactor-auth plan @plan.json --as agent-a
  baton state put refactor-auth plan '{\"step\": 2}' --expect 1 --as agent-a    only on top of version 1
  baton state get refactor-auth plan
  baton state list refactor-auth

Only the leader writes. A value has at most 64 KiB; its last versions stay.")]
pub(crate) struct State {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Leader: put a value
    Put(Put),
    /// Print a value
    Get(Get),
    /// List the values
    List {
        /// The election
        election: ElectionName,
    },
}

#[derive(Args, Debug)]
struct Put {
    /// The election
    election: ElectionName,
    /// The name of the value
    name: ItemName,
    /// The value, at most 64 KiB; @FILE or - to read it
    value: String,
    #[command(flatten)]
    who: Who,
    /// Only on top of this version; 0 if there must be none
    #[arg(long, value_name = "VERSION")]
    expect: Option<u64>,
}

#[derive(Args, Debug)]
struct Get {
    /// The election
    election: ElectionName,
    /// The name of the value
    name: ItemName,
    /// The version to print, of those kept [default: the newest]
    #[arg(long, value_name = "N")]
    at: Option<u64>,
}

impl State {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.what {
            What::Put(put) => put.perform(global).await,
            What::Get(get) => get.perform(global).await,
            What::List { election } => list(global, election).await,
        }
    }
}

impl Put {
    async fn perform(&self, global: &Global) -> Outcome {
        let value = text_of(&self.value, "value")?;
        let context = Context::open(global, Access::Write).await?;
        let mandate = mandate(&context, &self.election, &self.who)?;
        let tools = context.coordinator.toolbox(&self.election);
        let put = tools.put(&self.name, mandate, &value, self.expect).await;
        context.remember();
        let put = put.map_err(|error| Failure::from_error(&error, Speaker::Holder))?;
        let data = json!({
            "outcome": "put", "election": self.election, "name": self.name, "version": put.version(),
        });
        context
            .output
            .say(&data, &format!("{} of {} is at version {}", self.name, self.election, put.version()))?;
        Ok(Exit::Done)
    }
}

impl Get {
    async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let value = context.coordinator.toolbox(&self.election).value(&self.name).await;
        let value = value.map_err(|error| Failure::from_error(&error, Speaker::Guard))?;
        let wanted = self.at.unwrap_or(value.version());
        let Some(version) = value.versions.iter().find(|version| version.version == wanted) else {
            let kept: Vec<String> =
                value.versions.iter().map(|version| version.version.to_string()).collect();
            return Err(Failure::new(
                Exit::Error,
                "no-such-item",
                format!("version {wanted} of `{}` is not kept", self.name),
                format!("kept are {}", kept.join(", ")),
            ));
        };
        if context.output.json {
            let mut data = json!(version);
            data["election"] = json!(self.election);
            data["name"] = json!(self.name);
            context.output.line(&data.to_string())?;
        } else {
            // As it is, unless it is for a terminal: it is another program's.
            context.output.line(&version.value)?;
        }
        Ok(Exit::Done)
    }
}

async fn list(global: &Global, election: &ElectionName) -> Outcome {
    let context = Context::open(global, Access::Read).await?;
    let found = context.coordinator.toolbox(election).all(Kind::Value, &Query::default()).await;
    let found = found.map_err(|error: Error| Failure::from_error(&error, Speaker::Guard))?;
    let mut rows = Vec::new();
    for item in &found {
        let Item::Value(value) = item else { continue };
        let Some(latest) = value.latest() else { continue };
        if context.output.json {
            let data = json!({
                "election": election, "name": value.name, "version": latest.version, "bytes": latest.value.len(),
                "by": latest.by, "epoch": latest.epoch, "at": latest.at,
            });
            context.output.line(&data.to_string())?;
        }
        rows.push(vec![
            value.name.to_string(),
            latest.version.to_string(),
            latest.value.len().to_string(),
            latest.by.to_string(),
            latest.epoch.to_string(),
            latest.at.to_string(),
        ]);
    }
    match (context.output.json, rows.is_empty()) {
        (true, _) => {}
        (false, true) => context.output.talk(&format!("{election} has no values")),
        (false, false) => {
            context.output.line(&table(&["NAME", "VERSION", "BYTES", "BY", "EPOCH", "AT"], &rows))?;
        }
    }
    Ok(Exit::Done)
}
