//! `baton task list`, `show` and `board`.

use baton::election::{AgentName, ElectionName, ItemName};
use baton::toolbox::{Attempt, Item, Kind, Query, State, Task};
use clap::Args;
use serde_json::json;

use super::silences::{AgentSilences, ago};
use crate::context::Context;
use crate::output::{Failure, clean};
use crate::screen::{Screen, StoreCommand};

/// How many tasks are shown if nobody says.
const SHOWN: usize = 100;

#[derive(Args, Debug)]
pub(crate) struct List {
    /// The election whose board it is
    election: ElectionName,
    /// Only those in this state: queued, assigned, working, done, failed, cancelled
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Only tasks that this agent has, or had last
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = SHOWN)]
    limit: usize,
    /// Only those after this one, in the order of their ids
    #[arg(long, value_name = "ID")]
    after: Option<ItemName>,
}

impl StoreCommand for List {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let tools = context.coordinator.toolbox(&self.election);
        let mut query =
            Query { after: self.after.clone(), limit: 0, state: self.state, agent: self.agent.clone() };
        let (mut data, mut rows, mut left) = (Vec::new(), Vec::new(), self.limit.max(1));
        let more = loop {
            query.limit = left;
            let page = tools.page(Kind::Task, &query).await?;
            query.after = page.items.last().map(|item| item.place().1.clone());
            left -= page.items.len().min(left);
            for item in &page.items {
                let Item::Task(task) = item else { continue };
                data.push(json!(task));
                rows.push(row(task));
            }
            if !page.more || left == 0 || query.after.is_none() {
                break page.more;
            }
        };
        let head = ["TASK", "STATE", "AGENT", "DONE", "SIZE", "TRIES", "TITLE"];
        let none = format!("no such task on the board of {}", self.election);
        let after = query.after.filter(|_| more).map(|last| format!("there are more: --after {last}"));
        Ok(Screen::table(data, &head, &rows, none).notes(after))
    }
}

fn row(task: &Task) -> Vec<String> {
    let worker = task.worker().filter(|_| task.state != State::Queued);
    vec![
        task.id.to_string(),
        task.state.to_string(),
        worker.map_or("-".to_string(), ToString::to_string),
        format!("{} %", task.progress.percent),
        task.size.to_string(),
        task.attempts.len().to_string(),
        task.title.clone(),
    ]
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The election whose board it is
    election: ElectionName,
    /// The task's id
    task: ItemName,
}

impl StoreCommand for Show {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let task = context.coordinator.toolbox(&self.election).task(&self.task).await?;
        let silent_ms =
            if task.is_under_way() { AgentSilences::look(context).await.silent_ms(&task) } else { None };
        let mut data = json!(task);
        data["silent_ms"] = json!(silent_ms);
        Ok(Screen::new(data, described(&task, silent_ms)))
    }
}

/// A task as a person reads it; with how long its worker is silent, if it is heard of.
fn described(task: &Task, silent_ms: Option<u64>) -> String {
    let mut lines = vec![format!("{}: {} ({})", task.id, task.title, task.state)];
    let needs: Vec<&str> = task.needs.iter().map(String::as_str).collect();
    let needs = if needs.is_empty() { String::new() } else { format!(", needs {}", needs.join(", ")) };
    lines.push(format!(
        "  added by {} at {}, size {}{needs}, last written with token {}",
        task.by, task.added, task.size, task.fence
    ));
    let progress = &task.progress;
    if task.state == State::Working {
        let left = progress.estimate.map_or(String::new(), |left| format!(", about {left} left"));
        let note = if progress.note.is_empty() { String::new() } else { format!(": {}", progress.note) };
        lines.push(format!("  {} % done{left}{note}", progress.percent));
        let reported = match progress.at {
            Some(at) => format!("last reported at {at}"),
            None => "has reported nothing since it accepted".to_string(),
        };
        let worker = task.worker().map_or("the worker".to_string(), ToString::to_string);
        let heard = silent_ms.map_or(String::new(), |ms| format!("; its session was heard {}", ago(ms)));
        lines.push(format!("  {worker} {reported}{heard}"));
    }
    if !task.reason.is_empty() {
        lines.push(format!("  because: {}", task.reason));
    }
    if let Some(result) = task.result.as_deref().filter(|result| !result.is_empty()) {
        lines.push(format!("  result: {result}"));
    }
    for (number, attempt) in task.attempts.iter().enumerate() {
        lines.push(format!("  attempt {}: {}", number + 1, attempted(attempt)));
    }
    if !task.body.is_empty() {
        lines.push(String::new());
        lines.extend(task.body.lines().map(|line| format!("  {line}")));
    }
    lines.iter().map(|line| clean(line)).collect::<Vec<_>>().join("\n")
}

fn attempted(attempt: &Attempt) -> String {
    let how = match (attempt.outcome, attempt.accepted) {
        (Some(outcome), _) => format!("{outcome} at {} %", attempt.percent),
        (None, Some(at)) => format!("at it since {at}"),
        (None, None) => "has not accepted it".to_string(),
    };
    let note = if attempt.note.is_empty() { String::new() } else { format!(": {}", attempt.note) };
    format!("{} (token {}), {how}{note}", attempt.agent, attempt.epoch)
}

#[derive(Args, Debug)]
pub(crate) struct Board {
    /// The election whose board it is
    election: ElectionName,
}

impl StoreCommand for Board {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let counts = context.coordinator.toolbox(&self.election).counts().await?;
        let mut data = json!(counts);
        data["election"] = json!(self.election);
        let led = match &counts.leader {
            Some(leader) => format!("led by {leader} (token {})", counts.epoch),
            None => {
                let since = counts.since.map_or(String::new(), |since| format!(" since {since}"));
                format!(
                    "nobody leads{since}: what is assigned goes on, what is new waits ({} of {})",
                    counts.unled, counts.most_unled
                )
            }
        };
        let text = format!(
            "{}: {} queued, {} assigned, {} working, {} done, {} failed, {} cancelled; {led}",
            self.election,
            counts.queued,
            counts.assigned,
            counts.working,
            counts.done,
            counts.failed,
            counts.cancelled
        );
        let inherited = (counts.inherited > 0 && !counts.degraded).then(|| {
            let (many, election) = (counts.inherited, &self.election);
            format!("{many} under way were assigned by an earlier leader: baton task adopt {election} --all")
        });
        Ok(Screen::new(data, text).notes(inherited))
    }
}
