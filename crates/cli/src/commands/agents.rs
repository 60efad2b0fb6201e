//! `baton agents`: see who is there, how it fares, and what it leads.

use baton::api::describe::{Description, Fares};
use baton::api::sessions::SessionView;
use baton::election::time::Span;
use baton::election::{AgentName, ElectionName};
use baton::{AgentView, Presence};
use clap::Args;
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Failure, clean};
use crate::screen::{Screen, StoreCommand};

/// How many of a list are shown before the rest is counted.
const SHOWN: usize = 3;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton agents --store http://127.0.0.1:7420
  baton agents agent-a                     one agent in full
  baton agents --sessions                  each session at a server, and what it follows

Agents with a session at a server report how they are: baton run --session, baton watch --acknowledge --describe FILE, or \
Session::describe of the library. A state is alive, late, suspect, failing (a dependency fails) or no session. φ is a suspicion level \
computed from heartbeat arrival times: below 1 the agent is on time, from 8 on it is suspected to be gone. It is for people only; leases \
alone decide. Without a server, the list has leaders and candidates only.")]
pub(crate) struct Agents {
    /// Only this agent
    agent: Option<AgentName>,
    /// List the sessions that agents have open at a server, which keeps them in memory only
    #[arg(long)]
    sessions: bool,
}

impl StoreCommand for Agents {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        if self.sessions {
            return self.list_sessions(context).await;
        }
        let mut agents = context.coordinator.agents().await?;
        if let Some(only) = &self.agent {
            agents.retain(|agent| agent.agent == *only);
            let [agent] = &agents[..] else {
                return Err(Failure::new(
                    Exit::Error,
                    "unknown-agent",
                    format!("nobody knows {only}: it has no session, leads nothing and is no candidate"),
                    "see who is there: baton agents",
                ));
            };
            return Ok(Screen::new(data(agent), described(agent)));
        }
        let none = format!("nobody is known at {}", context.coordinator.backend().location());
        let (head, rows) = rows(&agents);
        Ok(Screen::table(agents.iter().map(data).collect(), head, &rows, none))
    }
}

impl Agents {
    async fn list_sessions(&self, context: &Context) -> Result<Screen, Failure> {
        let mut sessions = context.coordinator.sessions().await?;
        sessions.retain(|session| self.agent.as_ref().is_none_or(|only| session.agent == *only));
        let rows: Vec<Vec<String>> = sessions.iter().map(session_row).collect();
        let none = format!("no sessions at {}", context.coordinator.backend().location());
        let data = sessions.iter().map(|session| json!(session)).collect();
        Ok(Screen::table(data, &["AGENT", "SINCE", "HEARD", "LEASES", "FOLLOWS"], &rows, none))
    }
}

fn session_row(session: &SessionView) -> Vec<String> {
    vec![
        session.agent.to_string(),
        ago(session.age_ms),
        ago(session.silent_ms),
        session.leases.to_string(),
        names(&session.follows),
    ]
}

fn ago(ms: u64) -> String {
    match ms / 1_000 {
        0 => "under 1s ago".to_string(),
        seconds => format!("{} ago", Span::secs(seconds)),
    }
}

fn description(agent: &AgentView) -> Option<&Description> {
    agent.sessions.iter().find_map(|session| session.description.as_ref())
}

/// How an agent is, in the word that programs get.
fn state(agent: &AgentView) -> &'static str {
    let fails =
        |description: &Description| description.dependencies.values().any(|fares| *fares == Fares::Failing);
    match agent.presence() {
        Presence::Alive | Presence::Late if description(agent).is_some_and(fails) => "failing",
        presence => presence.name(),
    }
}

