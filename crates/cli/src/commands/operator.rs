//! `baton operator`: who the operators are.

use baton::election::operator::{OperatorKey, PublicKey};
use baton::election::store_quorum::{OrderKind, OrderOutcome, StoreQuorum};
use baton::store::Access;
use baton::{Error, Spread};
use clap::{Args, Subcommand};
use serde_json::json;

use super::acts::failure;
use super::pause_all::partly;
use super::store_orders::{rule, waits};
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::options::break_glass::BreakGlassWithReason;
use crate::output::{Failure, Outcome, Output, clean};
use crate::screen::{Screen, StoreCommand};

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
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
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
        break_glass: BreakGlassWithReason,
    },
    /// List the operators, and in how many elections each is one
    List,
    /// Operator: remove an operator, from all elections
    Remove {
        /// The public key, as `baton operator list` shows it
        key: PublicKey,
        #[command(flatten)]
        break_glass: BreakGlassWithReason,
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
    break_glass: BreakGlassWithReason,
}

impl Operator {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.action {
            Action::Key => show_own()?.print(Output { json: global.json }),
            Action::Add { .. } | Action::List | Action::Remove { .. } | Action::Quorum(_) => {
                StoreCommand::perform(self, global).await
            }
        }
    }

    /// Whether it only looks.
    fn looks(&self) -> bool {
        matches!(self.action, Action::Key | Action::List | Action::Quorum(SetQuorum { quorum: None, .. }))
    }
}

impl StoreCommand for Operator {
    const SPEAKER: Speaker = Speaker::Operator;

    fn access(&self) -> Access {
        if self.looks() { Access::Read } else { Access::Write }
    }

    fn check(&self) -> Result<(), Failure> {
        if self.looks() { Ok(()) } else { keys::load().map(drop) }
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        match &self.action {
            Action::Key => show_own(),
            Action::List => list(context).await,
            Action::Quorum(quorum) => quorum.screen(context).await,
            Action::Add { key, name, break_glass } => {
                let own = keys::load()?;
                let (name, break_glass) = (name.as_deref(), break_glass.reason());
                let done = context.coordinator.operators().add_urgently(&own, *key, name, break_glass).await;
                changed(&own, ("added", "is an operator"), *key, done)
            }
            Action::Remove { key, break_glass } => {
                let own = keys::load()?;
                let done =
                    context.coordinator.operators().remove_urgently(&own, *key, break_glass.reason()).await;
                changed(&own, ("removed", "is no longer an operator"), *key, done)
            }
        }
    }
}

impl SetQuorum {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let Some(quorum) = self.quorum else {
            let info = context.coordinator.info().await?;
            return Ok(Screen::new(json!({"quorum": info.quorum}), rule(&info.quorum)));
        };
        let rules = StoreQuorum { quorum, orders: self.orders.clone(), break_glass: self.allow_break_glass };
        let own = keys::load()?;
        let done = context.coordinator.orders().set_quorum(&own, &rules, self.break_glass.reason()).await;
        match done.map_err(|error| failure(&error, &own))? {
            OrderOutcome::Done => Ok(Screen::new(json!({"outcome": "set", "quorum": rules}), rule(&rules))),
            OrderOutcome::Signed { have, need } => Ok(waits("quorum", (have, need))),
        }
    }
}

fn show_own() -> Result<Screen, Failure> {
    let (key, made) = keys::load_or_make()?;
    let path = keys::path()?.display().to_string();
    let data = json!({"outcome": "key", "operator": key.public(), "key_file": path, "key_made": made});
    let note = made.then(|| format!("the secret half was made at {path}"));
    Ok(Screen::new(data, key.public().to_string()).notes(note))
}

/// What became of a change. One that did not reach every election is a failure, and can be repeated.
fn changed(
    own: &OperatorKey,
    (outcome, words): (&str, &str),
    key: PublicKey,
    done: Result<Spread, Error>,
) -> Result<Screen, Failure> {
    let spread = done.map_err(|error| failure(&error, own))?;
    if let Some(signed) = spread.signed {
        return Ok(waits(&format!("operator {key} {outcome}"), signed));
    }
    let changed = spread.elections;
    let data = json!({"outcome": outcome, "operator": key, "elections": changed, "waiting": spread.waiting});
    if let Some(failure) = partly(&spread, own, &format!("{outcome}, but not in")) {
        return Err(failure);
    }
    let elections = if changed == 1 { "election" } else { "elections" };
    let screen = Screen::new(data, format!("{key} {words}; {changed} {elections} changed"));
    if spread.waiting.is_empty() {
        return Ok(screen);
    }
    let names: Vec<String> = spread.waiting.iter().map(ToString::to_string).collect();
    let note = format!("other operators must sign it in: {}", names.join(", "));
    Ok(screen.note(note).exit(Exit::Operator))
}

async fn list(context: &Context) -> Result<Screen, Failure> {
    let info = context.coordinator.info().await?;
    let mut counted: Vec<(PublicKey, usize)> = info.operator_keys.iter().map(|key| (*key, 0)).collect();
    let mut elections = 0;
    for election in &context.coordinator.elections().await? {
        let view = match context.coordinator.view(election).await {
            Ok(view) => view,
            // What is wrong with one election says nothing of the operators of the others.
            Err(Error::Store(error)) if !error.is_passing() => {
                context.output.talk(&format!("`{election}` could not be read: {error}"));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        elections += usize::from(view.document.is_some());
        for key in view.document.iter().flat_map(|document| document.operator_keys.iter()) {
            match counted.iter_mut().find(|(known, _)| known == key) {
                Some((_, count)) => *count += 1,
                None => counted.push((*key, 1)),
            }
        }
    }
    let own = keys::load().ok().map(|key| key.public());
    let (mut data, mut rows) = (Vec::new(), Vec::new());
    for (key, count) in counted {
        let (yours, in_store) = (own == Some(key), info.operator_keys.contains(&key));
        let name = info.operator_names.get(&key);
        data.push(json!({
            "operator": key, "name": name, "you": yours, "in_store": in_store, "elections": count,
        }));
        let store = if in_store { "yes" } else { "no" };
        let you = if yours { "you" } else { "" };
        let name = name.map_or("-".to_string(), |name| clean(name));
        let shown = [&name, &key.to_string(), store, &format!("{count} of {elections}"), you];
        rows.push(shown.map(str::to_string).to_vec());
    }
    let none = "there is no operator: baton init makes this user the first one";
    Ok(Screen::table(data, &["NAME", "OPERATOR", "NEW ELECTIONS", "ELECTIONS", ""], &rows, none))
}
