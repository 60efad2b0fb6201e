//! A command that takes a look at circuit breakers is decided on what the store shows of them.
//!
//! Most policies do not look at them: only who is refused for want of a look is looked at, and asks again. The look is before the election is
//! locked, as with regions: a breaker that opens between the look and the decision is not seen. Where the store tells no ages, a breaker is as old
//! as this engine has watched it, so that it may bar for longer, never for less.

use baton_api::CommandError;
use baton_election::{Command, ElectionName};
use baton_executor::breakers::{needs_look, with_open_breakers};

use super::{Engine, Outcome};

impl Engine {
    /// Carries out a command, with a look at breakers if it takes one.
    pub(super) async fn execute_looking(&self, election: &ElectionName, command: &Command) -> Outcome {
        if needs_look(command) {
            return Box::pin(self.look_and_execute(election, command)).await;
        }
        match (self.shared.execute(election, command).await, command) {
            (Err(CommandError::Refused(refusal)), Command::Acquire(_)) if refusal.asks_for_breakers() => {
                Box::pin(self.look_and_execute(election, command)).await
            }
            (outcome, _) => outcome,
        }
    }

    /// Carries out a command with the state of the breakers that concern it.
    pub(super) async fn look_and_execute(&self, election: &ElectionName, command: &Command) -> Outcome {
        let document = self.view(election).await?.document;
        let executor = &self.shared.executor;
        let command = with_open_breakers(executor, election, document.as_ref(), command).await?;
        self.shared.execute(election, &command).await
    }
}
