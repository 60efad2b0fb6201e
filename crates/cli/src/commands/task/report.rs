//! `baton task accept`, `progress`, `complete` and `fail`: the worker's word.

use baton::election::time::Span;
use baton::election::{ElectionName, Epoch, ItemName, Refusal};
use baton::store::Access;
use baton::toolbox::{Outcome as Ending, State, Task};
use baton::{Error, WorkerKey};
use clap::Args;
use serde_json::{Value, json};

use crate::context::{AgentOption, Context};
use crate::exit::Exit;
use crate::input::text_of;
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};
use crate::worker_keys::KeyRecord;

/// Which task, and whose.
#[derive(Args, Debug)]
pub(crate) struct TaskRef {
    /// The election whose board it is
    election: ElectionName,
    /// The task's id
    task: ItemName,
    #[command(flatten)]
    who: AgentOption,
}

impl TaskRef {
    /// The key that was got at the acceptance: of the surrounding `baton task work`, else that in the state folder.
    fn key(&self, context: &Context) -> Result<WorkerKey, Failure> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let of_this = variable("BATON_TASK_ID").as_deref() == Some(self.task.as_str())
            && variable("BATON_TASK_ELECTION").as_deref() == Some(self.election.as_str());
        if let Some(key) = variable("BATON_TASK_KEY").filter(|_| of_this) {
            let key = key.parse().map_err(|_| Failure::usage("BATON_TASK_KEY is not a key", "unset it"))?;
            return Ok(WorkerKey(key));
        }
        let agent = self.who.agent()?;
        let place = context.state.last_worker_place(&self.election, &agent, &self.task);
        place.and_then(|place| place.read()).map(|kept| kept.key).ok_or_else(|| {
            Failure::new(
                Exit::Lost,
                "no-key",
                format!("{agent} has not accepted the task `{}` as this user", self.task),
                "begin it with `baton task accept`; the key is in the state folder of the user that accepted",
            )
        })
    }

    /// The same report again, after which no key is left: what it said stands already. Otherwise why there is no key.
    async fn repeated(
        &self,
        context: &Context,
        (outcome, said): (Ending, &str),
        no_key: Failure,
    ) -> Result<Screen, Failure> {
        let found = context.coordinator.toolbox(&self.election).task(&self.task).await;
        let (Ok(task), agent) = (found, self.who.agent()?) else { return Err(no_key) };
        let ended =
            task.attempts.last().filter(|attempt| attempt.agent == agent && attempt.outcome == Some(outcome));
        let Some(attempt) = ended else { return Err(no_key) };
        let (stands, what) = match outcome {
            Ending::Done => (task.result.as_deref().unwrap_or_default(), "result"),
            Ending::Failed | Ending::Withdrawn | Ending::Cancelled => (attempt.note.as_str(), "reason"),
        };
        if stands != said {
            let why = format!(
                "{agent} has told already that the task `{}` is {outcome}, with another {what}",
                task.id
            );
            return Err(Refusal::out_of_turn(why, "see what stands: baton task show").into());
        }
        let text = format!("{agent} has told so already; task {} is {}", task.id, task.state);
        Ok(Screen::new(self.data(&task), text))
    }

    fn data(&self, task: &Task) -> Value {
        json!({
            "outcome": task.state, "election": self.election, "id": task.id, "percent": task.progress.percent,
            "attempts": task.attempts.len(),
        })
    }

    /// Prints the result of a report. A key that the store no longer accepts is dropped.
    fn told(
        &self,
        context: &Context,
        key: &WorkerKey,
        outcome: Result<Task, Error>,
        ends: bool,
    ) -> Result<Screen, Failure> {
        let ended = ends && outcome.is_ok();
        let taken_back =
            matches!(&outcome, Err(Error::Refused(Refusal::OutOfTurn { .. } | Refusal::WrongKey { .. })));
        if (ended || taken_back)
            && let Ok(agent) = self.who.agent()
        {
            let place = context.state.last_worker_place(&self.election, &agent, &self.task);
            place.inspect(|place| place.drop_key(key));
        }
        let task = outcome?;
        let far = match task.state {
            State::Working => format!(", {} % done", task.progress.percent),
            State::Queued | State::Assigned | State::Done | State::Failed | State::Cancelled => String::new(),
        };
        Ok(Screen::new(self.data(&task), format!("task {} is {}{far}", task.id, task.state)))
    }
}

#[derive(Args, Debug)]
pub(crate) struct Accept {
    #[command(flatten)]
    mine: TaskRef,
}

impl StoreCommand for Accept {
    const ACCESS: Access = Access::Write;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let TaskRef { election, task, who } = &self.mine;
        let agent = who.agent()?;
        let tools = context.coordinator.toolbox(election);
        let found = tools.task(task).await?;
        // An answer that was lost is asked for again with the same key; another attempt gets another.
        let place = context.state.worker_place(election, &agent, task, found.attempts.len());
        let key = place.reserve(&KeyRecord::by_hand(WorkerKey::mint()?))?.key;
        let accepted = tools.accept_seen(&found, &agent, key, Epoch(0)).await;
        if matches!(accepted, Err(Error::Refused(_))) {
            place.drop_key(&key);
        }
        self.mine.told(context, &key, accepted, false)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Progress {
    #[command(flatten)]
    mine: TaskRef,
    /// Progress in per cent, 0 to 100
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    percent: u8,
    /// The estimated time left
    #[arg(long, value_name = "DURATION")]
    left: Option<Span>,
    /// In words
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
}

impl StoreCommand for Progress {
    const ACCESS: Access = Access::Write;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let tools = context.coordinator.toolbox(&self.mine.election);
        let key = self.mine.key(context)?;
        let told = tools.progress(&self.mine.task, key, self.percent, self.left, &self.note).await;
        self.mine.told(context, &key, told, false)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Complete {
    #[command(flatten)]
    mine: TaskRef,
    /// The result, at most 16 KiB; @FILE or - to read it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    result: String,
}

impl StoreCommand for Complete {
    const ACCESS: Access = Access::Write;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let result = text_of(&self.result, "result")?;
        let tools = context.coordinator.toolbox(&self.mine.election);
        let key = match self.mine.key(context) {
            Ok(key) => key,
            Err(no_key) => return self.mine.repeated(context, (Ending::Done, &result), no_key).await,
        };
        let told = tools.complete(&self.mine.task, key, &result).await;
        self.mine.told(context, &key, told, true)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Fail {
    #[command(flatten)]
    mine: TaskRef,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

impl StoreCommand for Fail {
    const ACCESS: Access = Access::Write;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let tools = context.coordinator.toolbox(&self.mine.election);
        let key = match self.mine.key(context) {
            Ok(key) => key,
            Err(no_key) => return self.mine.repeated(context, (Ending::Failed, &self.reason), no_key).await,
        };
        let told = tools.fail(&self.mine.task, key, &self.reason).await;
        self.mine.told(context, &key, told, true)
    }
}
