//! `baton state`: small versioned values that the leader writes and its successor inherits.

use baton::election::{ElectionName, ItemName};
use baton::store::Access;
use baton::toolbox::{Item, Kind, Query};
use clap::{Args, Subcommand};
use serde_json::json;

use super::task::mandate;
use crate::context::{AgentOption, Context, Global};
use crate::exit::{Exit, Speaker};
use crate::input::text_of;
use crate::output::{Failure, Outcome};
use crate::screen::{Screen, StoreCommand};

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
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Leader: put a value
    Put(Put),
    /// Print a value
    Get(Get),
    /// List the values
    List(List),
}

#[derive(Args, Debug)]
struct List {
    /// The election
    election: ElectionName,
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
    who: AgentOption,
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
        match &self.action {
            Action::Put(put) => put.perform(global).await,
            Action::Get(get) => get.perform(global).await,
            Action::List(list) => list.perform(global).await,
        }
    }
}

impl StoreCommand for Put {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Holder;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let value = text_of(&self.value, "value")?;
        let mandate = mandate(context, &self.election, &self.who)?;
        let tools = context.coordinator.toolbox(&self.election);
        let put = tools.put(&self.name, mandate, &value, self.expect).await?;
        let data = json!({
            "outcome": "put", "election": self.election, "name": self.name, "version": put.version(),
        });
        Ok(Screen::new(data, format!("{} of {} is at version {}", self.name, self.election, put.version())))
    }
}

impl StoreCommand for Get {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let value = context.coordinator.toolbox(&self.election).value(&self.name).await?;
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
        let mut data = json!(version);
        data["election"] = json!(self.election);
        data["name"] = json!(self.name);
        // As it is, unless it is for a terminal: it is another program's.
        Ok(Screen::new(data, version.value.clone()))
    }
}

impl StoreCommand for List {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let election = &self.election;
        let (mut data, mut rows) = (Vec::new(), Vec::new());
        for item in &context.coordinator.toolbox(election).all(Kind::Value, &Query::default()).await? {
            let Item::Value(value) = item else { continue };
            let Some(latest) = value.latest() else { continue };
            let (version, bytes) = (latest.version, latest.value.len());
            data.push(json!({
                "election": election, "name": value.name, "version": version, "bytes": bytes,
                "by": latest.by, "token": latest.epoch, "at": latest.at,
            }));
            rows.push(vec![
                value.name.to_string(),
                version.to_string(),
                bytes.to_string(),
                latest.by.to_string(),
                latest.epoch.to_string(),
                latest.at.to_string(),
            ]);
        }
        let head = ["NAME", "VERSION", "BYTES", "BY", "TOKEN", "AT"];
        Ok(Screen::table(data, &head, &rows, format!("{election} has no values")))
    }
}
