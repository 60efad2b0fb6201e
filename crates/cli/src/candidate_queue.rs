//! The candidates of an election, in the order in which its policy prefers them.

use baton::Coordinator;
use baton::api::elections::QueuedCandidate;
use baton::api::waiting::WaitingCandidate;
use baton::election::time::Span;
use baton::election::{Candidate, Document, select};
use serde_json::{Value, json};

/// The most candidates that a person is shown.
const MAX_SHOWN: usize = 10;
/// The most of a store's own line that are asked for.
pub(crate) const MAX_NATIVE: usize = 100;

/// A candidate that stands.
pub(crate) struct RankedCandidate {
    candidate: Candidate,
    /// Its place in line, and why; none if the policy rules it out.
    rank: Option<(usize, String)>,
}

/// Those who stand; nobody where the policy compares nobody.
pub(crate) async fn of(
    coordinator: &Coordinator,
    document: &Document,
) -> Result<Vec<RankedCandidate>, baton::Error> {
    if !document.policy.select.compares() {
        return Ok(Vec::new());
    }
    let candidates = coordinator.candidates().list(&document.election).await?;
    let ranking = select::rank(document, &candidates);
    let rank = |candidate: &Candidate| {
        let place = ranking.iter().position(|ranked| ranked.incarnation == candidate.incarnation)?;
        Some((place + 1, ranking[place].reason.clone()))
    };
    let standing = |candidate| RankedCandidate { rank: rank(&candidate), candidate };
    let mut line: Vec<RankedCandidate> = candidates.into_iter().map(standing).collect();
    line.sort_by_key(|standing| standing.rank.as_ref().map_or(usize::MAX, |(place, _)| *place));
    Ok(line)
}

/// The store's own line, for programs: one whose process has died stands in it until its lease ends.
pub(crate) fn native_data(line: &[QueuedCandidate]) -> Value {
    let one = |(place, stands): (usize, &QueuedCandidate)| {
        json!({
            "agent": stands.agent,
            "place": place + 1,
            "token": stands.epoch,
            "remaining_ms": stands.left.map(Span::as_millis),
        })
    };
    line.iter().enumerate().map(one).collect()
}

/// The same for people: those who wait.
pub(crate) fn native_lines(line: &[QueuedCandidate]) -> Vec<String> {
    let one = |(place, stands): (usize, &QueuedCandidate)| {
        let left = stands.left.unwrap_or_default();
        format!("  in line     {}. {} (lease {left} more)", place + 1, stands.agent)
    };
    line.iter().enumerate().skip(1).take(MAX_SHOWN).map(one).collect()
}

/// Those who wait in line, in its order, for people.
pub(crate) fn waiting_lines(waiting: &[WaitingCandidate]) -> Vec<String> {
    if waiting.is_empty() {
        return Vec::new();
    }
    let mut names: Vec<&str> = waiting.iter().take(MAX_SHOWN).map(|one| one.agent.as_str()).collect();
    let more = format!("{} more", waiting.len().saturating_sub(MAX_SHOWN));
    if waiting.len() > MAX_SHOWN {
        names.push(&more);
    }
    vec![format!("  in line     {}", names.join(", "))]
}

/// For programs.
pub(crate) fn data(line: &[RankedCandidate]) -> Value {
    let one = |standing: &RankedCandidate| {
        let candidate = &standing.candidate;
        json!({
            "agent": candidate.agent,
            "place": standing.rank.as_ref().map(|(place, _)| place),
            "reason": standing.rank.as_ref().map(|(_, reason)| reason),
            "priority": candidate.priority,
            "score": candidate.score,
            "load": candidate.load,
            "capabilities": candidate.capabilities,
        })
    };
    line.iter().map(one).collect()
}

/// For people: a line for each of the first.
pub(crate) fn lines(line: &[RankedCandidate]) -> Vec<String> {
    let one = |standing: &RankedCandidate| match &standing.rank {
        Some((place, reason)) => format!("  in line     {place}. {}: {reason}", standing.candidate.agent),
        None => format!("  not in line {}: ruled out by the policy", standing.candidate.agent),
    };
    let mut lines: Vec<String> = line.iter().take(MAX_SHOWN).map(one).collect();
    if line.len() > MAX_SHOWN {
        lines.push(format!("              and {} more", line.len() - MAX_SHOWN));
    }
    lines
}
