//! What the records say at the end: the history, the fence's log, and what follows from them.

use baton::election::Epoch;
use baton::election::document::Transition;
use baton::election::fence::Accepted;
use serde_json::{Value, json};

use super::Stop;
use super::scene::Scene;
use super::troupe::{RESOURCE, Refused};
use crate::exit::Exit;
use crate::output::table;

/// How many changes of leader are read: more than the demo can have.
const ALL: usize = 100;

/// What was counted.
struct Records {
    history: Vec<Transition>,
    accepted: Vec<Accepted>,
    refused: Vec<Refused>,
}

/// Shows the records and judges them.
pub(super) async fn give(scene: &mut Scene<'_>) -> Result<Exit, Stop> {
    let records = Records {
        history: scene.coordinator.history(&scene.election, ALL).await?,
        accepted: scene.coordinator.fences().accepted(&scene.resource).await?,
        refused: scene.refused.clone(),
    };
    scene.stage.heading("The leaders, and why each leadership ended (baton history)")?;
    let (data, text) = records.leaderships();
    scene.stage.table(&data, &text)?;
    scene.stage.heading(&format!("What the fence of {RESOURCE} accepted (baton fence --log, by token)"))?;
    let (data, text) = records.writes();
    scene.stage.table(&data, &text)?;
    for (so, what) in records.judged() {
        scene.expect(so, what)?;
    }
    let good = scene.failures.is_empty();
    let mut text = records.summary();
    if good {
        text.push_str(", never two at once");
    } else {
        text.push_str(&format!("; not as it must be: {}", scene.failures.join("; ")));
    }
    let tokens: Vec<Epoch> = records.history.iter().map(|transition| transition.epoch).collect();
    let data = json!({
        "event": "verdict", "good": good, "leaderships": records.history.len(), "tokens": tokens,
        "writes": records.accepted.len(), "refused": records.refused.len(), "failures": scene.failures,
        "text": text,
    });
    scene.stage.conclude(&data, good, &text)?;
    Ok(if good { Exit::Done } else { Exit::Error })
}

impl Records {
    fn leaderships(&self) -> (Vec<Value>, String) {
        let object = |transition: &Transition| {
            let mut data = json!(transition);
            data["event"] = json!("transition");
            data
        };
        let row = |transition: &Transition| {
            let from = transition.from.as_ref().map_or(String::new(), |from| format!("{from} → "));
            vec![
                transition.epoch.to_string(),
                format!("{from}{}", transition.to),
                transition.cause.to_string(),
                transition.phases.took().unwrap_or_default().to_string(),
                transition.reason.clone(),
            ]
        };
        let rows: Vec<Vec<String>> = self.history.iter().map(row).collect();
        let text = table(&["TOKEN", "LEADER", "CAUSE", "TOOK", "REASON"], &rows);
        (self.history.iter().map(object).collect(), text)
    }

    /// The log, with the writes of one leadership in one row.
    fn writes(&self) -> (Vec<Value>, String) {
        let runs: Vec<&[Accepted]> = self.accepted.chunk_by(same_writer).collect();
        let ends = |run: &[Accepted]| Some((run.first()?.clone(), run.last()?.clone()));
        let mut rows = Vec::new();
        let mut data = Vec::new();
        for (run, (first, last)) in runs.iter().filter_map(|run| Some((run, ends(run)?))) {
            let agent = first.agent.as_ref().map_or("-".to_string(), ToString::to_string);
            data.push(json!({
                "event": "accepted", "token": first.token, "agent": agent, "writes": run.len(),
                "first_seq": first.seq, "last_seq": last.seq, "first_note": first.note, "last_note": last.note,
            }));
            rows.push(vec![
                first.token.to_string(),
                agent,
                format!("{} … {}", first.seq, last.seq),
                format!("{} … {}", first.note, last.note),
            ]);
        }
        (data, table(&["TOKEN", "AGENT", "WRITES", "WHAT"], &rows))
    }

    /// What must be so whatever happened.
    fn judged(&self) -> [(bool, &'static str); 4] {
        let leader = |token: Epoch| self.history.iter().find(|transition| transition.epoch == token);
        let by_its_leader = |entry: &Accepted| {
            leader(entry.token).is_some_and(|transition| entry.agent.as_ref() == Some(&transition.to))
        };
        let refused_in_log = |refused: &Refused| {
            let later = self.accepted.iter().any(|entry| entry.token > refused.token);
            leader(refused.token).is_some_and(|transition| transition.to == refused.agent) && later
        };
        [
            (self.history.is_sorted_by(|a, b| a.epoch < b.epoch), "tokens rise from leader to leader"),
            (self.accepted.is_sorted_by(|a, b| a.token <= b.token), "accepted tokens never go back"),
            (
                !self.accepted.is_empty() && self.accepted.iter().all(by_its_leader),
                "every write is by the leader of its token",
            ),
            (
                !self.refused.is_empty() && self.refused.iter().all(refused_in_log),
                "every refused write was a former leader's",
            ),
        ]
    }

    fn summary(&self) -> String {
        let tokens: Vec<String> = self.history.iter().map(|found| found.epoch.to_string()).collect();
        let refused = match self.refused.len() {
            1 => "1 stale write refused".to_string(),
            number => format!("{number} stale writes refused"),
        };
        format!(
            "{} leaderships, tokens {}, {} guarded writes, {refused}",
            self.history.len(),
            tokens.join(" "),
            self.accepted.len()
        )
    }
}

fn same_writer(a: &Accepted, b: &Accepted) -> bool {
    a.token == b.token && a.agent == b.agent
}
