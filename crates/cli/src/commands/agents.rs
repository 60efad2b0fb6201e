//! `baton agents`: see who is there, how it fares, and what it leads.

use baton::api::describe::{Description, Fares};
use baton::election::time::Span;
use baton::election::{AgentName, ElectionName};
use baton::store::Access;
use baton::{AgentView, Error};
use clap::Args;
use serde_json::{Value, json};

use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, clean, table};

/// How many of a list are shown before the rest is counted.
const SHOWN: usize = 3;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton agents --store http://127.0.0.1:7420
  baton agents agent-a                     one agent in full

Agents with a session at a server report how they are: baton run --session, baton watch --acknowledge --describe FILE, or \
Session::describe of the library. PHI is a suspicion level computed from heartbeat arrival times: below 1 the agent is on time, \
from 8 on it is suspected to be gone. It is for people only; leases alone decide. Without a server, the list has leaders and \
candidates only.")]
pub(crate) struct Agents {
    /// Only this agent
    agent: Option<AgentName>,
}

impl Agents {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let fail = |error: Error| Failure::from_error(&error, Speaker::Guard);
        let mut agents = context.coordinator.agents().await.map_err(fail)?;
        context.remember();
        if let Some(only) = &self.agent {
            agents.retain(|agent| agent.agent == *only);
            let [agent] = &agents[..] else {
                return Err(Failure::new(
                    Exit::Error,
                    "unknown-agent",
                    format!("nobody knows {only}: it has no session, leads nothing and stands for nothing"),
                    "see who is there: baton agents",
                ));
            };
            context.output.say(&data(agent), &described(agent))?;
            return Ok(Exit::Done);
        }
        if context.output.json {
            for agent in &agents {
                context.output.line(&data(agent).to_string())?;
            }
        } else if agents.is_empty() {
            context.output.talk(&format!("nobody is known at {}", context.coordinator.backend().location()));
        } else {
            let rows: Vec<Vec<String>> = agents.iter().map(row).collect();
            let head = ["AGENT", "STATE", "PHI", "LEADS", "AT", "CPU", "MEMORY", "QUEUE", "TROUBLE"];
            context.output.line(&table(&head, &rows))?;
        }
        Ok(Exit::Done)
    }
}

fn description(agent: &AgentView) -> Option<&Description> {
    agent.sessions.iter().find_map(|session| session.description.as_ref())
}

fn data(agent: &AgentView) -> Value {
    let session = agent.sessions.first();
    json!({
        "agent": agent.agent,
        "state": agent.presence().name(),
        "suspicion": agent.suspicion(),
        "sessions": agent.sessions.len(),
        "silent_ms": session.map(|session| session.silent_ms),
        "lasts_ms": session.map(|session| session.lasts_ms),
        "leads": agent.leads,
        "stands_for": agent.stands_for,
        "follows": session.map(|session| &session.follows),
        "description": description(agent),
        "health": session.and_then(|session| session.health.as_ref()),
        "progress": session.and_then(|session| session.progress.as_ref()),
    })
}

fn row(agent: &AgentView) -> Vec<String> {
    let unknown = || "-".to_string();
    let of =
        |say: fn(&Description) -> Option<String>| description(agent).and_then(say).unwrap_or_else(unknown);
    vec![
        agent.agent.to_string(),
        agent.presence().name().to_string(),
        agent.suspicion().map_or_else(unknown, |suspicion| suspicion.to_string()),
        names(&agent.leads),
        of(|description| (!description.tasks.is_empty()).then(|| short(&tasks(description)))),
        of(|description| description.cpu_percent.map(|percent| format!("{percent} %"))),
        of(|description| description.memory_bytes.map(bytes)),
        of(|description| description.queue_depth.map(|depth| depth.to_string())),
        of(|description| Some(short(&trouble(description))).filter(|trouble| !trouble.is_empty())),
    ]
}

/// All that is known of one, a line each.
fn described(agent: &AgentView) -> String {
    let mut lines = vec![format!("{}: {}", agent.agent, agent.presence().name())];
    let mut line = |what: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {what:<13} {value}"));
        }
    };
    line("leads", agent.leads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    line("stands for", agent.stands_for.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    for session in &agent.sessions {
        let heard = Span::millis(session.silent_ms / 100 * 100);
        let lasts = Span::secs(session.lasts_ms / 1_000);
        line("heard", format!("{heard} ago, of {lasts}; phi {}", session.suspicion));
        line("follows", session.follows.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    }
    if let Some(description) = description(agent) {
        line(
            "cpu",
            description.cpu_percent.map_or(String::new(), |percent| format!("{percent} % of a core")),
        );
        line("memory", description.memory_bytes.map_or(String::new(), bytes));
        line("queue", description.queue_depth.map_or(String::new(), |depth| depth.to_string()));
        line("capabilities", description.capabilities.iter().cloned().collect::<Vec<_>>().join(", "));
        tasks(description).into_iter().for_each(|task| line("task", task));
        for (name, fares) in &description.dependencies {
            line("dependency", format!("{name} {fares}"));
        }
    }
    lines.iter().map(|line| clean(line)).collect::<Vec<_>>().join("\n")
}

fn tasks(description: &Description) -> Vec<String> {
    let task = |task: &baton::api::describe::CurrentTask| {
        let percent = task.percent.map_or(String::new(), |percent| format!(" {percent} %"));
        let left = task.estimate_ms.map(|ms| Span::secs(ms.div_ceil(1_000)));
        let left = left.map_or(String::new(), |left| format!(", {left} to go"));
        format!("{}{percent}{left}", task.name)
    };
    description.tasks.iter().map(task).collect()
}

fn trouble(description: &Description) -> Vec<String> {
    let bad = description.dependencies.iter().filter(|(_, fares)| **fares != Fares::Ok);
    bad.map(|(name, fares)| format!("{name} {fares}")).collect()
}

fn names(elections: &[ElectionName]) -> String {
    match elections {
        [] => "-".to_string(),
        some => short(&some.iter().map(ToString::to_string).collect::<Vec<_>>()),
    }
}

/// The first of them, and how many more there are.
fn short(all: &[String]) -> String {
    let more = all.len().saturating_sub(SHOWN);
    let shown = all.iter().take(SHOWN).cloned();
    shown.chain((more > 0).then(|| format!("and {more} more"))).collect::<Vec<_>>().join(", ")
}

/// So many bytes, for people.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 10 * 1_024 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1_024, unit + 1);
    }
    format!("{value} {}", UNITS[unit])
}
