//! An agent of the demo: a real `baton run` process, and the events that it prints.

use std::process::{ExitStatus, Stdio};

use baton::election::Epoch;
use baton::election::time::Span;
use rustix::process::Pid;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;

use super::folder::DemoFolder;
use super::worker::WORKER;
use crate::output::Failure;
use crate::warden_process;

/// What the agents are called.
pub(super) const NAMES: [&str; 3] = ["agent-a", "agent-b", "agent-c"];
/// What is elected.
pub(super) const ELECTION: &str = "refactor-auth";
/// What only the leader may write.
pub(super) const RESOURCE: &str = "main-branch";

/// A line that the agent with this `baton run` printed.
pub(super) type AgentLine = (Pid, String);

/// What an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentState {
    Absent,
    Starting,
    Waiting,
    Leading,
    Stopped,
    /// It was ended, and is expected to be gone.
    Ended,
}

/// An agent.
pub(super) struct Agent {
    pub(super) name: &'static str,
    pub(super) state: AgentState,
    pub(super) pid: Option<Pid>,
    child: Option<Child>,
    /// The last event of each kind since its `baton run` was started.
    events: Map<String, Value>,
    /// The last line that is no event.
    pub(super) last_words: String,
}

impl Agent {
    pub(super) fn new(name: &'static str) -> Agent {
        let last_words = "nothing".to_string();
        Agent { name, state: AgentState::Absent, pid: None, child: None, events: Map::new(), last_words }
    }

    /// Starts it, or starts it again once its former `baton run` is gone.
    pub(super) async fn start(
        &mut self,
        folder: &DemoFolder,
        ttl: Span,
        sender: &mpsc::Sender<AgentLine>,
    ) -> Result<(), Failure> {
        if let Some(mut child) = self.child.take() {
            child.wait().await?;
        }
        let mut command = folder.baton();
        // Through the shim that ties a process's life to its parent's: should this one be killed, so are the agents.
        let parent = std::process::id().to_string();
        command.args([warden_process::EXEC, baton_warden::NO_TERMINAL, &parent]).arg(&folder.exe);
        command.args(["run", ELECTION, "--json", "--ttl", &ttl.to_string(), "--as", self.name]);
        command.args(["--task", "refactor authentication", "--"]).arg(&folder.exe).args([WORKER, RESOURCE]);
        // In a group of its own: Ctrl-C is this process's to deal with.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|raw| Pid::from_raw(i32::try_from(raw).ok()?));
        if let (Some(pid), Some(stdout), Some(stderr)) = (pid, child.stdout.take(), child.stderr.take()) {
            listen(stdout, pid, sender.clone());
            listen(stderr, pid, sender.clone());
        }
        *self = Agent { state: AgentState::Starting, pid, child: Some(child), ..Agent::new(self.name) };
        Ok(())
    }

    pub(super) fn note(&mut self, kind: String, event: Value) {
        self.events.insert(kind, event);
    }

    /// The last event of a kind in the leadership with this token.
    pub(super) fn event(&self, kind: &str, token: Epoch) -> Option<&Value> {
        self.events.get(kind).filter(|event| token_of(event) == token)
    }

    /// How its `baton run` ended, although nobody ended it.
    pub(super) fn unexpected_end(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut().filter(|_| self.state != AgentState::Ended)?;
        child.try_wait().ok().flatten()
    }

    /// What it does, for people.
    pub(super) fn summary(&self) -> String {
        let (mark, words) = match self.state {
            AgentState::Absent => ('·', ""),
            AgentState::Starting => ('·', "starts"),
            AgentState::Waiting => ('○', "waits"),
            AgentState::Leading => ('●', "leads"),
            AgentState::Stopped => ('‖', "is stopped"),
            AgentState::Ended => ('✗', "is gone"),
        };
        let writing = self.events.get("wrote").filter(|_| self.state == AgentState::Leading);
        let numbers = writing.map(|wrote| format!(": token {}, write {}", wrote["token"], wrote["writes"]));
        format!("{mark} {} {words}{}", self.name, numbers.unwrap_or_default())
    }
}

pub(super) fn token_of(event: &Value) -> Epoch {
    Epoch(event["token"].as_u64().unwrap_or(0))
}

fn listen(from: impl AsyncRead + Send + Unpin + 'static, pid: Pid, sender: mpsc::Sender<AgentLine>) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(text)) = lines.next_line().await {
            if sender.send((pid, text)).await.is_err() {
                return;
            }
        }
    });
}
