//! `baton init`: make a store, and make this user its operator.

use baton::Error;
use baton::election::Refusal;
use baton::election::operator::OperatorKey;
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
  baton init --store spanner://p/i/db --print  the tables that it needs, for whoever may make them

The operator's secret key stays in this user's configuration folder (0600); the store holds the public \
half. In a store that has an operator, only that one can add another: baton operator add. Agents that run as the same Unix user, or that can write the store, can defeat this: run them as \
another user, or on another host with a server between.")]
pub(crate) struct Init {
    /// Print what the store needs laid out (tables, functions), and do nothing.
    #[arg(long)]
    print: bool,
}

impl Init {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        if self.print {
            return print_layout(global).await;
        }
        let context = Context::open(global, Access::Write).await?;
        let prepared = context.coordinator.store().prepare().await.map_err(baton::Error::from);
        prepared.map_err(|error| Failure::from_error(&error, Speaker::Operator))?;
        let (key, made) = keys::load_or_make()?;
        let location = context.coordinator.store().location();
        let path = keys::path()?.display().to_string();
        let enrolled = context.coordinator.enrol(&key).await;
        context.remember();
        let elections = enrolled.map_err(|error| match error {
            Error::Refused(Refusal::WrongKey { .. }) => not_the_first(&location, &key, &path),
            error => Failure::from_error(&error, Speaker::Operator),
        })?;
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

/// A store that has operators takes another one only from them.
fn not_the_first(location: &str, key: &OperatorKey, path: &str) -> Failure {
    let public = key.public();
    let mut failure = Failure::new(
        Exit::Operator,
        "no-operator",
        format!("{location} has an operator already, and this user, with the key at {path}, is not one"),
        format!("let an operator run: baton operator add {public}"),
    );
    failure.facts.insert("operator".to_string(), json!(public));
    failure
}

async fn print_layout(global: &Global) -> Outcome {
    let context = Context::open(global, Access::Read).await?;
    let store = context.coordinator.store();
    let layout = store.layout();
    let data = json!({ "outcome": "layout", "store": store.location(), "layout": layout });
    let text = layout.unwrap_or_else(|| format!("{} needs nothing laid out", store.location()));
    context.output.say(&data, text.trim_end())?;
    Ok(Exit::Done)
}
