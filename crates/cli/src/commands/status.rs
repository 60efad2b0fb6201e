//! `baton status`: see who leads what.

use baton::election::{ElectionName, Refusal};
use baton::store::Access;
use clap::Args;

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

On a store that does not stamp (git), what is left of a lease is what this user has itself seen.")]
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
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Guard);
        let view = context.coordinator.view(election).await.map_err(fail)?;
        let Some(document) = &view.document else {
            return Err(fail(Refusal::UnknownElection { election: election.to_string() }.into()));
        };
        context.output.say(&show::data(document, view.age), &show::text(&view))?;
        Ok(Exit::Done)
    }

    async fn all(&self, context: &Context) -> Outcome {
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Guard);
        let mut rows = Vec::new();
        for election in context.coordinator.elections().await.map_err(fail)? {
            let view = context.coordinator.view(&election).await.map_err(fail)?;
            let Some(document) = &view.document else { continue };
            if context.output.json {
                context.output.line(&show::data(document, view.age).to_string())?;
            } else {
                rows.push(show::row(document, view.age));
            }
        }
        if !context.output.json {
            if rows.is_empty() {
                context.output.talk(&format!("no elections in {}", context.coordinator.store().location()));
            } else {
                context.output.line(&table(&show::HEAD, &rows))?;
            }
        }
        Ok(Exit::Done)
    }
}
