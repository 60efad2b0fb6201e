//! `baton task`: the leader's board.

mod add;
mod adopt;
mod listing;
mod orders;
mod report;
mod silences;
mod work;

pub(crate) use add::minted;
use baton::election::ElectionName;
use baton::{Mandate, Toolbox};
use clap::{Args, Subcommand};
use orders::{TaskChange, Withdrawal};

use crate::context::{AgentOption, Context, Global};
use crate::output::{Failure, Outcome};
use crate::screen::StoreCommand;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton task add refactor-auth 'Rewrite the parser' --id parser --needs rust --as agent-a
  baton task assign refactor-auth parser --to agent-b --as agent-a       or --among agent-b:rust:2,agent-c:rust:1
  baton task list refactor-auth
  baton task accept refactor-auth parser --as agent-b
  baton task progress refactor-auth parser 40 --left 10m --as agent-b
  baton task complete refactor-auth parser --result 'see commit 4f2c' --as agent-b
  baton task work refactor-auth --as agent-b -- ./do-one-task            works on assigned tasks

The leader adds, assigns, retries and cancels tasks, with its lease key. The worker that accepts a task gets a key for it, kept beside the lease keys, and only that key can report on the task. A successor inherits the board. While nobody leads, workers continue with what they accepted.")]
pub(crate) struct Task {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Leader: put a task on the board; while nobody leads, anybody
    Add(add::Add),
    /// List tasks
    List(listing::List),
    /// Show one task and its attempts
    Show(listing::Show),
    /// Count tasks by state, and show whether anybody leads
    Board(listing::Board),
    /// Leader: assign a task to a worker
    Assign(orders::Assign),
    /// Leader: adopt the tasks that a predecessor assigned; their workers continue
    Adopt(adopt::Adopt),
    /// Leader: put a task back into the queue, even while a worker does it
    Retry(orders::Withdraw),
    /// Leader: cancel a task
    Cancel(orders::Withdraw),
    /// Worker: accept a task that is assigned to you
    Accept(report::Accept),
    /// Worker: report progress on a task
    Progress(report::Progress),
    /// Worker: complete a task
    Complete(report::Complete),
    /// Worker: report that a task failed
    Fail(report::Fail),
    /// Worker: run CMD for each task that is assigned to you
    Work(work::Work),
}

impl Task {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.action {
            Action::Add(add) => add.perform(global).await,
            Action::List(list) => list.perform(global).await,
            Action::Show(show) => show.perform(global).await,
            Action::Board(board) => board.perform(global).await,
            Action::Assign(assign) => assign.perform(global).await,
            Action::Adopt(adopt) => adopt.perform(global).await,
            Action::Retry(withdraw) => Withdrawal(withdraw, TaskChange::Retry).perform(global).await,
            Action::Cancel(withdraw) => Withdrawal(withdraw, TaskChange::Cancel).perform(global).await,
            Action::Accept(accept) => accept.perform(global).await,
            Action::Progress(progress) => progress.perform(global).await,
            Action::Complete(complete) => complete.perform(global).await,
            Action::Fail(fail) => fail.perform(global).await,
            Action::Work(work) => work.perform(global).await,
        }
    }
}

/// What the caller leads with.
pub(crate) fn mandate(
    context: &Context,
    election: &ElectionName,
    who: &AgentOption,
) -> Result<Mandate, Failure> {
    let held = context.lease(election, who)?;
    Ok(Mandate { token: held.epoch, credential: held.credential })
}

/// Whether somebody has told, begun or ended a task since it was seen.
async fn has_moved(tools: &Toolbox, seen: &baton::toolbox::Task) -> Result<bool, baton::Error> {
    let stands = |task: &baton::toolbox::Task| {
        (task.state, task.attempts.len(), task.attempt().map(|attempt| attempt.epoch))
    };
    Ok(stands(&tools.task(&seen.id).await?) != stands(seen))
}
