//! `baton task work`: a worker that runs CMD for each task that is assigned to it.
//!
//! CMD is in the care of a warden: it ends, with all its descendants, when this command does. A task that is taken back while CMD runs ends CMD too, within
//! a few seconds. What an earlier run had begun that was killed is taken up again, in the same attempt, by whoever has its key; one at a time. While the store cannot be reached, CMD goes on, and what came of it is told as soon as it can be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton::election::time::Span;
use baton::election::{AgentName, ElectionName, Epoch, ItemName, Refusal};
use baton::store::{Access, boot};
use baton::toolbox::{Item, Kind, MAX_BODY_BYTES, MAX_NOTE_BYTES, Query, State, Task};
use baton::{Error, Toolbox, WorkerKey};
use baton_warden::{ChildRegistry, Report, Start, WardenEvent, WardenHandle};
use clap::Args;
use serde_json::json;

use crate::commands::run::signals::Signals;
use crate::context::{AgentOption, Context, Global};
use crate::exit::{Exit, Speaker};
use crate::input::open_plain;
use crate::output::{Failure, Outcome};
use crate::state_folder::write_private;
use crate::warden_process::{self, CommandSetup, Duty, Holding, RunFolder, boot_time};
use crate::worker_keys::{KeyFile, KeyRecord};

/// How many tasks are looked at in one go.
const AT_ONCE: usize = 100;
/// How often it is looked whether there is something to do.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is looked whether the task is still this worker's, and how far CMD says that it is.
const BEAT: Duration = Duration::from_secs(1);
/// How far ahead CMD's end is put at each beat: long enough for any pause of this process that is not its end.
const AHEAD: Span = Span::secs(24 * 3_600);
/// How long a result is for which there is always room, about.
const FEW_BYTES: usize = 200;
/// Between SIGTERM and SIGKILL.
const GRACE: Span = Span::secs(5);

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton task work refactor-auth --as agent-b -- ./do-one-task

