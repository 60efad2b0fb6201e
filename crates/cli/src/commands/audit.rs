//! `baton audit`: see what operators did; verify that nothing of it was changed.

use baton::Error;
use baton::election::audit::{Book, Entry, Ordered, Verdict};
use baton::election::operator::{Act, PublicKey};
use baton::election::store_order::{StoreChange, StoreOrder};
use baton::election::tokens::{TokenChange, TokenOrder};
use baton::election::{ContentHash, ElectionName, Refusal, StoreInfo};
use baton::store::StoreError;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::note::Note;
use super::operator_names::{known, person};
use super::show::policy_line;
use super::store_orders::rule;
use crate::context::{Context, Global};
use crate::exit::Exit;
use crate::output::{Failure, Outcome, clean};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  baton audit                          everything: the store, its tokens, all elections
  baton audit refactor-auth            one election
  baton audit --json | jq .ordered     with the orders as they were signed
  baton audit verify                   is it whole? exits 1 and says where if not
  baton audit note refactor-auth 'agent-b was restarted by hand, see ticket 12'

Every act of an operator is kept for ever, with its signature, in a chain in which each entry has the hash of the one before. `verify` \
prints the hash of the last: note it down, and give it to --head later.")]
pub(crate) struct Audit {
    #[command(subcommand)]
    action: Option<Action>,
    /// Which election [default: everything]
    election: Option<ElectionName>,
    /// How many of the newest
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Verify every entry, its signature and the chain
    Verify {
        /// Which election [default: everything]
        election: Option<ElectionName>,
        /// A hash that an earlier `verify` printed: it must be in one of the chains. Repeatable
        #[arg(long = "head", value_name = "HASH")]
        heads: Vec<ContentHash>,
    },
    /// Operator: add a note, signed, which changes nothing else
    Note(Note),
}

impl StoreCommand for Audit {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        match &self.action {
            Some(Action::Verify { election, heads }) => verify(context, election.as_ref(), heads).await,
            Some(Action::Note(_)) | None => show(context, self.election.as_ref(), self.limit).await,
        }
    }
}

impl Audit {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.action {
            Some(Action::Note(note)) => note.perform(global).await,
            Some(Action::Verify { .. }) | None => StoreCommand::perform(self, global).await,
        }
    }
}

/// The books that are meant. What one may not see is left out, and said.
async fn books(context: &Context, election: Option<&ElectionName>) -> Result<Vec<Book>, Failure> {
    if let Some(election) = election {
        return Ok(vec![Book::Election(election.clone())]);
    }
    let mut elections = context.coordinator.elections().await?;
    // An election whose record is gone still has a log.
    elections.extend(context.coordinator.audit().elections().await?);
    elections.sort();
    elections.dedup();
    Ok([Book::Store, Book::Tokens].into_iter().chain(elections.into_iter().map(Book::Election)).collect())
}

/// Whether this user may not see a book, though it may see others.
fn is_barred(book: &Book, error: &Error) -> bool {
    matches!(book, Book::Store | Book::Tokens) && matches!(error, Error::Store(StoreError::Refused { .. }))
}

