//! The states that every command is tried in: how each is reached, and how it is known again.

use std::collections::BTreeMap;

use baton_election::document::State;
use baton_election::{Document, Span};

use super::agents::COMMANDS;

/// The states, each with the commands that lead to it from nothing.
pub(crate) const STATES: [(&str, &[&str]); 16] = [
    ("absent", &[]),
    ("vacant-new", &["set-policy ttl=30s"]),
    ("vacant-released", &["acquire a", "tick 10s", "release a"]),
    ("vacant-outgoing", &["acquire a", "tick 10s", "depose"]),
    ("vacant-outgoing-lapsed", &["acquire a", "tick 10s", "depose", "tick 25s"]),
    ("vacant-reserved", &["acquire a", "tick 10s", "pass a to=b", "tick 5s"]),
    ("held", &["acquire a", "tick 10s"]),
    ("held-lapsed", &["acquire a", "tick 35s"]),
    ("offered", &["acquire a offer", "tick 2s"]),
    ("awaiting", &["set-policy approval=checkpoints", "acquire a", "tick 5s", "checkpoint a", "tick 5s"]),
    ("awaiting-lapsed", &["set-policy approval=checkpoints", "acquire a", "checkpoint a", "tick 35s"]),
    (
        "awaiting-released",
        &["set-policy approval=checkpoints", "acquire a", "checkpoint a", "tick 5s", "release a"],
    ),
    ("paused", &["acquire a", "tick 10s", "release a", "pause"]),
    ("paused-outgoing", &["acquire a", "tick 10s", "pause"]),
    ("paused-outgoing-lapsed", &["acquire a", "tick 10s", "pause", "tick 25s"]),
    ("retired", &["acquire a", "tick 10s", "release a finished", "forget"]),
];

/// Which of the states this is, told from the document alone.
pub(crate) fn classify(document: Option<&Document>, age: Span) -> &'static str {
    let Some(document) = document else { return "absent" };
    let lease_runs = document.lease_remaining(age) > Span::ZERO;
    match (document.state, &document.leader, &document.outgoing) {
        (State::Vacant, _, _) if document.is_retired() => "retired",
        (State::Vacant, _, Some(_)) if lease_runs => "vacant-outgoing",
        (State::Vacant, _, Some(_)) => "vacant-outgoing-lapsed",
        (State::Vacant, _, None) if document.reserved_for.is_some() => "vacant-reserved",
        (State::Vacant, _, None) if document.departure.is_some() => "vacant-released",
        (State::Vacant, _, None) => "vacant-new",
        (State::Held, Some(leader), _) if leader.offered && lease_runs => "offered",
        (State::Held, _, _) if lease_runs => "held",
        (State::Held, _, _) => "held-lapsed",
        (State::AwaitingApproval, None, _) => "awaiting-released",
        (State::AwaitingApproval, Some(_), _) if lease_runs => "awaiting",
        (State::AwaitingApproval, Some(_), _) => "awaiting-lapsed",
        (State::Paused, _, None) => "paused",
        (State::Paused, _, Some(_)) if lease_runs => "paused-outgoing",
        (State::Paused, _, Some(_)) => "paused-outgoing-lapsed",
    }
}

/// How often each command was tried in each state.
#[derive(Default)]
pub(crate) struct Coverage(BTreeMap<(&'static str, &'static str), u32>);

impl Coverage {
    /// Counts one try.
    pub(crate) fn visit(&mut self, command: &'static str, state: &'static str) {
        *self.0.entry((command, state)).or_default() += 1;
    }

    /// The pairs that were never tried.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for command in COMMANDS {
            for (state, _) in STATES {
                if !self.0.contains_key(&(command, state)) {
                    missing.push(format!("`{command}` in the state `{state}`"));
                }
            }
        }
        missing
    }

    /// How many different pairs were tried.
    pub(crate) fn pairs(&self) -> usize {
        self.0.len()
    }
}
