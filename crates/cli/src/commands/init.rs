//! `baton init`: make a store, and make this user its operator.

use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton init                                   a store in ./.baton
  baton init --store 'git:.?remote=origin'     a store in a git remote

The operator's secret key stays in this user's configuration folder (0600); the store holds the public \
half. Agents that run as the same Unix user, or that can write the store, can defeat this: run them as \
another user, or on another host with a server between.")]
pub(crate) struct Init {}

impl Init {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Write).await?;
        let (key, made) = keys::load_or_make()?;
        let enrolled = context.coordinator.enrol(&key).await;
        let elections = enrolled.map_err(|error| Failure::from_error(&error, Speaker::Operator))?;
        let location = context.coordinator.store().location();
        let path = keys::path()?.display().to_string();
        let data = json!({
            "outcome": "initialised", "store": location, "operator": key.public(), "key_file": path,
            "key_made": made, "elections": elections,
        });
        let verb = if made { "made" } else { "found" };
        let text = format!("store     {location}\noperator  {}\nkey       {verb} at {path}", key.public());
        context.output.say(&data, &text)?;
        Ok(Exit::Done)
    }
}
