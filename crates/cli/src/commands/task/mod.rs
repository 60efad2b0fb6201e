//! `baton task`: the leader's board.

mod add;
mod adopt;
mod heard;
mod orders;
mod report;
mod see;
mod work;

pub(crate) use add::minted;
use baton::election::ElectionName;
use baton::{Mandate, Toolbox};
use clap::{Args, Subcommand};

use crate::context::{Context, Global, Who};
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton task add refactor-auth 'Rewrite the parser' --id parser --needs rust --as agent-a
  baton task assign refactor-auth parser --to agent-b --as agent-a       or --among agent-b:rust:2,agent-c:rust:1
  baton task list refactor-auth
  baton task accept refactor-auth parser --as agent-b
  baton task progress refactor-auth parser 40 --left 10m --as agent-b
  baton task complete refactor-auth parser --result 'see commit 4f2c' --as agent-b
  baton task work refactor-auth --as agent-b -- ./do-one-task            takes whatever is assigned to it

Who leads adds, assigns, retries and cancels, and shows its lease key, as `baton checkpoint` does. Who accepts a task gets a key for it, kept \
beside the lease keys: nobody else reports on it. A successor finds the board as it was left. While nobody leads, what is assigned goes on.")]
pub(crate) struct Task {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Leader: put a task on the board; while nobody leads, anybody
    Add(add::Add),
    /// See the tasks
    List(see::List),
    /// See one task, with who attempted it
    Show(see::Show),
    /// See how many tasks are in which state, and whether anybody leads
    Board(see::Board),
    /// Leader: tell somebody to do a task
    Assign(orders::Assign),
    /// Leader: make a predecessor's instructions your own; the workers go on
    Adopt(adopt::Adopt),
    /// Leader: queue a task anew, also if somebody is at it
    Retry(orders::Withdraw),
    /// Leader: this task shall not be done
    Cancel(orders::Withdraw),
    /// Worker: begin a task that is assigned to you
    Accept(report::Accept),
    /// Worker: say how far a task is
    Progress(report::Progress),
    /// Worker: a task is done
    Complete(report::Complete),
    /// Worker: a task cannot be done, or not by you
    Fail(report::Fail),
    /// Worker: run CMD for each task that is assigned to you
    Work(work::Work),
}

impl Task {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.what {
            What::Add(add) => add.perform(global).await,
            What::List(list) => list.perform(global).await,
            What::Show(show) => show.perform(global).await,
            What::Board(board) => board.perform(global).await,
            What::Assign(assign) => assign.perform(global).await,
            What::Adopt(adopt) => adopt.perform(global).await,
            What::Retry(withdraw) => withdraw.perform(global, orders::Doing::Retry).await,
            What::Cancel(withdraw) => withdraw.perform(global, orders::Doing::Cancel).await,
            What::Accept(accept) => accept.perform(global).await,
            What::Progress(progress) => progress.perform(global).await,
            What::Complete(complete) => complete.perform(global).await,
            What::Fail(fail) => fail.perform(global).await,
            What::Work(work) => work.perform(global).await,
        }
    }
}

/// What the caller leads with.
pub(crate) fn mandate(context: &Context, election: &ElectionName, who: &Who) -> Result<Mandate, Failure> {
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
