//! The work of an agent of the demo: one guarded write after the other, until it is refused or asked to stop.
//!
//! It tells what it does as JSON lines on stdout, like any program that takes part through the library.

use std::process::ExitCode;
use std::time::Duration;

use baton::election::document::Checkpoint;
use baton::election::fence::Entry;
use baton::election::{AgentName, Credential, ElectionName, Epoch, ResourceName};
use baton::{Coordinator, Error};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Output};

/// The hidden command.
pub(crate) const WORKER: &str = "__demo-worker";

/// From one write to the next.
const PACE: Duration = Duration::from_millis(100);

/// Works as an agent of the demo: `baton __demo-worker RESOURCE`.
pub(crate) fn worker(arguments: &[String]) -> ExitCode {
    let output = Output { json: false };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let worked = match runtime {
        Ok(runtime) => runtime.block_on(work(arguments)),
        Err(error) => Err(error.into()),
    };
    match worked {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            output.talk(&format!("the work fails: {}", failure.message));
            ExitCode::from(failure.exit.code())
        }
    }
}

struct Worker {
    coordinator: Coordinator,
    resource: ResourceName,
    election: ElectionName,
    agent: AgentName,
    token: Epoch,
    credential: Credential,
    steps: u64,
}

async fn work(arguments: &[String]) -> Result<Exit, Failure> {
    let mut asked_to_stop = signal(SignalKind::terminate())?;
    let mut worker = Worker::enter(arguments).await?;
    worker.take_on().await?;
    loop {
        if !worker.step("step").await? {
            // It leads no more. Whoever started it ends it.
            asked_to_stop.recv().await;
            return Ok(Exit::Stale);
        }
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            _ = asked_to_stop.recv() => {
                let kept = worker.step("last step").await?;
                if kept {
                    worker.leave_checkpoint()?;
                }
                return Ok(if kept { Exit::Done } else { Exit::Stale });
            }
        }
    }
}

impl Worker {
    /// Finds everything in what `baton run` sets.
    async fn enter(arguments: &[String]) -> Result<Worker, Failure> {
        let fail = |error: Error| Failure::from_error(&error, Speaker::Holder);
        let coordinator = Coordinator::connect(&variable("BATON_STORE")?).await.map_err(fail)?;
        let resource = arguments.first().map(String::as_str).unwrap_or_default();
        Ok(Worker {
            coordinator,
            resource: read("the resource", resource)?,
            election: read("BATON_ELECTION", &variable("BATON_ELECTION")?)?,
            agent: read("BATON_AGENT", &variable("BATON_AGENT")?)?,
            token: read("BATON_TOKEN", &variable("BATON_TOKEN")?)?,
            credential: read("BATON_KEY", &variable("BATON_KEY")?)?,
            steps: 0,
        })
    }

    /// Goes on where the predecessor left off, and says so to the election.
    async fn take_on(&mut self) -> Result<(), Failure> {
        let text = std::fs::read_to_string(variable("BATON_HANDOVER_FILE")?)?;
        let Ok(checkpoint) = serde_json::from_str::<Checkpoint>(&text) else { return Ok(()) };
        let state: Value = serde_json::from_str(&checkpoint.state).unwrap_or(Value::Null);
        self.steps = state["steps"].as_u64().unwrap_or(0);
        let (election, token, credential) = (&self.election, self.token, self.credential);
        let taken_on = self.coordinator.acknowledge(election, token, credential, &checkpoint).await;
        self.tell(&json!({
            "event": "inherited", "token": token, "by": checkpoint.by, "seq": checkpoint.seq,
            "summary": checkpoint.summary, "steps": self.steps, "acknowledged": taken_on.is_ok(),
        }))
    }

    /// Writes once; false if it was refused.
    async fn step(&mut self, word: &str) -> Result<bool, Failure> {
        let note = format!("{word} {}", self.steps + 1);
        let entry = Entry {
            resource: &self.resource,
            token: self.token,
            agent: Some(&self.agent),
            note: &note,
            hold: None,
        };
        match self.coordinator.fences().admit(&entry, Some(&self.election)).await {
            Ok(_) => {
                self.steps += 1;
                self.tell(&json!({"event": "wrote", "token": self.token, "note": note}))?;
                Ok(true)
            }
            Err(Error::Refused(refusal)) => {
                let message = refusal.to_string();
                self.tell(
                    &json!({"event": "refused", "token": self.token, "note": note, "message": message}),
                )?;
                Ok(false)
            }
            Err(error) => Err(Failure::from_error(&error, Speaker::Holder)),
        }
    }

    fn leave_checkpoint(&self) -> Result<(), Failure> {
        let summary = format!("{} steps are done, step {} is next", self.steps, self.steps + 1);
        let content = json!({"summary": summary, "state": {"steps": self.steps}});
        Ok(std::fs::write(variable("BATON_CHECKPOINT_FILE")?, content.to_string())?)
    }

    fn tell(&self, data: &Value) -> Result<(), Failure> {
        Ok(Output { json: true }.write(&format!("{data}\n"))?)
    }
}

fn variable(name: &str) -> Result<String, Failure> {
    std::env::var(name)
        .map_err(|_| Failure::usage(format!("{name} is not set"), "this command is started by `baton demo`"))
}

fn read<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| {
        Failure::usage(format!("{what} is not one: `{text}`"), "this command is started by `baton demo`")
    })
}
