//! The work of an agent of the demo: one guarded write after the other, until it is refused or asked to stop.
//!
//! It prints what it does as JSON lines on stdout, like any program that takes part through the library.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use baton::election::document::Checkpoint;
use baton::election::fence::Entry;
use baton::election::{AgentName, Credential, ElectionName, Epoch, ResourceName};
use baton::{Coordinator, Error};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::output::{Failure, Output, with_tokens};

/// The hidden command.
pub(crate) const WORKER: &str = "__demo-worker";

/// From one write to the next.
const PACE: Duration = Duration::from_millis(100);

/// Works as an agent of the demo: `baton __demo-worker RESOURCE`.
pub(crate) fn worker(arguments: &[String]) -> ExitCode {
    let resource = arguments.first().map(String::as_str).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let worked = runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(work(resource)));
    let exit = worked.unwrap_or_else(|failure| {
        Output { json: false }.fail(&failure);
        failure.exit
    });
    ExitCode::from(exit.code())
}

struct Worker {
    coordinator: Coordinator,
    resource: ResourceName,
    election: ElectionName,
    agent: AgentName,
    token: Epoch,
    credential: Credential,
    /// Steps of the task that are done, those of former leaders included.
    steps: u64,
    /// Writes that were accepted in this leadership.
    writes: u64,
}

async fn work(resource: &str) -> Result<Exit, Failure> {
    let mut asked_to_stop = signal(SignalKind::terminate())?;
    let store: String = variable("BATON_STORE")?;
    let mut worker = Worker {
        coordinator: Coordinator::connect(&store).await?,
        resource: crate::context::name(ResourceName::new(resource))?,
        election: variable("BATON_ELECTION")?,
        agent: variable("BATON_AGENT")?,
        token: variable("BATON_TOKEN")?,
        credential: variable("BATON_KEY")?,
        steps: 0,
        writes: 0,
    };
    worker.take_on().await?;
    let mut stopping = false;
    while worker.write(if stopping { "last step" } else { "step" }).await? {
        if stopping {
            worker.leave_checkpoint()?;
            return Ok(Exit::Done);
        }
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            _ = asked_to_stop.recv() => stopping = true,
        }
    }
    if !stopping {
        // It leads no more. Its warden ends it.
        asked_to_stop.recv().await;
    }
    Ok(Exit::Stale)
}

impl Worker {
    /// Goes on where the predecessor left off, and says so to the election.
    async fn take_on(&mut self) -> Result<(), Failure> {
        let text = std::fs::read_to_string(variable::<String>("BATON_HANDOVER_FILE")?)?;
        let Ok(checkpoint) = serde_json::from_str::<Checkpoint>(&text) else { return Ok(()) };
        let state: Value = serde_json::from_str(&checkpoint.state).unwrap_or(Value::Null);
        self.steps = state["steps"].as_u64().unwrap_or(0);
        let (election, token, credential) = (&self.election, self.token, self.credential);
        let taken_on = self.coordinator.acknowledge(election, token, credential, &checkpoint).await;
        tell(&json!({
            "event": "inherited", "token": token, "by": checkpoint.by, "summary": checkpoint.summary,
            "steps": self.steps, "acknowledged": taken_on.is_ok(),
        }))
    }

    /// Writes once; false if it was refused.
    async fn write(&mut self, word: &str) -> Result<bool, Failure> {
        let (token, note) = (self.token, format!("{word} {}", self.steps + 1));
        let entry =
            Entry { resource: &self.resource, token, agent: Some(&self.agent), note: &note, hold: None };
        match self.coordinator.fences().admit(&entry, Some(&self.election)).await {
            Ok(_) => {
                self.steps += 1;
                self.writes += 1;
                tell(&json!({"event": "wrote", "token": token, "writes": self.writes}))?;
                Ok(true)
            }
            Err(Error::Refused(refusal)) => {
                let message = with_tokens(&refusal.to_string());
                tell(&json!({"event": "refused", "token": token, "message": message}))?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn leave_checkpoint(&self) -> Result<(), Failure> {
        let summary = format!("{} steps are done, step {} is next", self.steps, self.steps + 1);
        let content = json!({"summary": summary, "state": {"steps": self.steps}});
        Ok(std::fs::write(variable::<String>("BATON_CHECKPOINT_FILE")?, content.to_string())?)
    }
}

fn tell(event: &Value) -> Result<(), Failure> {
    Output { json: true }.line(&event.to_string())
}

/// What `baton run` sets.
fn variable<T: FromStr>(name: &str) -> Result<T, Failure> {
    let value = std::env::var(name).ok().and_then(|text| text.parse().ok());
    value.ok_or_else(|| {
        Failure::usage(format!("{name} is not set, or wrong"), "this command is started by `baton demo`")
    })
}