CMD finds the task in BATON_TASK_ID, BATON_TASK_TITLE, BATON_TASK_BODY, BATON_TASK_ELECTION, BATON_TASK_EPOCH and BATON_TASK_ATTEMPT; \
$BATON_TASK_EPOCH_FILE follows the epoch when a new leader adopts the task. It \
writes how far it is into $BATON_TASK_PROGRESS_FILE, such as `40` or `40 parsing`, and what came of it into \
$BATON_TASK_RESULT_FILE. Exit code 0 completes the task, any other fails it. CMD is ended when the task is taken back or cancelled. A task that \
an earlier run of this user on this machine had begun, and that was killed, is taken up again once nothing of its CMD is left: CMD then finds \
BATON_TASK_RESUMED=1.")]
pub(crate) struct Work {
    /// The election whose board it is
    election: ElectionName,
    #[command(flatten)]
    who: AgentOption,
    /// End after one task
    #[arg(long)]
    once: bool,
    /// End when nothing is assigned
    #[arg(long, conflicts_with = "once")]
    drain: bool,
    /// The command that does a task
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// What came of a task that was found.
enum TaskOutcome {
    /// CMD was run for it.
    Did,
    /// Another process is at it.
    Passed,
    /// It was not accepted, and why: the instruction is of an older epoch, or somebody was first.
    Refused(String),
    /// The store did not answer: whether it was accepted is seen at the next look.
    Unheard,
    /// This command is to end.
    End,
}

/// What came of one run of CMD.
enum CommandEnd {
    /// CMD ended by itself.
    Code(u8),
    /// The task is no longer this worker's.
    TakenBack(String),
    /// This command is to end.
    Stopped,
}

/// One pass over all tasks of a worker, part by part: those that it has begun, then those that are assigned to it. What cannot be
/// accepted must not hide what comes after it.
struct Pass {
    /// The states that are left, the next one last.
    left: Vec<State>,
    /// After which task of that state to go on.
    after: Option<ItemName>,
    /// All that were found.
    seen: BTreeSet<ItemName>,
    /// The store answered every time. A store that did not answer has not said that nothing is assigned.
    heard: bool,
}

impl Default for Pass {
    fn default() -> Pass {
        Pass { left: vec![State::Assigned, State::Working], after: None, seen: BTreeSet::new(), heard: true }
    }
}

impl Pass {
    fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// The next part; nothing if the store cannot be reached, which ends the pass.
    async fn next(&mut self, tools: &Toolbox, agent: &AgentName) -> Result<Vec<Task>, Failure> {
        let Some(state) = self.left.last().copied() else { return Ok(Vec::new()) };
        let query = Query {
            state: Some(state),
            agent: Some(agent.clone()),
            limit: AT_ONCE,
            after: self.after.take(),
        };
        match tools.page(Kind::Task, &query).await {
            Ok(page) => {
                self.after = page.items.last().filter(|_| page.more).map(|item| item.place().1.clone());
                if self.after.is_none() {
                    self.left.pop();
                }
                let task = |item| if let Item::Task(task) = item { Some(task) } else { None };
                Ok(page.items.into_iter().filter_map(task).collect())
            }
            Err(Error::Store(error)) if error.is_passing() => {
                self.left.clear();
                self.heard = false;
                Ok(Vec::new())
            }
            Err(error) => Err(Failure::from_error(&error, Speaker::Guard)),
        }
    }
}

impl Work {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        warden_process::look_for_program(&self.command)?;
        let context = Context::open(global, Access::Write).await?;
        let agent = self.who.agent()?;
        let tools = context.coordinator.toolbox(&self.election);
        let mut signals = Signals::listen()?;
        if !self.drain {
            context.output.talk(&format!("baton: {agent} waits for tasks of {}", self.election));
        }
        // Why tasks that were found the last time were not accepted: that is told once.
        let mut refused: BTreeMap<ItemName, String> = BTreeMap::new();
        let mut pass = Pass::default();
        loop {
            let found = pass.next(&tools, &agent).await?;
            pass.seen.extend(found.iter().map(|task| task.id.clone()));
            let mut did_any = false;
            for task in found {
                let next = match task.state {
                    State::Working => self.again(&context, &tools, &task, &mut signals).await?,
                    State::Assigned | State::Queued | State::Done | State::Failed | State::Cancelled => {
                        self.one(&context, &tools, &task, &mut signals).await?
                    }
                };
                context.remember();
                if let TaskOutcome::Refused(why) = &next
                    && refused.insert(task.id.clone(), why.clone()).as_ref() != Some(why)
                {
                    self.tell(&context, &task, "not-accepted", why);
                }
                did_any |= matches!(next, TaskOutcome::Did);
                pass.heard &= !matches!(next, TaskOutcome::Unheard);
                if matches!(next, TaskOutcome::End) || self.once && did_any {
                    return Ok(Exit::Done);
                }
            }
            if did_any {
                // What comes first is done first: it may have changed meanwhile.
                pass = Pass::default();
                continue;
            }
            if !pass.is_over() {
                continue;
            }
            let Pass { seen, heard, .. } = std::mem::take(&mut pass);
            refused.retain(|id, _| seen.contains(id));
            if self.drain && heard {
                return Ok(Exit::Done);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = signals.next() => return Ok(Exit::Done),
            }
        }
    }

    /// Takes up a task that an earlier run had begun, if it was this user's, and nobody and nothing of it is left.
    async fn again(
        &self,
        context: &Context,
        tools: &Toolbox,
        task: &Task,
        signals: &mut Signals,
    ) -> Result<TaskOutcome, Failure> {
        let place =
            context.state.worker_place(&self.election, &self.who.agent()?, &task.id, task.attempts.len());
        let own = task.attempt().and_then(|attempt| attempt.key_hash);
        let left = |kept: &KeyRecord| Some(kept.key.0.hash()) == own && kept.is_left_behind();
        if place.read().filter(left).is_none() {
            return Ok(TaskOutcome::Passed);
        }
        let Some(_lock) = place.lock()? else { return Ok(TaskOutcome::Passed) };
        // Whoever had the lock until here may have begun it.
        let Some(kept) = place.read().filter(left) else { return Ok(TaskOutcome::Passed) };
        self.tell(context, task, "resumed", "");
        self.work_on(context, tools, (task, true), (&place, kept.key), signals).await
    }

