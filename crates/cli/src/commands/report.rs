//! `baton report`: say that the leader is not useful.

use baton::election::command::Finding;
use baton::election::{Answer, ElectionName, Epoch};
use baton::store::Access;
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::context::{AgentOption, Context};
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReportedFinding {
    /// The leader's output failed validation
    Validation,
    /// The leader's output passed validation
    Sound,
    /// A dependency of the leader failed
    Dependency,
    /// The leader used up its budget
    Budget,
    /// The leader makes no progress
    Stall,
    /// One of the leader's circuit breakers is open; Baton checks the breaker's record
    Breaker,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton report refactor-auth validation --as reviewer --detail 'the tests do not pass'

Accepted from the leader itself, and from agents that the policy names as watchers \
(baton policy ELECTION --watcher AGENT). A finding ends the leadership at once, or, where the policy counts verdicts \
(--performance), after that many bad ones. `sound` ends nothing. `baton judge` reports on every checkpoint. `breaker` is accepted from everybody, because \
Baton checks the breaker's record itself; it ends a leadership where the policy says so (--breaker-bars leadership).")]
pub(crate) struct Report {
    /// The election
    election: ElectionName,
    /// The finding
    #[arg(value_enum)]
    finding: ReportedFinding,
    #[command(flatten)]
    who: AgentOption,
    /// Details, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    detail: String,
    /// The token of the leadership that the report is about [default: the current one]
    #[arg(long, value_name = "N")]
    token: Option<Epoch>,
}

impl StoreCommand for Report {
    const ACCESS: Access = Access::Write;

    fn check(&self) -> Result<(), Failure> {
        self.who.agent().map(drop)
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let by = self.who.agent()?;
        let epoch = match self.token {
            Some(token) => token,
            None => {
                let view = context.coordinator.view(&self.election).await?;
                view.document.map_or(Epoch(0), |document| document.epoch)
            }
        };
        let finding = match self.finding {
            ReportedFinding::Validation => Finding::Validation,
            ReportedFinding::Sound => Finding::Sound,
            ReportedFinding::Dependency => Finding::Dependency,
            ReportedFinding::Budget => Finding::Budget,
            ReportedFinding::Stall => Finding::Stall,
            ReportedFinding::Breaker => Finding::Breaker,
        };
        let itself = context.lease(&self.election, &self.who).ok().filter(|held| held.epoch == epoch);
        let credential = itself.map(|held| held.credential);
        let coordinator = &context.coordinator;
        let reported =
            coordinator.report(&self.election, epoch, finding, &self.detail, &by, credential).await;
        match reported? {
            Answer::Done { epoch, ended, waits } => {
                let data = json!({
                    "outcome": "reported", "election": self.election, "token": epoch,
                    "ended": ended, "waits_ms": waits.as_millis(),
                });
                let text = match ended {
                    Some(agent) => format!("the leadership of {agent} has ended"),
                    None => "reported; the leadership continues".to_string(),
                };
                Ok(Screen::new(data, text))
            }
            other => unreachable!("a report is answered as one, not with {other:?}"),
        }
    }
}
