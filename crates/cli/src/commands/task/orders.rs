//! `baton task assign`, `retry` and `cancel`: the leader's word.

use baton::election::{AgentName, ElectionName, ItemName, Refusal};
use baton::store::Access;
use baton::toolbox::{Query, State, Task, Worker, choose};
use baton::{Mandate, Toolbox};
use clap::Args;
use serde_json::json;

use super::silences::AgentSilences;
use super::{has_moved, mandate};
use crate::context::{AgentOption, Context};
use crate::exit::Speaker;
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

/// How many agents are named in a line; with `--json` it is all of them.
const MAX_NAMED: usize = 20;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton task assign refactor-auth parser --to agent-b
  baton task assign refactor-auth parser --among agent-b:rust+sql:2 --among agent-c:rust
  baton task assign refactor-auth parser            as a predecessor assigned it, with this leader's token
  baton task assign refactor-auth --inherited       all that a predecessor told and nobody has accepted yet

--among takes NAME[:CAPABILITY+CAPABILITY…[:CAPACITY]]; the default capacity is 1. Baton considers the workers that have every capability the task needs, and capacity left for its size on this board. It leaves out workers barred by a circuit breaker, prefers those that have not failed at the task, then the one with the most capacity left.")]
pub(crate) struct Assign {
    /// The election whose board it is
    election: ElectionName,
    /// The task's id
    #[arg(required_unless_present = "inherited", conflicts_with = "inherited")]
    task: Option<ItemName>,
    #[command(flatten)]
    who: AgentOption,
    /// All that a predecessor told, and that was not accepted: the same agents do it, with this leader's token
    #[arg(long, conflicts_with_all = ["to", "among"])]
    inherited: bool,
    /// The worker
    #[arg(long, value_name = "AGENT", conflicts_with = "among")]
    to: Option<AgentName>,
    /// Assign it to the best of these workers
    #[arg(long, value_name = "WORKER,…", value_delimiter = ',', value_parser = worker)]
    among: Vec<Worker>,
}

impl StoreCommand for Assign {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Holder;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let mandate = mandate(context, &self.election, &self.who)?;
        let tools = context.coordinator.toolbox(&self.election);
        let Some(id) = &self.task else {
            let again = inherit(&tools, mandate).await?;
            return self.told_again(context, mandate, &again).await;
        };
        let task = tools.task(id).await?;
        let to = match (&self.to, self.among.is_empty()) {
            (Some(to), _) => Some(to.clone()),
            (None, true) => None,
            (None, false) => Some(self.best(&tools, &task).await?),
        };
        let task = tools.assign_seen(&task, mandate, to).await?;
        let to = task.worker().map_or("-".to_string(), ToString::to_string);
        let data = json!({
            "outcome": "assigned", "election": self.election, "id": task.id, "agent": to, "token": mandate.token,
            "attempts": task.attempts.len(),
        });
        Ok(Screen::new(data, format!("task {} is {to}'s to do (token {})", task.id, mandate.token)))
    }
}

impl Assign {
    /// Says how many were told again, and who of those is perhaps not there to do it.
    async fn told_again(
        &self,
        context: &Context,
        mandate: Mandate,
        again: &[Task],
    ) -> Result<Screen, Failure> {
        let missing = AgentSilences::look(context).await.missing(again);
        let (many, epoch) = (again.len(), mandate.token);
        let data = json!({
            "outcome": "assigned", "election": self.election, "token": epoch, "tasks": many, "not_heard": missing,
        });
        let tasks = if many == 1 { "1 task is".to_string() } else { format!("{many} tasks are") };
        let screen = Screen::new(data, format!("{tasks} assigned again (token {epoch})"));
        if !missing.is_empty() {
            let mut names: Vec<String> = missing.iter().take(MAX_NAMED).map(ToString::to_string).collect();
            if missing.len() > MAX_NAMED {
                names.push(format!("and {} more", missing.len() - MAX_NAMED));
            }
            return Ok(screen.note(format!(
                "without a session here, and perhaps gone: {}; baton task retry takes a task back",
                names.join(", ")
            )));
        }
        Ok(screen)
    }

