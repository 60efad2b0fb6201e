//! What the records say at the end: the history, the fence's log, and what follows from them.

use baton::election::Epoch;
use baton::election::ResourceName;
use baton::election::document::Transition;
use baton::election::fence::Accepted;
use serde_json::{Value, json};

use super::agent::RESOURCE;
use super::fleet::Fleet;
use crate::context::name;
use crate::exit::Exit;
use crate::output::{Failure, Outcome, table};

/// How many changes of leader are read: more than the demo can have.
const ALL: usize = 100;

/// Prints the records and judges them.
pub(super) async fn print(fleet: &mut Fleet<'_>) -> Outcome {
    let history = fleet.coordinator.history(&fleet.election, ALL).await?;
    let accepted = fleet.coordinator.fences().accepted(&name(ResourceName::new(RESOURCE))?).await?;
    print_leaderships(fleet, &history)?;
    print_writes(fleet, &accepted)?;
    judge(fleet, &history, &accepted)?;
    let good = fleet.failures.is_empty();
    let verdict = match good {
        true => ", never two at once".to_string(),
        false => format!("; not as it must be: {}", fleet.failures.join("; ")),
    };
    let tokens: Vec<Epoch> = history.iter().map(|transition| transition.epoch).collect();
    let (leaderships, writes, refused) = (history.len(), accepted.len(), fleet.refused.len());
    let text = format!(
        "{leaderships} leaderships, tokens {}, {writes} guarded writes, {refused} stale write{} refused{verdict}",
        tokens.iter().map(Epoch::to_string).collect::<Vec<_>>().join(" "),
        if refused == 1 { "" } else { "s" },
    );
    let data = json!({
        "good": good, "leaderships": leaderships, "tokens": tokens, "writes": writes, "refused": refused,
        "failures": fleet.failures, "text": text,
    });
    fleet.printer.conclude(data, good, &text)?;
    Ok(if good { Exit::Done } else { Exit::Error })
}

fn print_leaderships(fleet: &mut Fleet<'_>, history: &[Transition]) -> Result<(), Failure> {
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
    let rows: Vec<Vec<String>> = history.iter().map(row).collect();
    let text = table(&["TOKEN", "LEADER", "CAUSE", "TOOK", "REASON"], &rows);
    let heading = "The leaders, and why each leadership ended (baton history)";
    let data = history.iter().map(|transition| json!(transition)).collect();
    fleet.printer.table(heading, "transition", data, &text)
}

/// The log, with the writes of one leadership in one row.
fn print_writes(fleet: &mut Fleet<'_>, accepted: &[Accepted]) -> Result<(), Failure> {
    let (mut rows, mut data): (_, Vec<Value>) = (Vec::new(), Vec::new());
    for writes in accepted.chunk_by(|a, b| a.token == b.token && a.agent == b.agent) {
        let (Some(first), Some(last)) = (writes.first(), writes.last()) else { continue };
        let agent = first.agent.as_ref().map_or("-", |agent| agent.as_str());
        data.push(json!({
            "token": first.token, "agent": agent, "writes": writes.len(), "first_seq": first.seq,
            "last_seq": last.seq, "first_note": first.note, "last_note": last.note,
        }));
        rows.push(vec![
            first.token.to_string(),
            agent.to_string(),
            format!("{} … {}", first.seq, last.seq),
            format!("{} … {}", first.note, last.note),
        ]);
    }
    let heading = format!("What the fence of {RESOURCE} accepted (baton fence --log, by token)");
    fleet.printer.table(&heading, "accepted", data, &table(&["TOKEN", "AGENT", "WRITES", "WHAT"], &rows))
}

/// What must be so whatever happened.
fn judge(fleet: &mut Fleet<'_>, history: &[Transition], accepted: &[Accepted]) -> Result<(), Failure> {
    let leader = |token: Epoch| history.iter().find(|transition| transition.epoch == token);
    let by_its_leader = accepted.iter().all(|entry| {
        leader(entry.token).is_some_and(|transition| entry.agent.as_ref() == Some(&transition.to))
    });
    let of_former_leaders = fleet.refused.iter().all(|refused| {
        let later = accepted.iter().any(|entry| entry.token > refused.token);
        leader(refused.token).is_some_and(|transition| transition.to.as_str() == refused.agent) && later
    });
    let (written, refused) = (!accepted.is_empty(), !fleet.refused.is_empty());
    let rising = history.is_sorted_by(|a, b| a.epoch < b.epoch);
    fleet.expect(rising, "tokens rise from leader to leader")?;
    let forward = accepted.is_sorted_by(|a, b| a.token <= b.token);
    fleet.expect(forward, "accepted tokens never go back")?;
    fleet.expect(written && by_its_leader, "every write is by the leader of its token")?;
    fleet.expect(refused && of_former_leaders, "every refused write was a former leader's")
}