    /// Does one task, if it may.
    async fn one(
        &self,
        context: &Context,
        tools: &Toolbox,
        task: &Task,
        signals: &mut Signals,
    ) -> Result<TaskOutcome, Failure> {
        let agent = self.who.agent()?;
        let fail = |error: Error| Failure::from_error(&error, Speaker::Guard);
        let place = context.state.worker_place(&self.election, &agent, &task.id, task.attempts.len());
        let Some(_lock) = place.lock()? else { return Ok(TaskOutcome::Passed) };
        let key = place.reserve(&KeyRecord::working(WorkerKey::mint().map_err(fail)?, None))?.key;
        let task = match tools.accept_seen(task, &agent, key, Epoch(0)).await {
            Ok(task) => task,
            // The key stays, and is shown again.
            Err(Error::Store(error)) if error.is_passing() => return Ok(TaskOutcome::Unheard),
            Err(Error::Refused(refusal)) => {
                place.drop_key(&key);
                return Ok(TaskOutcome::Refused(refusal.to_string()));
            }
            Err(error) => return Err(fail(error)),
        };
        self.tell(context, &task, "accepted", "");
        self.work_on(context, tools, (&task, false), (&place, key), signals).await
    }

    /// Runs CMD for a task that is this worker's, and tells what came of it.
    async fn work_on(
        &self,
        context: &Context,
        tools: &Toolbox,
        (task, resumed): (&Task, bool),
        (place, key): (&KeyFile, WorkerKey),
        signals: &mut Signals,
    ) -> Result<TaskOutcome, Failure> {
        let folder = RunFolder::make()?;
        place.replace(&KeyRecord::working(key, Some(folder.path())))?;
        let ended = self.run(context, tools, (task, resumed), key, &folder, signals).await?;
        let stopped = matches!(ended, CommandEnd::Stopped);
        let told = match ended {
            CommandEnd::Code(0) => {
                let result = read_bounded(&folder.file("result"), MAX_BODY_BYTES);
                let told = self.insist(signals, async || tools.complete(&task.id, key, &result).await).await;
                match told {
                    // That it is done must be known, or it is done again.
                    Err(Error::Refused(refusal)) if !takes_back(&refusal) => {
                        let result = shortened(&result);
                        self.insist(signals, async || tools.complete(&task.id, key, &result).await).await
                    }
                    told => told,
                }
            }
            CommandEnd::Code(code) => {
                let reason = format!("CMD ended with {code}");
                self.insist(signals, async || tools.fail(&task.id, key, &reason).await).await
            }
            CommandEnd::Stopped => {
                self.insist(signals, async || tools.fail(&task.id, key, "the worker was stopped").await).await
            }
            CommandEnd::TakenBack(why) => {
                self.tell(context, task, "taken-back", &why);
                place.drop_key(&key);
                return Ok(TaskOutcome::Did);
            }
        };
        let next = if stopped { TaskOutcome::End } else { TaskOutcome::Did };
        match told {
            Ok(task) => {
                place.drop_key(&key);
                self.tell(context, &task, &task.state.to_string(), &task.reason);
                Ok(next)
            }
            Err(Error::Refused(refusal)) => {
                place.drop_key(&key);
                self.tell(context, task, "refused", &refusal.to_string());
                Ok(next)
            }
            Err(error) => Err(Failure::from_error(&error, Speaker::Guard)),
        }
    }

    /// Runs CMD until it has ended, or must.
    async fn run(
        &self,
        context: &Context,
        tools: &Toolbox,
        (task, resumed): (&Task, bool),
        key: WorkerKey,
        folder: &RunFolder,
        signals: &mut Signals,
    ) -> Result<CommandEnd, Failure> {
        let mut warden =
            warden_process::prepare(ChildRegistry::open()?, folder, CommandSetup::default()).await?;
        let duty = Duty {
            store: warden_process::absolute_store(&context.coordinator, &context.url),
            folder: folder.path().to_path_buf(),
            gives_back: Holding::Nothing,
        };
        // CMD finds its files from its start on.
        let mut task_run = TaskRun::lay(tools, task, key, folder)?;
        let started = warden.start(Start {
            command: self.command.clone(),
            env: self.variables(context, (task, resumed), key, folder),
            deadline: boot_time(boot::now() + AHEAD),
            grace_ms: GRACE.as_millis(),
            ticket: duty.ticket(),
        });
        started.map_err(|error| Failure::new(Exit::Usage, "warden", error.to_string(), "see what CMD is"))?;
        let ended = watch_over(&mut warden, &mut task_run, signals).await;
        let _ = warden.dismiss().await;
        Ok(ended)
    }

