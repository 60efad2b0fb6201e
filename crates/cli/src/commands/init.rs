//! `baton init`: make a store, and make this user its operator.

use std::io::IsTerminal;
use std::path::PathBuf;

use baton::election::Refusal;
use baton::election::operator::OperatorKey;
use baton::store::Access;
use baton::{Decides, Error, Spread};
use clap::Args;
use serde_json::json;

use super::store_orders::waits;
use crate::context::Context;
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::{Failure, Output, clean};
use crate::screen::{Screen, StoreCommand};
use crate::secrets;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton init                                   a store in ./.baton
  baton init --name Ada                        the same, with a name beside the operator's key
  baton init --store 'git:.?remote=origin'     a store in a git remote
  baton init --store spanner://p/i/db --print  the tables that it needs

A server without an operator prints a code at its start; its first operator passes it with --code CODE.
The operator's secret key stays in this user's configuration folder (0600); the store holds the public \
half. In a store that has operators, only they can add another: baton operator add. Agents that run as the same Unix user, or that can write the store, can defeat this: run them as \
another user, or on another host with a server between.")]
pub(crate) struct Init {
    /// The code that a server without an operator printed at its start; its first operator needs it. Baton asks for it on a terminal
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// The same, in a file
    #[arg(long, value_name = "FILE", env = "BATON_OPERATOR_CODE_FILE", hide_env = true)]
    code_file: Option<PathBuf>,
    /// The operator's name, shown beside the key on the page, in `audit` and in `status`
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print the schema that the store needs (tables, functions), and do nothing else.
    #[arg(long)]
    print: bool,
}

impl StoreCommand for Init {
    const SPEAKER: Speaker = Speaker::Operator;

    fn access(&self) -> Access {
        if self.print { Access::Read } else { Access::Write }
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        if self.print {
            return Ok(layout(context));
        }
        context.coordinator.backend().prepare().await.map_err(Error::from)?;
        // Everywhere or nowhere: who may not write one election becomes no operator of the others.
        context.coordinator.operators().check_writable().await?;
        let (key, made) = keys::load_or_make()?;
        let location = context.coordinator.backend().location();
        let path = keys::path()?.display().to_string();
        let enrolled = self.enrol(context, &key).await;
        let spread = match enrolled {
            Ok(spread) => spread,
            Err(EnrolmentFailure::Refused(Error::Refused(Refusal::WrongKey { .. }))) => {
                return Err(not_the_first(&location, &key, &path));
            }
            Err(EnrolmentFailure::Refused(error)) => {
                let info = context.coordinator.info().await;
                let begun = info.is_ok_and(|info| info.operator_keys.contains(&key.public()));
                return Err(not_everywhere(&location, &error, begun));
            }
            Err(EnrolmentFailure::Failed(failure)) => return Err(failure),
        };
        if let (Some(signed), Some(name)) = (spread.signed, &self.name) {
            return Ok(waits(&format!("operator {} named {}", key.public(), clean(name)), signed));
        }
        let data = json!({
            "outcome": "initialised", "store": location, "operator": key.public(), "name": self.name,
            "key_file": path, "key_made": made, "elections": spread.met,
        });
        let verb = if made { "made" } else { "found" };
        let name = self.name.as_ref().map_or(String::new(), |name| format!("{} ", clean(name)));
        let text =
            format!("store     {location}\noperator  {name}{}\nkey       {verb} at {path}", key.public());
        Ok(Screen::new(data, text))
    }
}

/// Why nobody was enrolled.
enum EnrolmentFailure {
    Refused(Error),
    Failed(Failure),
}

impl Init {
    /// Enrols the key. A server that has no operator is shown its code, once it asks for it.
    async fn enrol(&self, context: &Context, key: &OperatorKey) -> Result<Spread, EnrolmentFailure> {
        let coordinator = &context.coordinator;
        let refused = match coordinator
            .operators()
            .enrol_named(key, self.code.as_deref(), self.name.as_deref())
            .await
        {
            Err(error @ Error::Refused(Refusal::WrongKey { .. })) => error,
            outcome => return outcome.map_err(EnrolmentFailure::Refused),
        };
        let asks_for_code = coordinator.decides() == Decides::Server
            && coordinator.info().await.is_ok_and(|info| info.operator_keys.is_empty());
        if !asks_for_code {
            return Err(EnrolmentFailure::Refused(refused));
        }
        if self.code.is_some() {
            return Err(EnrolmentFailure::Failed(no_code(&refused)));
        }
        let code = match &self.code_file {
            Some(file) => Some(secrets::read(file).map_err(EnrolmentFailure::Failed)?),
            None => asked_for(context.output).map_err(|error| EnrolmentFailure::Failed(error.into()))?,
        };
        let Some(code) = code else { return Err(EnrolmentFailure::Failed(no_code(&refused))) };
        match coordinator.operators().enrol_named(key, Some(code.trim()), self.name.as_deref()).await {
            Err(error @ Error::Refused(Refusal::WrongKey { .. })) => {
                Err(EnrolmentFailure::Failed(no_code(&error)))
            }
            outcome => outcome.map_err(EnrolmentFailure::Refused),
        }
    }
}

/// The code, asked for on a terminal.
fn asked_for(output: Output) -> std::io::Result<Option<String>> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    output.talk("the code that the server printed at its start:");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(Some(line).filter(|line| !line.trim().is_empty()))
}

/// A server believes nobody on its own word.
fn no_code(refused: &Error) -> Failure {
    Failure::new(
        Exit::Operator,
        "no-operator",
        refused.to_string(),
        "baton init --code CODE: the server printed it on stderr, and keeps it in a file beside its store, for the user that started it; or \
         start the server with --operator KEY",
    )
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

/// Says what was done before it failed, and how to go on.
fn not_everywhere(location: &str, error: &Error, begun: bool) -> Failure {
    let failure = Failure::from_error(error, Speaker::Operator);
    if !begun {
        return failure;
    }
    let why = &failure.message;
    let fix = failure.hint.as_deref().unwrap_or("put it right");
    Failure {
        message: format!("this user is an operator of {location}, but not of every election in it: {why}"),
        hint: Some(format!("{fix}; then run `baton init` again, which goes on where it stopped")),
        ..failure
    }
}

fn layout(context: &Context) -> Screen {
    let store = context.coordinator.backend();
    let layout = store.layout();
    let data = json!({ "outcome": "layout", "store": store.location(), "layout": layout });
    let text = layout.unwrap_or_else(|| format!("{} needs nothing laid out", store.location()));
    Screen::new(data, text.trim_end())
}
