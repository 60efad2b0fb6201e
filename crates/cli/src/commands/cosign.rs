//! `baton cosign`: the signature beside another operator's.
//!
//! Shows what would be signed, and for what, before it signs: the record of a store that others can write may say anything. An order for another election, another
//! store or a state that has not come to pass is refused, whatever the record says that it waits for.

use std::io::{BufRead, IsTerminal, stdin};

use baton::election::operator::{Act, OperatorKey, PublicKey};
use baton::election::quorum::Gathering;
use baton::election::{Answer, Document, ElectionName, StoreInfo};
use baton::store::Access;
use clap::Args;
use serde_json::{Value, json};

use super::acts::{failure, waiting};
use super::audit::{act_line, short};
use super::note::document;
use super::operator_names::person;
use super::{show, store_orders};
use crate::context::Context;
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::{Failure, clean, say_at_once};
use crate::screen::{Screen, StoreCommand};

/// How many lines of a changed policy are shown.
const MAX_LINES: usize = 64;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton cosign refactor-auth               show the act that waits for signatures, ask, and sign it
  baton cosign refactor-auth --by 4b9884   if several wait: the one that this operator signed
  baton cosign refactor-auth --yes         do not ask: for scripts that have looked
  baton cosign                             the order on the store that waits
  baton cosign --order 3fa91c              of several orders, this one
  baton cosign --list                      show all that waits for signatures

Where the policy of an election (baton policy --quorum) or the store (baton operator quorum) asks for several operators, an act or order is carried out when so many have signed the very same one. \
An order on the store waits for a day.")]
pub(crate) struct Cosign {
    /// Which election [default: the store as a whole]
    election: Option<ElectionName>,
    /// The first digits of the key of an operator that signed it
    #[arg(long, value_name = "KEY", requires = "election")]
    by: Option<String>,
    /// The first characters of the order on the store, as --list shows it
    #[arg(long, value_name = "ID", conflicts_with = "election")]
    order: Option<String>,
    /// List what waits for signatures, and sign nothing
    #[arg(long, conflicts_with_all = ["election", "order", "yes"])]
    list: bool,
    /// Sign without being asked
    #[arg(long)]
    yes: bool,
}

impl StoreCommand for Cosign {
    const SPEAKER: Speaker = Speaker::Operator;

    fn access(&self) -> Access {
        if self.list { Access::Read } else { Access::Write }
    }

    fn check(&self) -> Result<(), Failure> {
        if self.list { Ok(()) } else { keys::load().map(drop) }
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        if self.list {
            return store_orders::list(context).await;
        }
        let key = keys::load()?;
        match &self.election {
            Some(election) => self.act(context, &key, election).await,
            None => store_orders::cosign(context, &key, self.order.as_deref(), self.yes).await,
        }
    }
}

impl Cosign {
    /// Signs an act on an election.
    async fn act(
        &self,
        context: &Context,
        key: &OperatorKey,
        election: &ElectionName,
    ) -> Result<Screen, Failure> {
        let document = document(context, election).await?;
        let info = context.coordinator.info().await?;
        let gathering = self.chosen(election, &document, &info, key.public())?;
        check(election, &info, gathering, &document)?;
        let act = &gathering.order.act;
        context.output.talk(&shown(gathering, &document, &info).join("\n"));
        if !self.yes {
            confirm(context, "sign it?", || {
                Failure::usage(
                    "nobody is there to be asked whether to sign this",
                    "look at it first; then sign it with --yes",
                )
            })?;
        }
        let signed = context.coordinator.cosign(election, key, gathering).await;
        match signed.map_err(|error| failure(&error, key))? {
            Answer::Signed { epoch, have, need } => Ok(waiting(election, act.name(), epoch, (have, need))),
            Answer::Done { epoch, ended, .. } => {
                let data = json!({
                    "outcome": act.name(), "election": election, "token": epoch, "ended": ended,
                });
                Ok(Screen::new(data, format!("{} of {election}: done", act.name())))
            }
            other => unreachable!("an act is answered as one, not with {other:?}"),
        }
    }

    /// The act that is meant, if that is clear.
    fn chosen<'a>(
        &self,
        election: &ElectionName,
        document: &'a Document,
        info: &StoreInfo,
        own: PublicKey,
    ) -> Result<&'a Gathering, Failure> {
        let all: Vec<&Gathering> = document.gathering.iter().flat_map(|all| all.iter()).collect();
        let by = |gathering: &&&Gathering| match &self.by {
            Some(start) => {
                gathering.signed.iter().any(|one| one.operator().to_string().starts_with(start.as_str()))
            }
            None => true,
        };
        let mut fitting: Vec<&Gathering> = all.iter().filter(by).copied().collect();
        if fitting.len() > 1 {
            fitting.retain(|gathering| !info.is_over(&gathering.order.act));
        }
        match fitting.as_slice() {
            [one] => Ok(one),
            [] if all.is_empty() => Err(Failure::usage(
                format!("nothing of {election} waits for signatures"),
                "what was signed is void once it is over what it was about, or the rules have changed: sign it again",
            )),
            [] => Err(Failure::usage(
                "nobody with such a key has signed anything that waits",
                described(document, &all, own),
            )),
            several => Err(Failure::usage(
                format!("{} acts wait for signatures", several.len()),
                format!("say whose with --by: {}", described(document, several, own)),
            )),
        }
    }
}

