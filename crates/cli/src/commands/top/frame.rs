//! What stands on the screen: lines of text, no wider than it is. Nothing here knows of a terminal.

use baton::View;
use baton::api::describe::{Description, Fares};
use baton::api::sessions::SessionView;
use baton::api::waiting::Waiting;
use baton::election::ElectionName;
use baton::election::document::State;
use baton::election::time::Span;
use serde_json::Value;

use super::super::{agents, show};
use super::Looked;
use crate::output::{clean, table};

/// How many lines stand above and below the rows.
const AROUND: usize = 4;
/// In which column the leader stands.
const LEADER: usize = 2;
/// How many characters a bar has.
const BAR: u64 = 10;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    Elections,
    Agents,
}

/// The agents.
pub(super) enum Agents {
    There(Vec<SessionView>),
    /// The store has no sessions.
    Nowhere,
}

/// A screen.
pub(super) struct Frame<'a> {
    pub(super) location: &'a str,
    pub(super) width: usize,
    /// How many stand above the first that is shown.
    pub(super) at: usize,
    pub(super) total: usize,
    pub(super) trouble: Option<&'a str>,
    pub(super) shows: Shows,
    pub(super) views: &'a [Looked],
    pub(super) agents: Option<&'a Agents>,
}

/// How many rows a screen of this height has room for.
pub(super) fn rows(height: usize) -> usize {
    height.saturating_sub(AROUND).max(1)
}

impl Frame<'_> {
    /// The lines, as many as there is room for.
    pub(super) fn lines(&self, height: Option<usize>) -> Vec<String> {
        let (body, shown) = match self.shows {
            Shows::Elections => self.elections(),
            Shows::Agents => self.sessions(height),
        };
        let what = match self.shows {
            Shows::Elections => "elections",
            Shows::Agents => "agents",
        };
        let counted = match shown {
            0 => format!("no {what}"),
            shown if shown == self.total => format!("{} {what}", self.total),
            shown => format!("{} to {} of {} {what}", self.at + 1, self.at + shown, self.total),
        };
        let views = self.views.iter().filter_map(|(_, view, _)| view.as_ref());
        let leaderless = views.filter(|view| view.leaderless().is_some()).count();
        let degraded = match (self.shows, leaderless) {
            (Shows::Agents, _) | (Shows::Elections, 0) => String::new(),
            (Shows::Elections, leaderless) => format!(", {leaderless} of these degraded: nobody leads"),
        };
        let mut lines = vec![format!("baton top  {}  {counted}{degraded}", self.location)];
        lines.push(self.trouble.map_or(String::new(), |trouble| format!("not fresh: {}", clean(trouble))));
        lines.extend(body.lines().map(ToString::to_string));
        if let Some(height) = height {
            lines.truncate(height.saturating_sub(1));
            lines.resize(height.saturating_sub(1), String::new());
            lines.push("q quit  arrows move  e elections  a agents".to_string());
        }
        lines.iter().map(|line| fitted(line, self.width)).collect()
    }

    fn elections(&self) -> (String, usize) {
        let rows: Vec<Vec<String>> = self
            .views
            .iter()
            .map(|(election, view, waiting)| row(election, view.as_ref(), waiting))
            .collect();
        let head =
            ["ELECTION", "STATE", "LEADER", "TOKEN", "LEASE", "", "PHASE", "CHANGE", "IN LINE", "TASK"];
        (if rows.is_empty() { String::new() } else { table(&head, &rows) }, rows.len())
    }

    fn sessions(&self, height: Option<usize>) -> (String, usize) {
        let sessions = match self.agents {
            Some(Agents::There(sessions)) => sessions,
            Some(Agents::Nowhere) => return ("agents are known at a server: baton serve".to_string(), 0),
            None => return (String::new(), 0),
        };
        let room = height.map_or(usize::MAX, rows);
        let rows: Vec<Vec<String>> = sessions.iter().skip(self.at).take(room).map(agent).collect();
        let head = ["AGENT", "HEARD", "PHI", "LEASES", "PROGRESS", "", "HEALTH"];
        (if rows.is_empty() { String::new() } else { table(&head, &rows) }, rows.len())
    }
}

fn row(election: &ElectionName, view: Option<&View>, waiting: &[Waiting]) -> Vec<String> {
    let unreadable = || {
        [election.as_str(), "unreadable", "-", "-", "-", "", "", "", "", ""].map(ToString::to_string).to_vec()
    };
    let Some(view) = view else { return unreadable() };
    let Some(document) = &view.document else { return unreadable() };
    let mut cells = show::row(view);
    let task = cells.pop().unwrap_or_default();
    if let Some(region) = document.leader.as_ref().and_then(|leader| leader.region.as_ref()) {
        cells[LEADER] += &format!(" from {}", region.election);
    }
    let share = document.lease_holder().map(|holder| {
        let (left, whole) = (document.lease_remaining(view.age), holder.lease());
        bar(left.as_millis(), whole.as_millis())
    });
    let phase = document
        .leader
        .as_ref()
        .filter(|_| document.state == State::Held)
        .map(|leader| leader.phase.to_string());
    let change = document.last_transition.as_ref().map(|last| last.cause.handover().to_string());
    let in_line = if waiting.is_empty() { String::new() } else { waiting.len().to_string() };
    let (share, phase) = (share.unwrap_or_default(), phase.unwrap_or_default());
    cells.extend([share, phase, change.unwrap_or_default(), in_line, task]);
    cells
}

