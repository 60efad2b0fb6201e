//! Which of several candidates the policy prefers. Advice to the candidates: only the swap decides.
//!
//! Everybody who sees the same document and the same candidates computes the same order.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::candidate::Candidate;
use crate::document::Document;
use crate::id::{ContentHash, Incarnation};
use crate::name::AgentName;
use crate::operator::PublicKey;
use crate::policy::Select;
use crate::time::WallTime;

/// An operator's vote for a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vote {
    /// Whose.
    pub by: PublicKey,
    /// For whom.
    pub agent: AgentName,
    /// When, for people.
    pub at: WallTime,
}

/// How many of the operators voted for an agent.
pub fn votes_for(document: &Document, agent: &AgentName) -> usize {
    votes(document).filter(|vote| vote.agent == *agent).count()
}

/// The votes that count: of those who are operators.
fn votes(document: &Document) -> impl Iterator<Item = &Vote> {
    let all = document.votes.as_ref().map_or(&[][..], |votes| votes.as_slice());
    all.iter().filter(|vote| document.operator_keys.contains(&vote.by))
}

/// A candidate in its place, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Its name.
    pub agent: AgentName,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Why it stands where it does.
    pub reason: String,
}

/// The candidates in the policy's order, the preferred one first. Those that it rules out are missing.
///
/// `candidates` holds only those that stand.
pub fn rank(document: &Document, candidates: &[Candidate]) -> Vec<Ranked> {
    let policy = &document.policy;
    let mut field: Vec<&Candidate> = candidates
        .iter()
        .filter(|candidate| {
            kept_for(document, candidate)
                || match policy.select {
                    Select::Capable => policy.needs.iter().all(|need| candidate.capabilities.contains(need)),
                    Select::Designated => policy.designated.as_ref() == Some(&candidate.agent),
                    Select::First
                    | Select::Priority
                    | Select::Available
                    | Select::RoundRobin
                    | Select::Random
                    | Select::Vote => true,
                }
        })
        .collect();
    field.sort_by(|a, b| (&a.agent, a.incarnation).cmp(&(&b.agent, b.incarnation)));
    match policy.select {
        Select::First | Select::Designated => {}
        Select::Priority => field.sort_by_key(|candidate| Reverse(candidate.priority)),
        Select::Capable => field.sort_by_key(|candidate| Reverse((candidate.score, candidate.priority))),
        Select::Available => field.sort_by_key(|candidate| (candidate.load, Reverse(candidate.priority))),
        Select::Random => field.sort_by_key(|candidate| lot(document, candidate)),
        Select::Vote => field
            .sort_by_key(|candidate| Reverse((votes_for(document, &candidate.agent), candidate.priority))),
        Select::RoundRobin => {
            let last = document.last_transition.as_ref().map(|last| &last.to);
            field.sort_by_key(|candidate| last.is_some_and(|last| candidate.agent <= *last));
        }
    }
    field.sort_by_key(|candidate| {
        (!kept_for(document, candidate), document.passed_over.as_ref() == Some(&candidate.agent))
    });
    let names: BTreeSet<&AgentName> = field.iter().map(|candidate| &candidate.agent).collect();
    field
        .iter()
        .map(|candidate| Ranked {
            agent: candidate.agent.clone(),
            incarnation: candidate.incarnation,
            reason: reason(document, candidate, names.len()),
        })
        .collect()
}

fn kept_for(document: &Document, candidate: &Candidate) -> bool {
    document.reserved_for.as_ref().is_some_and(|kept| kept.agent == candidate.agent)
}

/// A draw that anybody can repeat from the document alone.
fn lot(document: &Document, candidate: &Candidate) -> ContentHash {
    let text = format!(
        "{}\n{}\n{}\n{}\n{}",
        document.store, document.election, document.epoch, candidate.agent, candidate.incarnation
    );
    ContentHash::of(text.as_bytes())
}

fn reason(document: &Document, candidate: &Candidate, of: usize) -> String {
    if kept_for(document, candidate) {
        return "it was kept for this agent".to_string();
    }
    let policy = &document.policy;
    match policy.select {
        Select::First => "first to ask".to_string(),
        Select::Priority => format!("priority {} among {of}", candidate.priority),
        Select::Capable => {
            format!("can do {}, score {} among {of}", policy.needs.join(", "), candidate.score)
        }
        Select::Available => format!("load {} among {of}", candidate.load),
        Select::RoundRobin => match &document.last_transition {
            Some(last) => format!("next after {} among {of}", last.to),
            None => format!("first by name among {of}"),
        },
        Select::Random => format!("drawn by lot among {of}"),
        Select::Designated => "designated by the policy".to_string(),
        Select::Vote if votes(document).next().is_none() => {
            format!("no operator voted; priority {} among {of}", candidate.priority)
        }
        Select::Vote => format!(
            "{} of {} operators voted for it",
            votes_for(document, &candidate.agent),
            document.operator_keys.len()
        ),
    }
}
