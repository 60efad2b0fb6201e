//! What a commit says to people.

use std::fmt::Write as _;

use baton_election::Document;
use baton_election::document::{PhaseTimes, Transition};
use baton_store::Record;

use crate::tip::{CHANGE, TERM};

/// The longest line of free text.
const MAX_LINE_CHARS: usize = 1_000;

/// The message of a commit that holds this record.
pub(crate) fn of(record: &Record, settled: bool, term: &str, change: &str) -> String {
    let mut text = match record {
        Record::Election(document) => election(document, settled),
        Record::Store(info) => format!("store {}\n", info.id),
        Record::Tokens(tokens) => format!("{} access tokens\n", tokens.tokens.len()),
        Record::Candidate(candidate) if candidate.withdrawn => {
            format!("{} no longer stands for {}\n", candidate.agent, candidate.election)
        }
        Record::Candidate(candidate) => format!("{} stands for {}\n", candidate.agent, candidate.election),
        Record::History(_) => "history of an election\n".to_string(),
        Record::Fence(fence) => format!("fence of {}: token {}\n", fence.resource, fence.highest),
        Record::FenceLog(_) => "what a fence accepted\n".to_string(),
        Record::Audit(_) => "what operators did\n".to_string(),
        Record::Item(item) => {
            let (election, name) = item.place();
            format!("{} {name} of {election}\n", item.kind())
        }
    };
    text.push('\n');
    if let Record::Election(document) = record {
        trailers(&mut text, document);
    }
    let _ = writeln!(text, "{TERM}{term}");
    let _ = writeln!(text, "{CHANGE}{change}");
    text
}

fn election(document: &Document, settled: bool) -> String {
    let mut text = subject(document, settled);
    text.push_str("\n\n");
    if let Some(last) = document.last_transition.as_deref().filter(|last| !last.reason.is_empty()) {
        let _ = writeln!(text, "Reason: {}", one_line(&last.reason));
    }
    if let Some(task) = &document.task {
        let _ = writeln!(text, "Task: {}", one_line(task));
    }
    let phases = document.last_transition.as_deref().map_or_else(String::new, |last| phases(&last.phases));
    if !phases.is_empty() {
        let _ = writeln!(text, "Phases: {phases}");
    }
    if let Some(departure) = &document.departure {
        let colon = if departure.reason.is_empty() { "" } else { ": " };
        let reason = one_line(&departure.reason);
        let _ = writeln!(text, "Ended: {} of {}{colon}{reason}", departure.cause, departure.agent);
    }
    let _ = writeln!(text, "State: {}", document.state);
    text
}

fn subject(document: &Document, settled: bool) -> String {
    let election = &document.election;
    match &document.last_transition {
        _ if settled => {
            let kept = document.reserved_for.as_ref();
            let kept = kept.map_or_else(String::new, |kept| format!(", kept for {}", kept.agent));
            format!("epoch {}: {election} settled by an operator{kept}", document.epoch)
        }
        Some(last) => transition(last, election.as_str()),
        None => format!("epoch {}: {election} prepared, nobody has led", document.epoch),
    }
}

fn transition(last: &Transition, election: &str) -> String {
    let from = last.from.as_ref().map_or_else(String::new, |from| format!(" from {from}"));
    format!("epoch {}: {} leads {election} ({}{from})", last.epoch, last.to, last.cause)
}

fn phases(times: &PhaseTimes) -> String {
    let named = times.named().into_iter();
    let known = named.filter_map(|(name, time)| time.map(|time| format!("{name} {time}")));
    known.collect::<Vec<_>>().join(", ")
}

fn trailers(text: &mut String, document: &Document) {
    let _ = writeln!(text, "Baton-Election: {}", document.election);
    let _ = writeln!(text, "Baton-Epoch: {}", document.epoch);
    if let Some(last) = &document.last_transition {
        let _ = writeln!(text, "Baton-Cause: {}", last.cause);
        let _ = writeln!(text, "Baton-Kind: {}", last.cause.handover());
        if let Some(from) = &last.from {
            let _ = writeln!(text, "Baton-From: {from}");
        }
        let _ = writeln!(text, "Baton-To: {}", last.to);
    }
}

/// Free text on one line, so that it cannot pass for a trailer.
fn one_line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MAX_LINE_CHARS).collect::<String>().trim().to_string()
}
