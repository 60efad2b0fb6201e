//! `baton operator`: who the operators are.

use baton::election::operator::{OperatorKey, PublicKey};
use baton::store::Access;
use baton::{Error, Spread};
use clap::{Args, Subcommand};
use serde_json::json;

use super::everything::partly;
use super::operator::failure;
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::{Failure, Outcome, Output, table};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton operator key                 on the second person's machine: prints a public key
  baton operator add 4b9884b1…       by an operator: that key is an operator's too
  baton operator list
  baton operator remove 4b9884b1…

The first operator of a store is made by baton init; every other one is added by an operator. The last one \
cannot be removed.")]
pub(crate) struct Operator {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Print this user's public key, made if there is none, for an operator to add
    Key,
    /// Operator: this key is an operator's too, in all elections
    Add {
        /// The public key, as `baton operator key` prints it
        key: PublicKey,
    },
    /// See whose keys are operators', and in how many elections
    List,
    /// Operator: this key is an operator's no longer, in no election
    Remove {
        /// The public key, as `baton operator list` shows it
        key: PublicKey,
    },
}

impl Operator {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.what {
            What::Key => show_own(Output { json: global.json }),
            What::List => list(global).await,
            What::Add { key } => {
                let (context, own) = open(global).await?;
                let done = context.coordinator.add_operator(&own, *key).await;
                tell(&context, &own, ("added", "is an operator's"), *key, done)
            }
            What::Remove { key } => {
                let (context, own) = open(global).await?;
                let done = context.coordinator.remove_operator(&own, *key).await;
                tell(&context, &own, ("removed", "is an operator's no longer"), *key, done)
            }
        }
    }
}

async fn open(global: &Global) -> Result<(Context, OperatorKey), Failure> {
    let own = keys::load()?;
    Ok((Context::open(global, Access::Write).await?, own))
}

fn show_own(output: Output) -> Outcome {
    let (key, made) = keys::load_or_make()?;
    let path = keys::path()?.display().to_string();
    let data = json!({"outcome": "key", "operator": key.public(), "key_file": path, "key_made": made});
    output.say(&data, &key.public().to_string())?;
    if made {
        output.talk(&format!("the secret half was made at {path}"));
    }
    Ok(Exit::Done)
}

/// Tells what became of a change. One that did not reach every election is a failure, and can be repeated.
fn tell(
    context: &Context,
    own: &OperatorKey,
    (outcome, words): (&str, &str),
    key: PublicKey,
    done: Result<Spread, Error>,
) -> Outcome {
    context.remember();
    let spread = done.map_err(|error| failure(&error, own))?;
    let changed = spread.elections;
    let data = json!({"outcome": outcome, "operator": key, "elections": changed, "waiting": spread.waiting});
    if let Some(failure) = partly(&spread, own, &format!("{outcome}, but not in")) {
        return Err(failure);
    }
    let elections = if changed == 1 { "election" } else { "elections" };
    context.output.say(&data, &format!("{key} {words}; {changed} {elections} changed"))?;
    if !spread.waiting.is_empty() {
        let names: Vec<String> = spread.waiting.iter().map(ToString::to_string).collect();
        context.output.talk(&format!("other operators must sign it in: {}", names.join(", ")));
        return Ok(Exit::Operator);
    }
    Ok(Exit::Done)
}

async fn list(global: &Global) -> Outcome {
    let context = Context::open(global, Access::Read).await?;
    let fail = |error: Error| Failure::from_error(&error, Speaker::Operator);
    let info = context.coordinator.info().await.map_err(fail)?;
    let mut counted: Vec<(PublicKey, usize)> = info.operator_keys.iter().map(|key| (*key, 0)).collect();
    let elections = context.coordinator.elections().await.map_err(fail)?;
    for election in &elections {
        let view = match context.coordinator.view(election).await {
            Ok(view) => view,
            // What is wrong with one election says nothing of the operators of the others.
            Err(Error::Store(error)) if !error.is_passing() => {
                context.output.talk(&format!("`{election}` could not be read: {error}"));
                continue;
            }
            Err(error) => return Err(fail(error)),
        };
        for key in view.document.iter().flat_map(|document| document.operator_keys.iter()) {
            match counted.iter_mut().find(|(known, _)| known == key) {
                Some((_, count)) => *count += 1,
                None => counted.push((*key, 1)),
            }
        }
    }
    context.remember();
    let own = keys::load().ok().map(|key| key.public());
    let mut rows = Vec::new();
    for (key, count) in counted {
        let (yours, in_store) = (own == Some(key), info.operator_keys.contains(&key));
        if context.output.json {
            let data = json!({"operator": key, "you": yours, "in_store": in_store, "elections": count});
            context.output.line(&data.to_string())?;
        }
        let store = if in_store { "yes" } else { "no" };
        let you = if yours { "you" } else { "" };
        let shown = [&key.to_string(), store, &format!("{count} of {}", elections.len()), you];
        rows.push(shown.map(str::to_string).to_vec());
    }
    if !context.output.json {
        if rows.is_empty() {
            context.output.talk("there is no operator: baton init makes this user the first one");
        } else {
            context.output.line(&table(&["OPERATOR", "NEW ELECTIONS", "ELECTIONS", ""], &rows))?;
        }
    }
    Ok(Exit::Done)
}