fn data(agent: &AgentView) -> Value {
    let session = agent.sessions.first();
    json!({
        "agent": agent.agent,
        "state": state(agent),
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

/// The table of agents. Where nobody has a session, nothing is known of how they are.
pub(super) fn rows(agents: &[AgentView]) -> (&'static [&'static str], Vec<Vec<String>>) {
    if agents.iter().all(|agent| agent.sessions.is_empty()) {
        let row =
            |agent: &AgentView| vec![agent.agent.to_string(), names(&agent.leads), names(&agent.stands_for)];
        return (&["AGENT", "LEADS", "WAITS FOR"], agents.iter().map(row).collect());
    }
    let head = &["AGENT", "STATE", "HEARD", "LEADS", "WAITS FOR", "PROGRESS", "HEALTH"];
    (head, agents.iter().map(row).collect())
}

fn row(agent: &AgentView) -> Vec<String> {
    let session = agent.sessions.first();
    let cell = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_string());
    vec![
        agent.agent.to_string(),
        state(agent).replace('-', " "),
        cell(session.map(|session| ago(session.silent_ms))),
        names(&agent.leads),
        names(&agent.stands_for),
        cell(session.map(progress)),
        cell(session.map(health)),
    ]
}

/// What an agent is at: the tasks of its description, else its own word on its progress.
fn progress(session: &SessionView) -> String {
    let tasks = session.description.as_ref().map(tasks).filter(|tasks| !tasks.is_empty());
    match (tasks, &session.progress) {
        (Some(tasks), _) => short(&tasks),
        (None, Some(said)) => share(said).map_or_else(|| words(said), |share| format!("{share} %")),
        (None, None) => String::new(),
    }
}

/// How an agent is: what does not work stands first.
fn health(session: &SessionView) -> String {
    let mut parts = Vec::new();
    if let Some(description) = &session.description {
        let bad = description.dependencies.iter().filter(|(_, fares)| **fares != Fares::Ok);
        parts.extend(bad.map(|(name, fares)| format!("{name} {fares}")));
        parts.extend(description.cpu_percent.map(|percent| format!("cpu {percent} %")));
        parts.extend(description.memory_bytes.map(|memory| format!("memory {}", bytes(memory))));
        parts.extend(description.queue_depth.map(|depth| format!("queue {depth}")));
    }
    parts.push(format!("φ {}", session.suspicion));
    parts.extend(session.health.as_ref().map(words));
    parts.join(", ")
}

/// How much of a whole, in percent, as far as an agent's word on its progress tells.
fn share(progress: &Value) -> Option<u64> {
    let first = progress.as_array().or_else(|| progress["tasks"].as_array()).and_then(|tasks| tasks.first());
    let said = first.unwrap_or(progress);
    let number = said.as_f64().or_else(|| said["progress"].as_f64()).or_else(|| said["percent"].as_f64());
    let of_whole = || Some(said["done"].as_f64()? / said["total"].as_f64().filter(|total| *total > 0.0)?);
    let part = number.or_else(of_whole)?;
    let part = if part > 1.0 { part / 100.0 } else { part };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 100")]
    Some((part.clamp(0.0, 1.0) * 100.0).round() as u64)
}

/// A word of an agent, on one line.
fn words(value: &Value) -> String {
    match value {
        Value::Object(pairs) => pairs
            .iter()
            .map(|(name, value)| format!("{name} {}", words(value)))
            .collect::<Vec<_>>()
            .join(", "),
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(" "),
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
    .replace('\n', " ")
}

/// All that is known of one, a line each.
pub(super) fn described(agent: &AgentView) -> String {
    let mut lines = vec![format!("{}: {}", agent.agent, state(agent).replace('-', " "))];
    let mut line = |what: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {what:<13} {value}"));
        }
    };
    line("leads", agent.leads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    line("waits for", agent.stands_for.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    for session in &agent.sessions {
        let heard = Span::millis(session.silent_ms / 100 * 100);
        let lasts = Span::secs(session.lasts_ms / 1_000);
        line("heard", format!("{heard} ago, of {lasts}; φ {}", session.suspicion));
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
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 10 * 1_024 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1_024, unit + 1);
    }
    format!("{value} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_shown_as_it_described_itself() {
        let described: SessionView = serde_json::from_value(json!({
            "agent": "a", "age_ms": 9_000, "silent_ms": 3_000, "lasts_ms": 18_000, "follows": [], "leases": 1,
            "suspicion": 0.42,
            "description": {"cpu_percent": 40, "memory_bytes": 20_971_520, "queue_depth": 2,
                "tasks": [{"name": "parser", "percent": 1}], "dependencies": {"db": "failing", "web": "ok"}},
        }))
        .unwrap();
        let agent = "a".parse().unwrap();
        let mut view =
            AgentView { agent, sessions: vec![described], leads: Vec::new(), stands_for: Vec::new() };
        let shown = row(&view).join("|");
        let health = "db failing, cpu 40 %, memory 20 MiB, queue 2, φ 0.4";
        assert_eq!(shown, format!("a|failing|3s ago|-|-|parser 1 %|{health}"));
        view.sessions.clear();
        view.leads.push("e".parse().unwrap());
        assert_eq!(row(&view).join("|"), "a|no session|-|e|-|-|-");
        let (head, shown) = rows(&[view]);
        assert_eq!((head, shown[0].join("|")), (&["AGENT", "LEADS", "WAITS FOR"][..], "a|e|-".to_string()));
    }

    #[test]
    fn what_agents_say_is_read_as_far_as_it_can_be() {
        for (said, percent) in [
            (json!(0.5), Some(50)),
            (json!(75), Some(75)),
            (json!({"done": 1, "total": 3}), Some(33)),
            (json!({"done": 1, "total": 0}), None),
            (json!([{"task": "t", "progress": 0.2}]), Some(20)),
            (json!("half"), None),
            (json!(-4), Some(0)),
        ] {
            assert_eq!(share(&said), percent, "{said}");
        }
    }
}
