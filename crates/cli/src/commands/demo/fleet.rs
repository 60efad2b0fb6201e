//! The agents, who leads them, and waiting for what they do next.

use std::process::Stdio;
use std::time::Duration;

use baton::Coordinator;
use baton::election::time::Span;
use baton::election::{ElectionName, Epoch, Moment};
use baton::store::boot;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::agent::{Agent, AgentLine, AgentState, ELECTION, NAMES, token_of};
use super::folder::DemoFolder;
use super::printer::{Printer, length};
use super::processes::{self, send};
use crate::context::name;
use crate::exit::Exit;
use crate::output::Failure;

/// A silence after which the state of the agents is shown, and that they are alive is checked. Shorter than a leader's between two writes.
const SILENCE: Duration = Duration::from_millis(50);
/// A pause to read.
const PAUSE: Span = Span::millis(900);
/// How many writes it takes to be at work.
const AT_WORK: u64 = 4;
/// A bound on a hang: beside leases that run out, nothing in the demo takes nearly as long.
const PATIENCE: Span = Span::secs(180);
/// Lines of agents that are not read yet, and what is kept of one, at most.
const MAX_UNREAD_LINES: usize = 256;
const MAX_WORDS: usize = 400;

/// All agents.
pub(super) struct Fleet<'a> {
    pub(super) printer: &'a mut Printer,
    folder: &'a DemoFolder,
    /// How long a lease lasts.
    pub(super) ttl: Span,
    pub(super) coordinator: Coordinator,
    pub(super) election: ElectionName,
    pub(super) agents: [Agent; 3],
    /// The last leadership that began.
    leader: Option<Leader>,
    /// Every write that was refused, in order.
    pub(super) refused: Vec<RefusedWrite>,
    /// What was not as it must be.
    pub(super) failures: Vec<String>,
    sender: mpsc::Sender<AgentLine>,
    lines: mpsc::Receiver<AgentLine>,
}

/// A leadership that began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leader {
    /// Which agent.
    pub(super) index: usize,
    pub(super) name: &'static str,
    pub(super) token: Epoch,
    /// When its agent said so.
    pub(super) since: Moment,
}

/// A write that was refused.
#[derive(Clone, Debug)]
pub(super) struct RefusedWrite {
    pub(super) agent: &'static str,
    pub(super) token: Epoch,
    pub(super) message: String,
}

