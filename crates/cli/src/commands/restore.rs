//! `baton restore`: put a snapshot of a server's store back, so that no token is given twice.

use std::path::PathBuf;

use baton::election::Epoch;
use baton::election::time::Span;
use baton::embedded::{self, FormerStore, Restored};
use baton::store::boot;
use clap::Args;
use serde_json::json;

use super::serve::STORE;
use super::store_orders::rule;
use crate::context::Global;
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, Output, clean};

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton restore baton.redb.snapshots/2026-11-16T03-00-00.redb --store embedded:baton.redb

The server must not run. Its file is that of --store embedded:FILE [default: embedded:baton.redb, in this folder], and is made if \
it is not there; $BATON_STORE is for clients. Every election is ended as if from outside: tokens go on far above all that can have \
been given, and nobody is granted a lease before any that may be running has ended. What is there is kept under another name, and what operators ordered there \
stays: operators, quorum, tokens, policies, pauses. If it cannot be read, those of the snapshot come back, and everything is paused until an operator runs `baton resume --all`.")]
pub(crate) struct Restore {
    /// The snapshot
    snapshot: PathBuf,
    /// A token that was given since the snapshot, if you know one: from a log, a fence, an agent
    #[arg(long, value_name = "TOKEN", default_value_t = Epoch(0))]
    above: Epoch,
    /// The longest lease that may be running, if longer than any in the snapshot and the former store
    #[arg(long, value_name = "DURATION")]
    leases: Option<Span>,
    /// If no former store can be read: do not pause everything, and trust the snapshot's operators, quorum and tokens
    #[arg(long)]
    trust_snapshot: bool,
}

impl Restore {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Guard);
        let url = global.store.as_deref().unwrap_or(STORE);
        let Some(to) = baton::embedded_file(url).map_err(fail)? else {
            return Err(Failure::usage(
                "only the store of a server is restored",
                "name its file: --store embedded:FILE",
            ));
        };
        let to = std::path::absolute(&to)?;
        let place = to.display().to_string();
        if !self.snapshot.is_file() {
            let message = format!("there is no snapshot {}", self.snapshot.display());
            return Err(Failure::usage(message, "a server writes them into FILE.snapshots"));
        }
        if to.canonicalize().ok() == self.snapshot.canonicalize().ok() {
            return Err(Failure::usage("that is the store itself", "name a snapshot of it"));
        }
        let (from, above, leases, trust_snapshot) =
            (self.snapshot.clone(), self.above, self.leases, self.trust_snapshot);
        let restored = tokio::task::spawn_blocking(move || {
            embedded::restore(&embedded::Restore {
                from: &from,
                to: &to,
                above,
                leases,
                at: boot::wall(),
                trust_snapshot,
            })
        });
        let restored = restored.await.map_err(std::io::Error::other)?.map_err(|error| fail(error.into()))?;
        let kept = restored.kept.as_ref().map(|kept| kept.display().to_string());
        let data = json!({
            "outcome": "restored", "store": format!("embedded:{place}"), "elections": restored.elections, "floor": restored.floor,
            "waits_ms": restored.leases.as_millis(), "kept": kept, "former": former_word(restored.former),
            "paused": restored.info.as_ref().is_some_and(|info| info.paused.is_some()),
            "operators": restored.info.as_ref().map(|info| &info.operator_keys),
            "quorum": restored.info.as_ref().map(|info| &info.quorum),
            "tokens": restored.tokens.iter().map(|token| token.id).collect::<Vec<_>>(),
        });
        let elections = match restored.elections {
            1 => "1 election".to_string(),
            many => format!("{many} elections"),
        };
        let mut text = format!(
            "restored {elections} into {place}; tokens go on above {}; nobody is granted a lease in the first {} of the server",
            restored.floor, restored.leases
        );
        text.push_str(&match kept {
            Some(kept) => format!("\nwhat was there is kept as {kept}"),
            None => "\nthere was no store at that place: it was made".to_string(),
        });
        output.say(&data, &text)?;
        output.talk(&orders_told(&restored, &place));
        Ok(Exit::Done)
    }
}

fn former_word(former: FormerStore) -> &'static str {
    match former {
        FormerStore::Absent => "absent",
        FormerStore::Unreadable => "unreadable",
        FormerStore::Incomplete => "incomplete",
        FormerStore::Whole => "whole",
    }
}

/// Whose word counts after the restore, and what a person must look at.
fn orders_told(restored: &Restored, place: &str) -> String {
    let why = match restored.former {
        FormerStore::Whole => {
            return "operators, quorum, tokens, policies and pauses are those of the former store"
                .to_string();
        }
        FormerStore::Absent => "there is no former store",
        FormerStore::Unreadable => "the former store cannot be read",
        FormerStore::Incomplete => "part of the former store is damaged, or it is older than the snapshot",
    };
    let Some(info) = restored.info.as_ref().filter(|info| !info.operator_keys.is_empty()) else {
        return format!("{why}; the snapshot names no operator");
    };
    let mut lines =
        vec![format!("{why}: operators and tokens that were removed since the snapshot may be back")];
    for key in &info.operator_keys {
        let name = info.operator_names.get(key).map_or(String::new(), |name| clean(name));
        lines.push(format!("operator   {key} {name}"));
    }
    lines.push(format!("quorum     {}", rule(&info.quorum)));
    for token in &restored.tokens {
        let note = clean(&token.note);
        lines.push(format!(
            "token      {} {} {} {note}",
            token.id,
            token.role,
            clean(&token.proof.to_string())
        ));
    }
    lines.push(format!(
        "before you start the server, remove those that should not be there:\n  baton operator remove KEY --store embedded:{place}\n  baton token revoke ID --store embedded:{place}"
    ));
    if info.paused.is_some() {
        lines.push(format!(
            "everything is paused; an operator lets it go on: baton resume --all --store embedded:{place}"
        ));
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}
