//! A command that takes a look at circuit breakers is decided on what the store shows of them.
//!
//! Most policies do not look at them: only who is refused for want of a look is looked at, and asks again. The look is before the election is
//! locked, as with regions: a breaker that opens between the look and the decision is not seen. Where the store tells no ages, a breaker is as old
//! as this engine has watched it, so that it may bar for longer, never for less.

use baton_api::CommandError;
use baton_election::command::{Acquire, Finding, Report};
use baton_election::removal_rules::OpenBreaker;
use baton_election::{AgentName, Command, ElectionName};
use baton_executor::breakers::open_breakers;

use super::{Engine, Outcome, View};

impl Engine {
    /// Carries out a command, with a look at breakers if it takes one.
    pub(super) async fn execute_looking(&self, election: &ElectionName, command: &Command) -> Outcome {
        if let Command::Report(report @ Report { finding: Finding::Breaker, open: None, .. }) = command {
            return Box::pin(self.look_and_report(election, report)).await;
        }
        match (self.shared.execute(election, command).await, command) {
            (Err(CommandError::Refused(refusal)), Command::Acquire(acquire))
                if refusal.asks_for_breakers() =>
            {
                Box::pin(self.look_and_acquire(election, acquire.clone())).await
            }
            (outcome, _) => outcome,
        }
    }

    /// Asks for the lease, with the state of the breakers that concern the agent that asks.
    pub(super) async fn look_and_acquire(&self, election: &ElectionName, acquire: Acquire) -> Outcome {
        let open = Some(self.open_breakers(election, Some(&acquire.agent)).await?);
        self.shared.execute(election, &Command::Acquire(Acquire { open, ..acquire })).await
    }

    async fn look_and_report(&self, election: &ElectionName, report: &Report) -> Outcome {
        let open = Some(self.open_breakers(election, None).await?);
        self.shared.execute(election, &Command::Report(Report { open, ..report.clone() })).await
    }

    /// The open breakers of an agent, or of the leader if nobody is named, as far as the policy looks at them.
    async fn open_breakers(
        &self,
        election: &ElectionName,
        agent: Option<&AgentName>,
    ) -> Result<Vec<OpenBreaker>, CommandError> {
        let View { document, .. } = self.view(election).await?;
        let Some(document) = document else { return Ok(Vec::new()) };
        let leader = document.leader.as_ref().map(|leader| &leader.agent);
        let Some(agent) = agent.or(leader) else { return Ok(Vec::new()) };
        open_breakers(&self.shared.executor, election, agent, &document.policy).await
    }
}