    /// Who of those named shall do it, by what they can and what they have on this board.
    async fn best(&self, tools: &Toolbox, task: &Task) -> Result<AgentName, baton::Error> {
        let mut workers = self.among.clone();
        for state in [State::Assigned, State::Working] {
            for other in tools.tasks(&Query { state: Some(state), ..Query::default() }).await? {
                // What it has of this very task is not in its way.
                for worker in
                    workers.iter_mut().filter(|w| other.id != task.id && other.worker() == Some(&w.agent))
                {
                    worker.load = worker.load.saturating_add(other.size);
                }
            }
        }
        let barred = tools.barred(task).await?;
        let able =
            workers.iter().filter(|worker| !barred.contains(&worker.agent)).cloned().collect::<Vec<_>>();
        if able.is_empty() && !workers.is_empty() {
            return Err(Refusal::NotEligible {
                why: "the circuit breakers of all of them are open: they failed at such tasks".to_string(),
                retry_in: None,
            }
            .into());
        }
        Ok(choose(&able, task)?.agent.clone())
    }
}

/// Gives every instruction of a predecessor again. One that was accepted, or taken back, meanwhile needs none.
async fn inherit(tools: &Toolbox, mandate: Mandate) -> Result<Vec<Task>, baton::Error> {
    let mut again = Vec::new();
    for task in tools.tasks(&Query { state: Some(State::Assigned), ..Query::default() }).await? {
        if task.attempt().is_none_or(|attempt| attempt.epoch == mandate.token) {
            continue;
        }
        match tools.assign_seen(&task, mandate, None).await {
            Ok(task) => again.push(task),
            Err(error @ baton::Error::Refused(Refusal::OutOfTurn { .. } | Refusal::Invalid { .. })) => {
                if !has_moved(tools, &task).await? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(again)
}

fn worker(text: &str) -> Result<Worker, String> {
    let mut parts = text.split(':');
    let agent = AgentName::new(parts.next().unwrap_or_default()).map_err(|error| error.to_string())?;
    // A capability may have a colon in it: what stands last and is a number is the capacity.
    let rest: Vec<&str> = parts.collect();
    let (capacity, can) = match rest.split_last() {
        Some((last, before)) if last.parse::<u64>().is_ok() => (last.parse().unwrap_or(1), before.to_vec()),
        Some(_) | None => (1, rest),
    };
    let can = can.join(":");
    let capabilities = can.split('+').filter(|one| !one.is_empty()).map(ToString::to_string).collect();
    Ok(Worker { agent, capabilities, capacity, load: 0 })
}

/// What is done with a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskChange {
    Retry,
    Cancel,
}

#[derive(Args, Debug)]
pub(crate) struct Withdraw {
    /// The election whose board it is
    election: ElectionName,
    /// The task's id
    task: ItemName,
    #[command(flatten)]
    who: AgentOption,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

/// A task, and what is done with it.
pub(crate) struct Withdrawal<'a>(pub(crate) &'a Withdraw, pub(crate) TaskChange);

impl StoreCommand for Withdrawal<'_> {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Holder;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let Withdrawal(Withdraw { election, task, who, reason }, doing) = self;
        let mandate = mandate(context, election, who)?;
        let tools = context.coordinator.toolbox(election);
        // A request that comes late must not undo what was said or begun since.
        let task = tools.task(task).await?;
        let task = match doing {
            TaskChange::Retry => tools.retry_seen(&task, mandate, reason).await?,
            TaskChange::Cancel => tools.cancel_seen(&task, mandate, reason).await?,
        };
        let data = json!({
            "outcome": task.state, "election": election, "id": task.id, "attempts": task.attempts.len(),
        });
        Ok(Screen::new(data, format!("task {} is {}", task.id, task.state)))
    }
}