fn agent(session: &SessionView) -> Vec<String> {
    let task = session.description.as_ref().and_then(|description| description.tasks.first());
    let (share, said) = match task {
        Some(task) => (task.percent.map(u64::from), task.name.clone()),
        None => {
            let said = session.progress.as_ref();
            (said.and_then(share), said.map(words).unwrap_or_default())
        }
    };
    vec![
        session.agent.to_string(),
        format!("{} ago", Span::secs(session.silent_ms / 1_000)),
        session.suspicion.to_string(),
        session.leases.to_string(),
        match share {
            Some(share) if task.is_some() => format!("{said} {share} %"),
            Some(share) => format!("{share} %"),
            None => said,
        },
        share.map_or(String::new(), |share| bar(share, 100)),
        [session.description.as_ref().map(fares), session.health.as_ref().map(words)]
            .into_iter()
            .flatten()
            .filter(|words| !words.is_empty())
            .collect::<Vec<_>>()
            .join(", "),
    ]
}

/// How an agent is, by its description: what does not work stands first.
fn fares(description: &Description) -> String {
    let bad = description.dependencies.iter().filter(|(_, fares)| **fares != Fares::Ok);
    let bad = bad.map(|(name, fares)| format!("{name} {fares}"));
    let cpu = description.cpu_percent.map(|percent| format!("cpu {percent} %"));
    let memory = description.memory_bytes.map(|bytes| format!("memory {}", agents::bytes(bytes)));
    let queue = description.queue_depth.map(|depth| format!("queue {depth}"));
    bad.chain(cpu).chain(memory).chain(queue).collect::<Vec<_>>().join(", ")
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

/// A part of a whole as a bar.
fn bar(part: u64, whole: u64) -> String {
    let full = (part.min(whole) * BAR).div_ceil(whole.max(1));
    (0..BAR).map(|place| if place < full { '#' } else { '.' }).collect()
}

/// A line that is no wider than the screen.
fn fitted(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_string();
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use baton::election::document::Document;
    use baton::election::{Epoch, StoreId, WallTime};
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn view(name: &str, task: Option<&str>, waiting: &[&str]) -> Looked {
        let election = ElectionName::new(name).unwrap();
        let mut document = Document::new(election.clone(), StoreId([1; 8]), Epoch(3), &[]);
        document.task = task.map(Into::into);
        let waits = |agent: &&str| Waiting { agent: agent.parse().unwrap(), since: WallTime::default() };
        let view = View { document: Some(document), age: Span::ZERO, exact: true, native: false };
        (election, Some(view), waiting.iter().map(waits).collect())
    }

    #[test]
    fn a_screen_is_as_wide_and_as_high_as_the_terminal() {
        let views = [
            view("deploy", Some("\u{1b}[31mred\u{7} and more than there is room for"), &["b", "c"]),
            view("nightly", None, &[]),
        ];
        let mut frame = Frame {
            location: "file:.baton",
            width: 68,
            at: 4,
            total: 9,
            trouble: None,
            shows: Shows::Elections,
            views: &views,
            agents: None,
        };
        expect![[r#"
            baton top  file:.baton  5 to 6 of 9 elections

            ELECTION  STATE   LEADER  TOKEN  LEASE    PHASE  CHANGE  IN LINE  T…
            deploy    vacant  -       3      -                       2        �…
            nightly   vacant  -       3      -

            q quit  arrows move  e elections  a agents"#]]
        .assert_eq(&frame.lines(Some(7)).join("\n"));
        // A server's own words, perhaps.
        frame.trouble = Some("the \u{1b}[2Jdisk is gone");
        let lines = frame.lines(Some(3));
        assert_eq!(
            lines[1..],
            ["not fresh: the \u{fffd}[2Jdisk is gone", "q quit  arrows move  e elections  a agents"]
        );
    }

    #[test]
    fn an_agent_is_shown_as_it_described_itself() {
        let described: SessionView = serde_json::from_value(json!({
            "agent": "a", "age_ms": 9_000, "silent_ms": 3_000, "lasts_ms": 18_000, "follows": [], "leases": 1,
            "suspicion": 0.42,
            "description": {"cpu_percent": 40, "memory_bytes": 20_971_520, "queue_depth": 2,
                "tasks": [{"name": "parser", "percent": 1}], "dependencies": {"db": "failing", "web": "ok"}},
        }))
        .unwrap();
        let shown = agent(&described).join("|");
        assert_eq!(
            shown,
            "a|3s ago|0.4|1|parser 1 %|#.........|db failing, cpu 40 %, memory 20 MiB, queue 2"
        );
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
        assert_eq!(bar(1, 100), "#.........");
        assert_eq!((bar(0, 0), bar(9, 3)), ("..........".to_string(), "##########".to_string()));
    }
}
