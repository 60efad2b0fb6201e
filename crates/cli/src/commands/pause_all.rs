//! `baton pause --all`, `baton resume --all`: everything at once.

use std::fmt::Display;

use baton::Spread;
use baton::election::ElectionName;
use baton::election::operator::OperatorKey;
use baton::store::Access;
use serde_json::json;

use super::acts::failure;
use super::store_orders::waits;
use crate::context::Context;
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

/// How many elections are named in a line; with `--json` it is all of them.
const MAX_NAMED: usize = 20;

/// The order to pause or to resume all elections.
pub(super) struct PauseAllOrder<'a> {
    /// Why to pause; none to resume.
    pub(super) pause: Option<&'a str>,
    /// The reason to act alone, wherever a policy lets one.
    pub(super) break_glass: Option<&'a str>,
}

impl StoreCommand for PauseAllOrder<'_> {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Operator;

    /// Before anything is done: an election that is refused would be one of many.
    fn check(&self) -> Result<(), Failure> {
        if self.break_glass.is_some_and(|why| why.trim().is_empty()) {
            return Err(Failure::usage("to break the glass takes a reason", "say why: --reason TEXT"));
        }
        keys::load().map(drop)
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let (key, break_glass) = (keys::load()?, self.break_glass);
        let (done, outcome, words) = match self.pause {
            Some(reason) => {
                let done = context.coordinator.orders().pause_all_urgently(&key, reason, break_glass).await;
                (done, "paused", "everything is paused, also what would begin")
            }
            None => {
                let done = context.coordinator.orders().resume_all_urgently(&key, break_glass).await;
                (done, "resumed", "everything is resumed")
            }
        };
        let spread = done.map_err(|error| failure(&error, &key))?;
        reached(&spread, &key, outcome, (words, break_glass))
    }
}

/// Whether everything is paused, as far as this caller may see.
pub(super) async fn is_paused(context: &Context) -> bool {
    context.coordinator.info().await.is_ok_and(|info| info.paused.is_some())
}

/// That an election would be free, were not everything paused.
pub(super) fn still_paused(election: &ElectionName, itself: &str) -> String {
    format!("{election} itself is {itself} paused, but everything is: baton resume --all")
}

/// That an act did not reach every election, with the words before the names of those that it did not reach; none if it did. What a single
/// one was refused for is no wrong usage of an act on many.
pub(super) fn partly(spread: &Spread, key: &OperatorKey, words: &str) -> Option<Failure> {
    let (_, error) = spread.failed.first()?;
    let mut failure = failure(error, key);
    let left: Vec<&ElectionName> = spread.failed.iter().map(|(election, _)| election).collect();
    failure.message = format!("{words} {}: {}", named(&left), failure.message);
    failure.facts.insert("failed".to_string(), json!(left));
    failure.facts.insert("waiting".to_string(), json!(spread.waiting));
    if failure.exit == Exit::Usage {
        failure.exit = Exit::Error;
    }
    Some(failure)
}

/// The names of elections, as many as a person reads.
pub(super) fn named(elections: &[impl Display]) -> String {
    let mut names: Vec<String> =
        elections.iter().take(MAX_NAMED).map(|election| format!("`{election}`")).collect();
    if elections.len() > MAX_NAMED {
        names.push(format!("and {} more", elections.len() - MAX_NAMED));
    }
    names.join(", ")
}

/// What did not reach every election is a failure, and can be repeated. Where others must sign it, it is not done, and that is said first.
fn reached(
    spread: &Spread,
    key: &OperatorKey,
    outcome: &str,
    (words, break_glass): (&str, Option<&str>),
) -> Result<Screen, Failure> {
    if let Some(signed) = spread.signed {
        return Ok(waits(&format!("{} everything", outcome.trim_end_matches('d')), signed));
    }
    let waiting = &spread.waiting;
    let but = if waiting.is_empty() { String::new() } else { format!(", but not {}", named(waiting)) };
    if let Some(failure) = partly(spread, key, &format!("{words}, but not")) {
        return Err(failure);
    }
    let changed = spread.elections;
    let elections = if changed == 1 { "election" } else { "elections" };
    let data = json!({"outcome": outcome, "all": true, "elections": changed, "waiting": waiting});
    let screen = Screen::new(data, format!("{words}{but}; {changed} {elections} changed"));
    if waiting.is_empty() {
        return Ok(screen);
    }
    let whose = if waiting.len() == 1 { "its policy lets" } else { "their policies let" };
    let break_glass =
        break_glass.map(|_| format!("{whose} nobody act alone (baton policy --allow-break-glass)"));
    let withdrawn = spread
        .withdrawn
        .iter()
        .map(|(election, act)| format!("by that you withdrew your signature under the {act} of {election}"));
    let others =
        waiting.iter().map(|election| format!("another operator must sign it too: baton cosign {election}"));
    Ok(screen.notes(break_glass).notes(withdrawn).notes(others).exit(Exit::Operator))
}

#[cfg(test)]
mod tests {
    use baton::Error;
    use baton::election::Refusal;

    use super::*;

    #[test]
    fn every_election_that_was_not_reached_is_named_up_to_a_bound() {
        let spread = |many: usize| Spread {
            failed: (1..=many)
                .map(|n| {
                    let refusal = Refusal::invalid("one fewer could not act", "enrol another first");
                    (format!("m{n}").parse().unwrap(), Error::Refused(refusal))
                })
                .collect(),
            ..Spread::default()
        };
        let key = OperatorKey::from_seed([1; 32]);
        assert!(partly(&spread(0), &key, "removed, but not in").is_none());
        let two = partly(&spread(2), &key, "removed, but not in").unwrap();
        assert!(two.message.starts_with("removed, but not in `m1`, `m2`: "), "{}", two.message);
        assert_eq!((two.exit, &two.facts["failed"]), (Exit::Error, &json!(["m1", "m2"])));
        let many = partly(&spread(MAX_NAMED + 3), &key, "removed, but not in").unwrap();
        assert!(many.message.contains("`m20`, and 3 more: "), "{}", many.message);
    }
}
