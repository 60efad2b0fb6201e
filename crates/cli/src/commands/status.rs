//! `baton status`: see who leads what.

use baton::election::{ElectionName, Refusal};
use baton::store::{Access, NativeLeader};
use baton::{Error, View};
use clap::Args;
use serde_json::{Value, json};

use super::line::{self, Standing};
use super::show;
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, table};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton status                       all elections
  baton status refactor-auth         one, in full
  baton status --json | jq -r 'select(.state == \"held\") | .leader.agent'

On a store that does not stamp (git), what is left of a lease is what this user has itself seen. Where one \
record is diverged or corrupt, the other elections are shown all the same, and the exit code is 7.")]
pub(crate) struct Status {
    /// Which one [default: all]
    election: Option<ElectionName>,
}

impl Status {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let outcome = match &self.election {
            Some(election) => self.one(&context, election).await,
            None => self.all(&context).await,
        };
        context.remember();
        outcome
    }

    async fn one(&self, context: &Context, election: &ElectionName) -> Outcome {
        let fail = |error: Error| Failure::from_error(&error, Speaker::Guard);
        let Some(seen) = Seen::of(context, election).await.map_err(fail)? else {
            return Err(fail(Refusal::UnknownElection { election: election.to_string() }.into()));
        };
        let (text, native) = (show::text(&seen.view), line::native_lines(&seen.native));
        let lines = [vec![text], line::lines(&seen.line), native].concat();
        context.output.say(&seen.data(), &lines.join("\n"))?;
        Ok(Exit::Done)
    }

    async fn all(&self, context: &Context) -> Outcome {
        let fail = |error: Error| Failure::from_error(&error, Speaker::Guard);
        let mut rows = Vec::new();
        let mut broken: Vec<Failure> = Vec::new();
        for election in context.coordinator.elections().await.map_err(fail)? {
            match Seen::of(context, &election).await {
                Ok(None) => {}
                Ok(Some(seen)) if context.output.json => context.output.line(&seen.data().to_string())?,
                Ok(Some(seen)) => rows.push(show::row(&seen.view)),
                // What is wrong with one record says nothing of the others.
                Err(Error::Store(error)) if !error.is_passing() => {
                    let cells = [election.as_str(), error.code(), "-", "-", "-", ""];
                    rows.push(cells.map(str::to_string).to_vec());
                    broken.push(of_election(&election, error.into()));
                }
                Err(error) => return Err(fail(error)),
            }
        }
        if !context.output.json {
            if rows.is_empty() {
                context.output.talk(&format!("no elections in {}", context.coordinator.store().location()));
            } else {
                context.output.line(&table(&show::HEAD, &rows))?;
            }
        }
        let Some(last) = broken.pop() else { return Ok(Exit::Done) };
        for failure in &broken {
            context.output.fail(failure);
        }
        Err(last)
    }
}

/// An election that was looked at.
struct Seen {
    view: View,
    line: Vec<Standing>,
    /// Those in the store's own line, where it has one.
    native: Vec<NativeLeader>,
}

impl Seen {
    /// None if there is no such election.
    async fn of(context: &Context, election: &ElectionName) -> Result<Option<Seen>, Error> {
        let view = context.coordinator.view(election).await?;
        let Some(document) = &view.document else { return Ok(None) };
        let line = line::of(&context.coordinator, document).await?;
        let native = context.coordinator.line(election, line::MAX_NATIVE).await?;
        Ok(Some(Seen { view, line, native }))
    }

    fn data(&self) -> Value {
        let mut data = show::data(&self.view);
        let native = self.view.native;
        data["candidates"] = if native { line::native_data(&self.native) } else { line::data(&self.line) };
        data
    }
}

/// A failure that concerns one election among others.
fn of_election(election: &ElectionName, error: Error) -> Failure {
    let mut failure = Failure::from_error(&error, Speaker::Guard);
    failure.message = format!("`{election}`: {}", failure.message);
    failure.facts.insert("election".to_string(), json!(election));
    failure
}