    fn variables(
        &self,
        context: &Context,
        (task, resumed): (&Task, bool),
        key: WorkerKey,
        folder: &RunFolder,
    ) -> Vec<(String, String)> {
        let epoch = task.attempt().map_or(Epoch(0), |attempt| attempt.epoch);
        let file = |name: &str| folder.file(name).display().to_string();
        // No variable can hold a zero.
        let plain = |text: &str| text.replace('\0', "\u{fffd}");
        [
            ("BATON_STORE", warden_process::absolute_store(&context.coordinator, &context.url)),
            ("BATON_AGENT", task.worker().map(ToString::to_string).unwrap_or_default()),
            ("BATON_TASK_ELECTION", self.election.to_string()),
            ("BATON_TASK_ID", task.id.to_string()),
            ("BATON_TASK_TITLE", plain(&task.title)),
            ("BATON_TASK_BODY", plain(&task.body)),
            ("BATON_TASK_EPOCH", epoch.to_string()),
            ("BATON_TASK_EPOCH_FILE", file("epoch")),
            ("BATON_TASK_ATTEMPT", task.attempts.len().to_string()),
            ("BATON_TASK_RESUMED", if resumed { "1" } else { "" }.to_string()),
            ("BATON_TASK_KEY", key.0.to_string()),
            ("BATON_TASK_PROGRESS_FILE", file("progress")),
            ("BATON_TASK_RESULT_FILE", file("result")),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .to_vec()
    }

    /// Tells what came of CMD, however long the store does not answer, unless this command is to end.
    async fn insist(
        &self,
        signals: &mut Signals,
        tell: impl AsyncFn() -> Result<Task, Error>,
    ) -> Result<Task, Error> {
        loop {
            match tell().await {
                Err(Error::Store(error)) if error.is_passing() => {
                    tokio::select! {
                        () = tokio::time::sleep(BEAT) => {}
                        _ = signals.next() => return Err(error.into()),
                    }
                }
                outcome => return outcome,
            }
        }
    }

    fn tell(&self, context: &Context, task: &Task, what: &str, why: &str) {
        let data =
            json!({"event": "task", "what": what, "election": self.election, "id": task.id, "why": why});
        if context.output.json {
            context.output.event(&data);
        } else {
            let colon = if why.is_empty() { "" } else { ": " };
            context.output.talk(&crate::output::clean(&format!("task {} {what}{colon}{why}", task.id)));
        }
    }
}

/// Until nothing of CMD is left.
async fn watch_over(
    warden: &mut WardenHandle,
    task_run: &mut TaskRun<'_>,
    signals: &mut Signals,
) -> CommandEnd {
    let mut ends: Option<CommandEnd> = None;
    let mut beats = tokio::time::interval(BEAT);
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            news = warden.next_report() => match news {
                Ok(WardenEvent::Told(Report::Ended { how, .. })) => return ends.unwrap_or(CommandEnd::Code(how.exit_code())),
                Ok(WardenEvent::Told(_) | WardenEvent::Asked(_)) => {}
                Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => {
                    while warden.seize().await.is_err() {}
                    return ends.unwrap_or(CommandEnd::Code(1));
                }
            },
            _ = signals.next(), if ends.is_none() => {
                ends = Some(CommandEnd::Stopped);
                let _ = warden.stop();
            }
            _ = beats.tick(), if ends.is_none() => {
                let _ = warden.deadline(boot_time(boot::now() + AHEAD));
                if let Err(Error::Refused(refusal)) = task_run.beat().await
                    && takes_back(&refusal)
                {
                    ends = Some(CommandEnd::TakenBack(refusal.to_string()));
                    let _ = warden.stop();
                }
            }
        }
    }
}

