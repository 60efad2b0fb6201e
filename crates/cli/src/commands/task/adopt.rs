//! `baton task adopt`: a new leader makes its predecessor's instructions its own.

use baton::Error;
use baton::election::{ElectionName, ItemName, Refusal};
use baton::store::Access;
use baton::toolbox::Task;
use clap::Args;
use serde_json::json;

use super::silences::{AgentSilences, ago};
use super::{has_moved, mandate};
use crate::context::{AgentOption, Context};
use crate::exit::Speaker;
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton task adopt refactor-auth --look             what an earlier leader assigned, and whether its workers are heard
  baton task adopt refactor-auth parser --as agent-b
  baton task adopt refactor-auth --all --as agent-b

The attempt and its worker stay, and the worker's key; the instruction has this leader's token from here on. A worker that has heard of the new leader accepts \
no older instruction, and one that shows its token to a fence is refused there, until it is adopted: `baton task work` writes the new one into \
$BATON_TASK_EPOCH_FILE. What is not adopted is taken back with `baton task retry`.")]
pub(crate) struct Adopt {
    /// The election whose board it is
    election: ElectionName,
    /// The task's id
    #[arg(required_unless_present_any = ["all", "look"], conflicts_with_all = ["all", "look"])]
    task: Option<ItemName>,
    #[command(flatten)]
    who: AgentOption,
    /// All that are under way and that an earlier leader assigned
    #[arg(long)]
    all: bool,
    /// Only see them
    #[arg(long, conflicts_with = "all")]
    look: bool,
}

impl StoreCommand for Adopt {
    const SPEAKER: Speaker = Speaker::Holder;

    fn access(&self) -> Access {
        if self.look { Access::Read } else { Access::Write }
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        if self.look {
            return self.show(context).await;
        }
        let mandate = mandate(context, &self.election, &self.who)?;
        let tools = context.coordinator.toolbox(&self.election);
        let wanted = match &self.task {
            Some(id) => vec![tools.task(id).await?],
            None => tools.inherited().await?,
        };
        let mut adopted = Vec::new();
        for task in wanted {
            let attempts = Some(task.attempts.len() as u64);
            match tools.adopt(&task.id, mandate, attempts).await {
                Ok(task) => adopted.push(task),
                // It was ended, or taken back, meanwhile; or this leader may give no orders yet.
                Err(error @ Error::Refused(Refusal::OutOfTurn { .. })) if self.all => {
                    if !has_moved(&tools, &task).await? {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let named: Vec<_> =
            adopted.iter().map(|task| json!({"id": task.id, "agent": task.worker()})).collect();
        let data = json!({
            "outcome": "adopted", "election": self.election, "token": mandate.token, "tasks": named,
        });
        let text = match adopted.as_slice() {
            [task] if !self.all => {
                let agent = task.worker().map_or("-".to_string(), ToString::to_string);
                format!("task {} stays {agent}'s (token {})", task.id, mandate.token)
            }
            [_] => format!("1 task is adopted (token {})", mandate.token),
            all => format!("{} tasks are adopted (token {})", all.len(), mandate.token),
        };
        Ok(Screen::new(data, text))
    }
}

impl Adopt {
    async fn show(&self, context: &Context) -> Result<Screen, Failure> {
        let tasks = context.coordinator.toolbox(&self.election).inherited().await?;
        let heard = AgentSilences::look(context).await;
        let data = |task: &Task| {
            let mut data = json!(task);
            data["silent_ms"] = json!(heard.silent_ms(task));
            data
        };
        let rows: Vec<Vec<String>> = tasks.iter().map(|task| row(task, heard.silent_ms(task))).collect();
        let head = ["TASK", "STATE", "AGENT", "TOKEN", "DONE", "HEARD", "TITLE"];
        let none = format!("nothing of {} was assigned by an earlier leader", self.election);
        Ok(Screen::table(tasks.iter().map(data).collect(), &head, &rows, none))
    }
}

fn row(task: &Task, silent_ms: Option<u64>) -> Vec<String> {
    vec![
        task.id.to_string(),
        task.state.to_string(),
        task.worker().map_or("-".to_string(), ToString::to_string),
        task.attempt().map_or("-".to_string(), |attempt| attempt.epoch.to_string()),
        format!("{} %", task.progress.percent),
        silent_ms.map_or("-".to_string(), ago),
        task.title.clone(),
    ]
}
