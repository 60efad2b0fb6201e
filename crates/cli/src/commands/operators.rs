//! `baton operator`: who the operators are.

use baton::election::operator::{OperatorKey, PublicKey};
use baton::election::store_quorum::{OrderKind, OrderOutcome, StoreQuorum};
use baton::store::Access;
use baton::{Error, Spread};
use clap::{Args, Subcommand};
use serde_json::json;

use super::everything::partly;
use super::operator::{AloneBecause, failure};
use super::orders::{rule, waits};
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::{Failure, Outcome, Output, clean, table};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton operator key                 on the second person's machine: prints a public key
  baton operator add 4b9884b1… --name Ben    run by an operator: adds that key
  baton operator list
  baton operator remove 4b9884b1…
  baton operator quorum 2            two operators must sign an order on the store

`baton init` makes the first operator of a store; operators add all others. The last operator cannot be removed.")]
pub(crate) struct Operator {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Print this user's public key, for an operator to add; creates the key if needed
    Key,
    /// Operator: add an operator, in all elections
    Add {
        /// The public key, as `baton operator key` prints it
        key: PublicKey,
        /// The operator's name, shown beside the key; adding the key again renames it
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        alone: AloneBecause,
    },
    /// List the operators, and in how many elections each is one
    List,
    /// Operator: remove an operator, from all elections
    Remove {
        /// The public key, as `baton operator list` shows it
        key: PublicKey,
        #[command(flatten)]
        alone: AloneBecause,
    },
    /// Show how many operators must sign an order on the store; operator: set it
    Quorum(SetQuorum),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton operator quorum                                  show it
  baton operator quorum 2                                all orders but pause and revoke-token take two operators
  baton operator quorum 2 --for resume,create-token      only these, and changes of the operators and of the quorum
  baton operator quorum 2 --for pause,resume,create-token,revoke-token

One operator alone can pause everything and revoke a token: an emergency stop must not wait. Name them in --for to change that. \
An order that takes several waits for a day: baton cosign --list.")]
struct SetQuorum {
    /// How many operators must sign an order on the store [default: show the quorum]
    quorum: Option<u8>,
    /// Which orders: pause, resume, create-token, revoke-token [default: all but pause and revoke-token]
    #[arg(long = "for", value_name = "ORDER,…", value_delimiter = ',', requires = "quorum")]
    orders: Vec<OrderKind>,
    /// Let one operator act at once with --break-glass and a reason
    #[arg(long, requires = "quorum")]
    allow_break_glass: bool,
    #[command(flatten)]
    alone: AloneBecause,
}

impl Operator {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.what {
            What::Key => show_own(Output { json: global.json }),
            What::List => list(global).await,
            What::Quorum(quorum) => quorum.perform(global).await,
            What::Add { key, name, alone } => {
                let (context, own) = open(global).await?;
                let (name, alone) = (name.as_deref(), alone.reason());
                let done = context.coordinator.add_operator_urgently(&own, *key, name, alone).await;
                tell(&context, &own, ("added", "is an operator's"), *key, done)
            }
            What::Remove { key, alone } => {
                let (context, own) = open(global).await?;
                let done = context.coordinator.remove_operator_urgently(&own, *key, alone.reason()).await;
                tell(&context, &own, ("removed", "is an operator's no longer"), *key, done)
            }
        }
    }
}

impl SetQuorum {
    async fn perform(&self, global: &Global) -> Outcome {
        let Some(quorum) = self.quorum else {
            let context = Context::open(global, Access::Read).await?;
            let info = context.coordinator.info().await;
            let info = info.map_err(|error| Failure::from_error(&error, Speaker::Operator))?;
            context.remember();
            context.output.say(&json!({"quorum": info.quorum}), &rule(&info.quorum))?;
            return Ok(Exit::Done);
        };
        let rules = StoreQuorum { quorum, orders: self.orders.clone(), break_glass: self.allow_break_glass };
        let (context, own) = open(global).await?;
        let done = context.coordinator.set_store_quorum(&own, &rules, self.alone.reason()).await;
        context.remember();
        match done.map_err(|error| failure(&error, &own))? {
            OrderOutcome::Done => {
                context.output.say(&json!({"outcome": "set", "quorum": rules}), &rule(&rules))?;
                Ok(Exit::Done)
            }
            OrderOutcome::Signed { have, need } => waits(&context, "quorum", (have, need)),
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
    if let Some(signed) = spread.signed {
        return waits(context, &format!("operator {key} {outcome}"), signed);
    }
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
    let mut elections = 0;
    for election in &context.coordinator.elections().await.map_err(fail)? {
        let view = match context.coordinator.view(election).await {
            Ok(view) => view,
            // What is wrong with one election says nothing of the operators of the others.
            Err(Error::Store(error)) if !error.is_passing() => {
                context.output.talk(&format!("`{election}` could not be read: {error}"));
                continue;
            }
            Err(error) => return Err(fail(error)),
        };
        elections += usize::from(view.document.is_some());
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
        let name = info.operator_names.get(&key);
        if context.output.json {
            let data = json!({
                "operator": key, "name": name, "you": yours, "in_store": in_store, "elections": count,
            });
            context.output.line(&data.to_string())?;
        }
        let store = if in_store { "yes" } else { "no" };
        let you = if yours { "you" } else { "" };
        let name = name.map_or("-".to_string(), |name| clean(name));
        let shown = [&name, &key.to_string(), store, &format!("{count} of {elections}"), you];
        rows.push(shown.map(str::to_string).to_vec());
    }
    if !context.output.json {
        if rows.is_empty() {
            context.output.talk("there is no operator: baton init makes this user the first one");
        } else {
            context.output.line(&table(&["NAME", "OPERATOR", "NEW ELECTIONS", "ELECTIONS", ""], &rows))?;
        }
    }
    Ok(Exit::Done)
}
