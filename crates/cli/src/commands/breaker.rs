//! `baton breaker`: see the circuit breakers of agents that failed at tasks; as the operator, reset them.

use baton::election::operator::Act;
use baton::election::{AgentName, ElectionName};
use baton::store::Access;
use baton::toolbox::BreakerView;
use baton::toolbox::breaker::BreakerState;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::acts::operate;
use crate::context::{Context, Global};
use crate::options::break_glass::BreakGlassWithReason;
use crate::output::{Failure, Outcome};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton policy refactor-auth --breaker 3/5m --breaker-probes 1
  baton policy refactor-auth --breaker-bars leadership
  baton breaker list refactor-auth
  baton breaker reset refactor-auth

After so many failed tasks in a row an agent is assigned no more tasks of the same capability during the cool-off; then as many probes are let \
through as the policy says, and the first success closes the breaker. `*` stands for tasks that need no capability. An agent with an open breaker may still lead, unless the policy says otherwise (--breaker-bars).")]
pub(crate) struct Breaker {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List breakers
    List(List),
    /// Operator: reset all breakers of an election
    Reset(Reset),
}

#[derive(Args, Debug)]
struct List {
    /// The election whose board it is
    election: ElectionName,
    /// Only those of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
}

#[derive(Args, Debug)]
struct Reset {
    /// The election whose board it is
    election: ElectionName,
    #[command(flatten)]
    break_glass: BreakGlassWithReason,
}

impl Breaker {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.action {
            Action::List(list) => list.perform(global).await,
            Action::Reset(reset) => reset.perform(global).await,
        }
    }
}

impl StoreCommand for List {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let tools = context.coordinator.toolbox(&self.election);
        let found = tools.breakers(self.agent.as_ref()).await?;
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        let head = ["AGENT", "CAPABILITY", "BREAKER", "FAILURES", "LAST REASON"];
        let none = format!("nobody has failed at tasks of {} that breakers count", self.election);
        Ok(Screen::table(found.iter().map(data).collect(), &head, &rows, none))
    }
}

impl Reset {
    async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let view = context.coordinator.view(&self.election).await?;
        let mut policy = view.document.map(|document| (*document.policy).clone()).unwrap_or_default();
        let Some(breakers) = &mut policy.breakers else {
            return Err(Failure::usage(
                format!("the policy of {} has no circuit breakers", self.election),
                "set them: baton policy ELECTION --breaker 3/5m",
            ));
        };
        breakers.generation += 1;
        let text = format!("the circuit breakers of {} begin anew", self.election);
        // Some stores are open once at a time.
        drop(context);
        operate(global, &self.election, Act::SetPolicy { policy }, &text, self.break_glass.reason()).await
    }
}

fn word(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open(_) => "open",
        BreakerState::HalfOpen(_) => "half-open",
    }
}

fn data(view: &BreakerView) -> Value {
    let mut data = json!(view.breaker);
    data["standing"] = json!(word(view.state));
    data["retry_in_ms"] = match view.state {
        BreakerState::Open(left) => json!(left.as_millis()),
        BreakerState::Closed | BreakerState::HalfOpen(_) => Value::Null,
    };
    data
}

fn row(view: &BreakerView) -> Vec<String> {
    let stands = match view.state {
        BreakerState::Open(left) => format!("open, {left} left"),
        BreakerState::HalfOpen(probes) => format!("half-open, {probes} to try"),
        BreakerState::Closed => "closed".to_string(),
    };
    let breaker = &view.breaker;
    vec![
        breaker.agent.to_string(),
        breaker.capability.clone(),
        stands,
        breaker.failures.to_string(),
        breaker.reason.lines().next().unwrap_or_default().to_string(),
    ]
}