/// What a task is told and known by while CMD is at it.
struct TaskRun<'a> {
    tools: &'a Toolbox,
    task: &'a Task,
    key: WorkerKey,
    progress: PathBuf,
    /// What CMD said last.
    said: String,
    epoch: PathBuf,
    /// Of which epoch the instruction is, as CMD knows.
    told: Epoch,
}

impl TaskRun<'_> {
    fn lay<'a>(
        tools: &'a Toolbox,
        task: &'a Task,
        key: WorkerKey,
        folder: &RunFolder,
    ) -> Result<TaskRun<'a>, Failure> {
        let (progress, epoch) = (folder.file("progress"), folder.file("epoch"));
        let mut task_run = TaskRun { tools, task, key, progress, said: String::new(), epoch, told: Epoch(0) };
        task_run.follow(task)?;
        Ok(task_run)
    }

    /// Tells what CMD says of its progress, or only looks whether the task is still this worker's.
    async fn beat(&mut self) -> Result<(), Error> {
        let says = read_bounded(&self.progress, MAX_NOTE_BYTES).trim().to_string();
        let (number, note) = says.split_once(char::is_whitespace).unwrap_or((&says, ""));
        let percent = number.trim_end_matches('%').parse::<u8>().ok().filter(|percent| *percent <= 100);
        let there = match percent.filter(|_| says != self.said) {
            Some(percent) => {
                let there = self.tools.progress(&self.task.id, self.key, percent, None, note.trim()).await?;
                self.said = says;
                there
            }
            None => self.tools.task(&self.task.id).await?,
        };
        let mine = there.attempt().and_then(|attempt| attempt.key_hash) == Some(self.key.0.hash());
        if !mine {
            return Err(Refusal::out_of_turn(format!("it is {}", there.state), "stop the work on it").into());
        }
        // What cannot be written is written at the next beat.
        let _ = self.follow(&there);
        Ok(())
    }

    /// CMD finds the epoch of its instruction, which rises when a new leader adopts the task.
    fn follow(&mut self, task: &Task) -> Result<(), Failure> {
        let epoch = task.attempt().map_or(Epoch(0), |attempt| attempt.epoch);
        if epoch > self.told {
            write_private(&self.epoch, format!("{epoch}\n").as_bytes())?;
            self.told = epoch;
        }
        Ok(())
    }
}

/// Whether a refused report says that the task is no longer this worker's, and not only that there is no room for so many words.
fn takes_back(refusal: &Refusal) -> bool {
    !matches!(refusal, Refusal::Exhausted { .. })
}

/// The beginning of a text, for where there is no room for all of it.
fn shortened(text: &str) -> String {
    let end = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= FEW_BYTES).last();
    match &text[..end.unwrap_or(0)] {
        all if all.len() == text.len() => all.to_string(),
        begun => format!("{begun}…"),
    }
}

/// What a file has, as text, up to so many bytes.
fn read_bounded(path: &Path, most: usize) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    let _ = open_plain(path).and_then(|file| file.take(most as u64).read_to_end(&mut bytes));
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    // What stands for a byte that is no text is longer than it.
    while text.len() > most {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A board that is full must cost nobody its task: the work would be done again.
    #[test]
    fn a_lack_of_room_takes_no_task_back() {
        assert!(!takes_back(&Refusal::Exhausted { why: "full".to_string(), retry_in: None }));
        assert!(takes_back(&Refusal::out_of_turn("it is queued", "stop")));
        assert!(takes_back(&Refusal::WrongKey { why: String::new() }));
        assert!(takes_back(&Kind::Task.no_such(&"t".parse().unwrap())));
    }

    #[test]
    fn a_result_without_room_is_cut_between_two_letters() {
        assert_eq!((shortened(""), shortened("short")), (String::new(), "short".to_string()));
        let cut = shortened(&"é".repeat(1_000));
        assert!(cut.ends_with("é…") && cut.len() <= FEW_BYTES + "…".len(), "{cut}");
        assert_eq!(shortened(&"x".repeat(FEW_BYTES)).len(), FEW_BYTES);
    }
}