/// Refuses what is for another place than this one.
fn check(
    election: &ElectionName,
    info: &StoreInfo,
    gathering: &Gathering,
    document: &Document,
) -> Result<(), Failure> {
    let odd = |why: String| {
        let hint = "somebody wrote into the store by other means; look at it, and sign nothing";
        Failure::new(Exit::Operator, "wrong-key", why, hint)
    };
    let store = info.id;
    if document.store != store {
        return Err(odd(format!(
            "the election is of the store {}, and this store is {store}",
            document.store
        )));
    }
    gathering.check(election, document).map_err(|refusal| odd(refusal.to_string()))
}

/// What would be signed, for people.
fn shown(gathering: &Gathering, document: &Document, info: &StoreInfo) -> Vec<String> {
    let order = &gathering.order;
    let by: Vec<String> = gathering.signed.iter().map(|one| person(Some(info), one.operator())).collect();
    let leads = document.leader.as_ref().map_or("nobody", |leader| leader.agent.as_str());
    let mut lines = vec![
        format!("to sign: {}", act_line(&order.act)),
        format!(
            "  of {} in the store {}, act {}, token {}",
            order.election, order.store, order.number, order.epoch
        ),
        format!("  signed by {} of {}: {}", by.len(), gathering.needed(document), by.join(", ")),
        format!("  {leads} leads, token {}", document.epoch),
    ];
    match &order.act {
        Act::SetPolicy { policy } => {
            let (before, after) = (json!(*document.policy), json!(policy));
            let mut changes = Vec::new();
            differences("", &before, &after, &mut changes);
            if changes.is_empty() {
                changes.push("nothing changes".to_string());
            }
            let more = changes.len().saturating_sub(MAX_LINES);
            lines.extend(changes.into_iter().take(MAX_LINES).map(|change| format!("  {}", clean(&change))));
            if more > 0 {
                lines.push(format!("  and {more} more"));
            }
        }
        Act::Approve { checkpoint: Some(hash) } => {
            let checkpoint = document.checkpoint.as_ref().filter(|checkpoint| checkpoint.hash == *hash);
            match checkpoint {
                Some(checkpoint) => {
                    lines.extend(show::checkpoint(checkpoint).iter().map(|line| format!("  {line}")));
                }
                None => lines.push(format!("  the checkpoint {hash} was replaced by another one")),
            }
        }
        Act::Enrol { key } | Act::Dismiss { key } => lines.push(format!("  the key {key}")),
        Act::Appoint { .. }
        | Act::Depose { .. }
        | Act::Pause { .. }
        | Act::Halt { .. }
        | Act::Resume
        | Act::Approve { checkpoint: None }
        | Act::Reject { .. }
        | Act::Note { .. }
        | Act::Vote { .. }
        | Act::Forget { .. } => {}
    }
    lines
}

/// What differs between two texts of JSON, each difference in a line with where it is.
fn differences(place: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let at = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                let (old, new) =
                    (old.get(name).unwrap_or(&Value::Null), new.get(name).unwrap_or(&Value::Null));
                differences(&at, old, new, found);
            }
        }
        (before, after) if before == after => {}
        (before, after) => found.push(format!("{place}: {before} -> {after}")),
    }
}

/// Asks the person at the terminal; without one, it fails as the caller says.
pub(super) fn confirm(
    context: &Context,
    question: &str,
    unasked: impl FnOnce() -> Failure,
) -> Result<(), Failure> {
    if context.output.json || !stdin().is_terminal() {
        return Err(unasked());
    }
    say_at_once(&format!("{question} [y/N] "));
    let mut said = String::new();
    stdin().lock().read_line(&mut said)?;
    if matches!(said.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::new(Exit::Operator, "not-signed", "nothing was signed", "answer y to sign"))
}

fn described(document: &Document, all: &[&Gathering], own: PublicKey) -> String {
    let one = |gathering: &&Gathering| {
        let by: Vec<String> = gathering
            .signed
            .iter()
            .map(|one| if one.operator() == own { "you".to_string() } else { short(one.operator()) })
            .collect();
        let (have, need) = (by.len(), gathering.needed(document));
        format!("{} ({have} of {need}: {})", act_line(&gathering.order.act), by.join(", "))
    };
    all.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        let before = json!({"ttl": 1, "operators": {"quorum": 2, "acts": []}, "same": [1]});
        let after = json!({"ttl": 1, "operators": {"quorum": 1, "acts": []}, "same": [1], "new": "x"});
        let mut found = Vec::new();
        differences("", &before, &after, &mut found);
        assert_eq!(found, ["new: null -> \"x\"", "operators.quorum: 2 -> 1"]);
    }
}