impl Fleet<'_> {
    /// Makes the store. No agent is started yet.
    pub(super) async fn new<'a>(
        printer: &'a mut Printer,
        folder: &'a DemoFolder,
        ttl: Span,
    ) -> Result<Fleet<'a>, Failure> {
        let (sender, lines) = mpsc::channel(MAX_UNREAD_LINES);
        let mut fleet = Fleet {
            printer,
            folder,
            ttl,
            coordinator: Coordinator::connect(&folder.store()).await?,
            election: name(ElectionName::new(ELECTION))?,
            agents: NAMES.map(Agent::new),
            leader: None,
            refused: Vec::new(),
            failures: Vec::new(),
            sender,
            lines,
        };
        fleet.command(&["init"]).await?;
        let path = folder.path.display();
        let text = format!("a store in {path}, leases of {ttl}, every write through a fence");
        fleet.tell("set", json!({"store": folder.store(), "ttl": ttl.to_string()}), &text)?;
        Ok(fleet)
    }

    pub(super) fn tell(&mut self, event: &str, data: Value, text: &str) -> Result<(), Failure> {
        self.printer.tell(event, data, text)
    }

    /// Notes what is not as it must be.
    pub(super) fn expect(&mut self, so: bool, expectation: &str) -> Result<(), Failure> {
        if so {
            return Ok(());
        }
        self.failures.push(expectation.to_string());
        self.printer.complain(expectation)
    }

    /// Waits until something is so.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        mut found: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, Failure> {
        let patience = PATIENCE.max(self.ttl.scaled(3, 1));
        let give_up_at = boot::now() + patience;
        loop {
            if let Some(value) = found(self) {
                return Ok(value);
            }
            if boot::now() >= give_up_at {
                return Err(failed(format!("for {} this did not happen: {what}", length(patience))));
            }
            self.next().await?;
        }
    }

    /// Waits for a leadership with a higher token.
    pub(super) async fn leader_after(&mut self, token: Epoch) -> Result<Leader, Failure> {
        self.until("another agent leads", |fleet| fleet.leader.filter(|leader| leader.token > token)).await
    }

    /// Waits until a leader has written a few times.
    pub(super) async fn at_work(&mut self, leader: Leader) -> Result<(), Failure> {
        self.until("the leader writes", |fleet| {
            let wrote = fleet.agents[leader.index].event("wrote", leader.token)?;
            (wrote["writes"].as_u64()? >= AT_WORK).then_some(())
        })
        .await?;
        self.pause().await
    }

    pub(super) async fn waits(&mut self, index: usize) -> Result<(), Failure> {
        self.until("it waits in line", |fleet| {
            (fleet.agents[index].state == AgentState::Waiting).then_some(())
        })
        .await
    }

    /// A pause to read; the agents go on meanwhile.
    pub(super) async fn pause(&mut self) -> Result<(), Failure> {
        let until = boot::now() + PAUSE;
        while self.printer.pauses && boot::now() < until {
            self.next().await?;
        }
        Ok(())
    }

    /// Starts an agent.
    pub(super) async fn start(&mut self, index: usize) -> Result<(), Failure> {
        self.agents[index].start(self.folder, self.ttl, &self.sender).await
    }

    /// Starts an agent that was ended, and waits until it waits in line.
    pub(super) async fn start_again(&mut self, index: usize) -> Result<(), Failure> {
        self.start(index).await?;
        self.waits(index).await?;
        let name = NAMES[index];
        self.tell("started", json!({"agent": name}), &format!("{name} is started again and waits in line"))
    }

    /// The processes of a leader: its `baton run`, the warden below it, and the work below that.
    pub(super) fn processes(&self, leader: Leader) -> Result<[Pid; 3], Failure> {
        let run = self.agents[leader.index].pid;
        let below = run.map(baton_warden::descendants).unwrap_or_default();
        match (run, below[..].first_chunk()) {
            (Some(run), Some([warden, work])) => Ok([run, *warden, *work]),
            (_, _) => Err(failed(format!("the processes of {} are gone", leader.name))),
        }
    }

    /// Ends an agent's `baton run`, and perhaps more. Returns when.
    pub(super) fn end(&mut self, leader: Leader, signal: Signal, pids: &[Pid]) -> Moment {
        self.agents[leader.index].state = AgentState::Ended;
        send(signal, pids);
        boot::now()
    }

    /// Stops processes; returns when the lease ends, since nobody renews it.
    pub(super) async fn stop(&mut self, pids: &[Pid]) -> Result<Moment, Failure> {
        let stopped = processes::stop(pids).await;
        self.expect(stopped, "stopped processes stand still")?;
        let asked_at = boot::now();
        let view = self.coordinator.view(&self.election).await?;
        Ok(asked_at + view.document.map_or(Span::ZERO, |document| document.lease_remaining(view.age)))
    }

    /// Runs a command of this program on the demo's store. Returns what it printed.
    pub(super) async fn command(&mut self, arguments: &[&str]) -> Result<String, Failure> {
        let mut command = self.folder.baton();
        let done = command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await?;
        if !done.status.success() {
            let words = String::from_utf8_lossy(&done.stderr).trim().to_string();
            return Err(failed(format!("`baton {}` failed ({}): {words}", arguments.join(" "), done.status)));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_string())
    }

    /// Waits for the next line of an agent, or for a moment.
    async fn next(&mut self) -> Result<(), Failure> {
        if let Ok(Some((pid, line))) = timeout(SILENCE, self.lines.recv()).await {
            self.note(pid, &line);
            return Ok(());
        }
        for agent in &mut self.agents {
            if let Some(status) = agent.unexpected_end() {
                let (name, words) = (agent.name, &agent.last_words);
                let text = format!("the `baton run` of {name} ended by itself ({status}); it said: {words}");
                return Err(failed(text));
            }
        }
        self.printer.draw(&self.agents.each_ref().map(Agent::summary).join("   "))
    }

    fn note(&mut self, pid: Pid, line: &str) {
        // A line of a process that was ended is nobody's.
        let Some(index) = self.agents.iter().position(|agent| agent.pid == Some(pid)) else { return };
        let agent = &mut self.agents[index];
        let event: Value = serde_json::from_str(line).unwrap_or(Value::Null);
        let Some(kind) = event["event"].as_str().map(str::to_string) else {
            agent.last_words = line.chars().take(MAX_WORDS).collect();
            return;
        };
        let (name, token) = (agent.name, token_of(&event));
        match kind.as_str() {
            "waiting" => agent.state = AgentState::Waiting,
            "leading" => {
                agent.state = AgentState::Leading;
                self.leader = Some(Leader { index, name, token, since: boot::now() });
            }
            "refused" => {
                let message = event["message"].as_str().unwrap_or_default().to_string();
                self.refused.push(RefusedWrite { agent: name, token, message });
            }
            _ => {}
        }
        agent.note(kind, event);
    }
}

fn failed(message: String) -> Failure {
    Failure::new(
        Exit::Error,
        "demo",
        message,
        "a machine that is very busy may be too slow for such leases: baton demo --ttl 10s; see also baton doctor",
    )
}
