//! `baton task adopt`: a new leader makes its predecessor's instructions its own.

use baton::Error;
use baton::election::{ElectionName, ItemName, Refusal};
use baton::store::Access;
use baton::toolbox::Task;
use clap::Args;
use serde_json::json;

use super::heard::{Heard, ago};
use super::{has_moved, mandate};
use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, table};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton task adopt refactor-auth --look             what goes on by the word of an earlier epoch, and whether its workers are heard
  baton task adopt refactor-auth parser --as agent-b
  baton task adopt refactor-auth --all --as agent-b

The attempt and its worker stay, and the worker's key; the instruction is from here on of this epoch. A worker that has heard of the new leader accepts \
no older instruction, and one that shows its epoch to a fence is refused there, until it is adopted: `baton task work` writes the new one into \
$BATON_TASK_EPOCH_FILE. What is not adopted is taken back with `baton task retry`.")]
pub(crate) struct Adopt {
    /// The election whose board it is
    election: ElectionName,
    /// The task's id
    #[arg(required_unless_present_any = ["all", "look"], conflicts_with_all = ["all", "look"])]
    task: Option<ItemName>,
    #[command(flatten)]
    who: Who,
    /// All that are under way by the word of an earlier epoch
    #[arg(long)]
    all: bool,
    /// Only see them
    #[arg(long, conflicts_with = "all")]
    look: bool,
}

impl Adopt {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        if self.look {
            return self.show(global).await;
        }
        let context = Context::open(global, Access::Write).await?;
        let mandate = mandate(&context, &self.election, &self.who)?;
        let tools = context.coordinator.toolbox(&self.election);
        let adopted = async {
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
                            return Err(error);
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(adopted)
        };
        let adopted: Result<Vec<Task>, Error> = adopted.await;
        context.remember();
        let adopted = adopted.map_err(|error| Failure::from_error(&error, Speaker::Holder))?;
        let named: Vec<_> =
            adopted.iter().map(|task| json!({"id": task.id, "agent": task.worker()})).collect();
        let data = json!({
            "outcome": "adopted", "election": self.election, "epoch": mandate.token, "tasks": named,
        });
        let text = match adopted.as_slice() {
            [task] if !self.all => {
                let agent = task.worker().map_or("-".to_string(), ToString::to_string);
                format!("task {} stays {agent}'s (epoch {})", task.id, mandate.token)
            }
            [_] => format!("1 task is adopted (epoch {})", mandate.token),
            all => format!("{} tasks are adopted (epoch {})", all.len(), mandate.token),
        };
        context.output.say(&data, &text)?;
        Ok(Exit::Done)
    }

    async fn show(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let fail = |error: Error| Failure::from_error(&error, Speaker::Guard);
        let tasks = context.coordinator.toolbox(&self.election).inherited().await.map_err(fail)?;
        let heard = Heard::look(&context).await;
        if context.output.json {
            for task in &tasks {
                let mut data = json!(task);
                data["silent_ms"] = json!(heard.silent_ms(task));
                context.output.line(&data.to_string())?;
            }
        } else if tasks.is_empty() {
            context
                .output
                .talk(&format!("nothing of {} goes on by the word of an earlier epoch", self.election));
        } else {
            let rows: Vec<Vec<String>> = tasks.iter().map(|task| row(task, heard.silent_ms(task))).collect();
            let head = ["TASK", "STATE", "AGENT", "EPOCH", "DONE", "HEARD", "TITLE"];
            context.output.line(&table(&head, &rows))?;
        }
        Ok(Exit::Done)
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