async fn show(context: &Context, election: Option<&ElectionName>, limit: usize) -> Result<Screen, Failure> {
    let mut all: Vec<(Book, Entry)> = Vec::new();
    for book in books(context, election).await? {
        match context.coordinator.audit().read(&book, limit).await {
            Ok(entries) => all.extend(entries.into_iter().map(|entry| (book.clone(), entry))),
            Err(error) if is_barred(&book, &error) => {
                context.output.talk(&format!("{book} is left out: {error}"));
            }
            Err(Error::Refused(Refusal::UnknownElection { .. })) if election.is_none() => {
                context
                    .output
                    .talk(&format!("{book} is left out: its record is gone; see `baton audit verify`"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    all.sort_by_key(|(_, entry)| entry.at);
    let all = all.split_off(all.len().saturating_sub(limit));
    let info = known(context).await;
    let data = |(book, entry): &(Book, Entry)| {
        let mut data = serde_json::to_value(entry).unwrap_or(Value::Null);
        data["book"] = json!(book.to_string());
        data["by"] = json!(entry.ordered.by());
        let name = info.as_ref().and_then(|info| info.operator_names.get(&entry.ordered.by()));
        data["by_name"] = json!(name);
        data
    };
    let rows: Vec<Vec<String>> = all.iter().map(|(book, entry)| row(book, entry, info.as_deref())).collect();
    let head = ["AT", "OF", "NO", "BY", "ACT", "ENDED"];
    Ok(Screen::table(all.iter().map(data).collect(), &head, &rows, "no operator has done anything"))
}

fn row(book: &Book, entry: &Entry, info: Option<&StoreInfo>) -> Vec<String> {
    let mut by = person(info, entry.ordered.by());
    if !entry.with.is_empty() {
        by.push_str(&format!(" +{}", entry.with.len()));
    }
    vec![
        entry.at.to_string(),
        book.to_string(),
        entry.number.to_string(),
        by,
        order_line(&entry.ordered),
        entry.ended.as_ref().map_or("-".to_string(), ToString::to_string),
    ]
}

async fn verify(
    context: &Context,
    election: Option<&ElectionName>,
    heads: &[ContentHash],
) -> Result<Screen, Failure> {
    let (mut broken, mut missing) = (0_usize, heads.to_vec());
    for book in books(context, election).await? {
        let verdict = match context.coordinator.audit().verify(&book).await {
            Ok(verdict) => verdict,
            Err(error) if is_barred(&book, &error) => {
                context.output.talk(&format!("{book} is left out: {error}"));
                continue;
            }
            // What is wrong with one record says nothing of the others.
            Err(Error::Store(error)) if !error.is_passing() => unreadable(&error),
            Err(error) => return Err(error.into()),
        };
        let faults: Vec<(Option<u64>, String)> =
            verdict.faults.iter().map(|fault| (fault.number, fault.why.clone())).collect();
        if !missing.is_empty() {
            let all = context.coordinator.audit().read(&book, usize::MAX).await.unwrap_or_default();
            missing.retain(|head| all.iter().all(|entry| entry.hash != *head));
        }
        broken += usize::from(!faults.is_empty());
        if verdict.acts > 0 || !faults.is_empty() {
            tell(context, &book, &verdict, &faults)?;
        }
    }
    for head in &missing {
        let text = format!("NOT WHOLE: no book has an act with the hash {head}");
        context.output.say(&json!({"head": head, "whole": false}), &text)?;
    }
    if broken == 0 && !missing.is_empty() {
        return Err(Failure::new(
            Exit::Error,
            "audit",
            "the audit log is not whole: an act that was noted down is gone",
            "compare with a copy that you trust; what one may not see is not looked at",
        ));
    }
    if broken > 0 {
        return Err(Failure::new(
            Exit::Error,
            "audit",
            format!(
                "the audit log is not whole: {broken} {} above",
                if broken == 1 { "book" } else { "books" }
            ),
            "compare with a copy that you trust; the orders themselves are signed and cannot be forged",
        ));
    }
    Ok(Screen::ended(Exit::Done).note("the audit log is whole"))
}

fn unreadable(error: &StoreError) -> Verdict {
    let why = format!("its record cannot be read: {error}");
    let faults = vec![baton::election::audit::Fault { number: None, why }];
    Verdict { acts: 0, first: None, head: None, faults }
}

fn tell(
    context: &Context,
    book: &Book,
    verdict: &Verdict,
    faults: &[(Option<u64>, String)],
) -> Result<(), Failure> {
    let shown: Vec<Value> =
        faults.iter().map(|(number, why)| json!({"number": number, "why": why})).collect();
    let data = json!({
        "book": book.to_string(), "acts": verdict.acts, "first": verdict.first, "head": verdict.head,
        "whole": faults.is_empty(), "faults": shown,
    });
    let acts = if verdict.acts == 1 { "act" } else { "acts" };
    let mut lines = vec![match (faults.is_empty(), verdict.head) {
        (true, Some(head)) => format!("{book}: {} {acts}, whole, head {head}", verdict.acts),
        (true, None) => format!("{book}: {} {acts}, whole", verdict.acts),
        (false, _) => format!("{book}: {} {acts}, NOT WHOLE", verdict.acts),
    }];
    if let Some(first) = verdict.first.filter(|first| *first > 1) {
        lines.push(if faults.is_empty() {
            format!("  acts before {first} were carried out by a Baton that kept no log")
        } else {
            format!("  of acts before {first} nothing could be read")
        });
    }
    for (number, why) in faults {
        let at = number.map_or(String::new(), |number| format!("act {number}: "));
        lines.push(format!("  {at}{}", clean(why)));
    }
    context.output.say(&data, &lines.join("\n"))
}

/// As much of a key as people read.
pub(super) fn short(key: PublicKey) -> String {
    key.to_string()[..12].to_string()
}

fn order_line(ordered: &Ordered) -> String {
    match ordered {
        Ordered::Act(signed) => {
            format!("{}{}", glass(signed.order.break_glass.as_deref()), act_line(&signed.order.act))
        }
        Ordered::Store(signed) => store_line(&signed.order),
        Ordered::Tokens(signed) => token_line(&signed.order),
    }
}

fn glass(reason: Option<&str>) -> String {
    reason.map_or(String::new(), |why| format!("BREAK-GLASS ({}) ", clean(why)))
}

/// An order on the store in a line.
pub(super) fn store_line(order: &StoreOrder) -> String {
    let line = match &order.change {
        StoreChange::Operators { after, names } => {
            let named = |key: &PublicKey| match names.get(key) {
                Some(name) => format!("{} ({})", clean(name), short(*key)),
                None => short(*key),
            };
            let keys: Vec<String> = after.iter().map(named).collect();
            format!("operators {}", keys.join(" "))
        }
        StoreChange::Pause { reason } => with_reason("pause everything", reason),
        StoreChange::Resume => "resume everything".to_string(),
        StoreChange::Quorum { rules } => format!("quorum: {}", rule(rules)),
    };
    format!("{}{line}", glass(order.break_glass.as_deref()))
}

/// An order on tokens in a line.
pub(super) fn token_line(order: &TokenOrder) -> String {
    let line = match &order.change {
        TokenChange::Create { token } => {
            with_reason(&format!("create token {} ({})", token.id, token.role), &token.note)
        }
        TokenChange::Revoke { id } => format!("revoke token {id}"),
    };
    format!("{}{line}", glass(order.break_glass.as_deref()))
}

fn with_reason(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_string() } else { format!("{what}: {}", clean(reason)) }
}

/// An act in a line.
pub(super) fn act_line(act: &Act) -> String {
    let name = act.name();
    match act {
        Act::Appoint { agent, force, reason, .. } => {
            let force = if *force { " --force" } else { "" };
            with_reason(&format!("{name} {agent}{force}"), reason)
        }
        Act::Depose { force, reason } => {
            let force = if *force { " --force" } else { "" };
            with_reason(&format!("{name}{force}"), reason)
        }
        Act::Pause { reason }
        | Act::Halt { reason, .. }
        | Act::Reject { reason }
        | Act::Forget { reason } => with_reason(name, reason),
        Act::Resume => name.to_string(),
        Act::Approve { checkpoint: Some(hash) } => format!("{name} checkpoint {}", &hash.to_string()[..12]),
        Act::Approve { checkpoint: None } => format!("{name} more time"),
        Act::SetPolicy { policy } => format!("{name} {}", policy_line(policy)),
        Act::Enrol { key } | Act::Dismiss { key } => format!("{name} {}", short(*key)),
        Act::Note { text } => with_reason(name, text),
        Act::Vote { agent } => format!("{name} {agent}"),
    }
}
