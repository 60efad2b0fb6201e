//! The agents of the demo: real `baton run` processes, and what they say.

use std::process::Stdio;

use baton::election::{AgentName, Epoch};
use rustix::process::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;

use super::place::Place;
use super::worker::WORKER;
use crate::output::Failure;
use crate::warden_process;

/// What is elected.
pub(super) const ELECTION: &str = "refactor-auth";
/// What only the leader may write.
pub(super) const RESOURCE: &str = "main-branch";
/// How long a lease lasts.
pub(super) const TTL: &str = "2s";
/// What agents said that nobody has listened to yet, at most.
pub(super) const MAX_UNHEARD: usize = 256;
/// The last words of an agent that are kept.
const MAX_WORDS: usize = 400;

/// How an agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not been started yet.
    Absent,
    /// It has been started.
    Starting,
    /// It waits for its turn.
    Waiting,
    /// It leads.
    Leading,
    /// It was stopped.
    Frozen,
    /// It was ended, and is expected to be gone.
    Ended,
}

/// An agent.
pub(super) struct Agent {
    pub(super) name: AgentName,
    pub(super) standing: Standing,
    /// Counts its lives, so that words of a former one are not taken for this one's.
    life: u32,
    child: Option<Child>,
    /// Of its last leadership.
    pub(super) token: Option<Epoch>,
    /// Writes that were accepted in it.
    pub(super) writes: u64,
    /// What its last refused write was told.
    pub(super) refusal: Option<String>,
    pub(super) inherited: Option<Inherited>,
    /// What it said that was not understood.
    words: String,
}

/// What an agent found when it began to lead.
#[derive(Clone, Debug)]
pub(super) struct Inherited {
    pub(super) by: String,
    pub(super) summary: String,
    pub(super) steps: u64,
    pub(super) acknowledged: bool,
}

/// A line that an agent said.
pub(super) struct Line {
    agent: usize,
    life: u32,
    text: String,
}

/// All of them.
pub(super) struct Troupe {
    pub(super) agents: Vec<Agent>,
    sender: mpsc::Sender<Line>,
}

/// A write that was refused.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) agent: AgentName,
    pub(super) token: Epoch,
    pub(super) message: String,
}

impl Troupe {
    pub(super) fn gather(sender: mpsc::Sender<Line>) -> Result<Troupe, Failure> {
        let agent = |name| {
            Ok(Agent {
                name: crate::context::name(AgentName::new(name))?,
                standing: Standing::Absent,
                life: 0,
                child: None,
                token: None,
                writes: 0,
                refusal: None,
                inherited: None,
                words: String::new(),
            })
        };
        let agents: Result<Vec<Agent>, Failure> =
            ["agent-a", "agent-b", "agent-c"].into_iter().map(agent).collect();
        Ok(Troupe { agents: agents?, sender })
    }

    /// Starts an agent, or starts it again.
    pub(super) fn start(&mut self, index: usize, place: &Place) -> Result<(), Failure> {
        let agent = &mut self.agents[index];
        let mut command = place.baton();
        // Through the shim that ties a process's life to its parent's: should this one be killed, so are the agents.
        let parent = std::process::id().to_string();
        command.args([warden_process::EXEC, baton_warden::NO_TERMINAL, &parent]).arg(place.exe());
        command.args(["run", ELECTION, "--json", "--ttl", TTL, "--as", agent.name.as_str()]);
        command.args(["--task", "refactor authentication", "--"]);
        command.arg(place.exe()).args([WORKER, RESOURCE]);
        // In a group of its own: Ctrl-C is this process's to deal with.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        agent.life += 1;
        agent.standing = Standing::Starting;
        (agent.token, agent.writes, agent.refusal, agent.inherited) = (None, 0, None, None);
        agent.words.clear();
        let life = agent.life;
        if let Some(stdout) = child.stdout.take() {
            listen(stdout, index, life, self.sender.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            listen(stderr, index, life, self.sender.clone());
        }
        self.agents[index].child = Some(child);
        Ok(())
    }

    /// Takes in what an agent said; a refused write is of interest to everybody.
    pub(super) fn take_in(&mut self, line: &Line) -> Option<Refused> {
        let agent = self.agents.get_mut(line.agent).filter(|agent| agent.life == line.life)?;
        let data: Value = serde_json::from_str(&line.text).unwrap_or(Value::Null);
        let token = data["token"].as_u64().map(Epoch);
        let text = |name: &str| data[name].as_str().unwrap_or_default().to_string();
        match data["event"].as_str() {
            Some("waiting") => agent.standing = Standing::Waiting,
            Some("leading") => {
                agent.standing = Standing::Leading;
                agent.begin(token);
            }
            Some("wrote") => {
                agent.begin(token);
                agent.writes += 1;
            }
            Some("inherited") => {
                agent.begin(token);
                agent.inherited = Some(Inherited {
                    by: text("by"),
                    summary: text("summary"),
                    steps: data["steps"].as_u64().unwrap_or(0),
                    acknowledged: data["acknowledged"] == Value::Bool(true),
                });
            }
            Some("refused") => {
                agent.refusal = Some(text("message"));
                let name = agent.name.clone();
                return token.map(|token| Refused { agent: name, token, message: text("message") });
            }
            Some(_) => {}
            None => {
                agent.words = line.text.chars().take(MAX_WORDS).collect();
            }
        }
        None
    }

    /// An agent that is gone although nobody ended it: who, and what it said.
    pub(super) fn find_fallen(&mut self) -> Option<String> {
        self.agents.iter_mut().filter(|agent| agent.standing != Standing::Ended).find_map(|agent| {
            let status = agent.child.as_mut()?.try_wait().ok().flatten()?;
            let words = if agent.words.is_empty() { "nothing" } else { agent.words.as_str() };
            Some(format!("the `baton run` of {} ended by itself ({status}); it said: {words}", agent.name))
        })
    }
}

impl Agent {
    /// Its `baton run`, while it is there.
    pub(super) fn run(&self) -> Option<Pid> {
        let raw = self.child.as_ref()?.id()?;
        Pid::from_raw(i32::try_from(raw).ok()?)
    }

    /// Waits until its `baton run` is gone.
    pub(super) async fn gone(&mut self) -> Result<(), Failure> {
        if let Some(child) = &mut self.child {
            child.wait().await?;
        }
        Ok(())
    }

    fn begin(&mut self, token: Option<Epoch>) {
        if self.token != token {
            (self.token, self.writes, self.refusal, self.inherited) = (token, 0, None, None);
        }
    }
}

fn listen(
    from: impl AsyncRead + Send + Unpin + 'static,
    agent: usize,
    life: u32,
    sender: mpsc::Sender<Line>,
) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(text)) = lines.next_line().await {
            if sender.send(Line { agent, life, text }).await.is_err() {
                return;
            }
        }
    });
}
