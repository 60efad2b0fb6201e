//! `baton status`: see who leads what.

use std::sync::Arc;

use baton::api::elections::QueuedCandidate;
use baton::api::waiting::WaitingCandidate;
use baton::election::document::{Pause, State};
use baton::election::time::WallTime;
use baton::election::{ElectionName, Refusal, StoreInfo};
use baton::toolbox::{Counts, SlotRun};
use baton::{Error, View};
use clap::Args;
use serde_json::{Value, json};

use super::operator_names::person;
use super::pause_all::named;
use super::run::once_per::shown;
use super::show;
use crate::candidate_queue::{self, RankedCandidate};
use crate::context::Context;
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, clean, table};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton status                       all elections
  baton status refactor-auth         one, in full
  baton status --json | jq -r 'select(.state == \"held\") | .leader.agent'

A store without a clock of its own (git) cannot tell the age of a lease: the time left is as this user has observed it. If one record is diverged or corrupt, the other elections are still shown, and the exit code is 7.")]
pub(crate) struct Status {
    /// The election [default: all]
    election: Option<ElectionName>,
}

impl StoreCommand for Status {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        match &self.election {
            Some(election) => one(context, election).await,
            None => all(context).await,
        }
    }
}

async fn one(context: &Context, election: &ElectionName) -> Result<Screen, Failure> {
    let Some(seen) = ElectionStatus::of(context, election).await? else {
        return Err(Refusal::UnknownElection { election: election.to_string() }.into());
    };
    let (text, native) = (show::text(&seen.view), candidate_queue::native_lines(&seen.native));
    let everything = everything_paused(context).await;
    let stopped = everything.iter().map(|(pause, info)| {
        format!("  paused      {}; it ends with: baton resume --all", since(pause, info, ""))
    });
    let degraded = Degraded::of(context, &seen.view).await;
    let degraded_line = degraded.as_ref().map(Degraded::line).into_iter().collect();
    let slot = if seen.view.native { None } else { last_slot(context, election).await };
    let slot_line = slot.as_ref().map(shown).into_iter().collect();
    let waiting = candidate_queue::waiting_lines(&seen.waiting);
    let lines = [
        vec![text],
        stopped.collect(),
        degraded_line,
        slot_line,
        candidate_queue::lines(&seen.line),
        waiting,
        native,
    ]
    .concat();
    let mut data = seen.data();
    data["everything_paused"] = json!(everything.map(|(pause, info)| {
        let name = info.operator_names.get(&pause.by);
        json!({"reason": pause.reason, "at": pause.at, "by": pause.by, "by_name": name})
    }));
    if let Some(slot) = slot {
        data["last_slot"] = json!(slot);
    }
    if let Some(board) = degraded.and_then(|degraded| degraded.board) {
        data["degraded"]["queued"] = json!(board.unled);
        data["degraded"]["most_queued"] = json!(board.most_unled);
        data["degraded"]["under_way"] = json!(board.assigned + board.working);
    }
    Ok(Screen::new(data, lines.join("\n")))
}

async fn all(context: &Context) -> Result<Screen, Failure> {
    let (mut rows, mut led) = (Vec::new(), Vec::new());
    let mut broken: Vec<Failure> = Vec::new();
    for election in context.coordinator.elections().await? {
        match ElectionStatus::of(context, &election).await {
            Ok(None) => {}
            Ok(Some(seen)) if context.output.json => context.output.line(&seen.data().to_string())?,
            Ok(Some(seen)) => {
                led.extend(goes_on(&seen.view, &election).then(|| election.clone()));
                rows.push(show::row(&seen.view));
            }
            // What is wrong with one record says nothing of the others.
            Err(Error::Store(error)) if !error.is_passing() => {
                let cells = [election.as_str(), error.code(), "-", "-", "-", ""];
                rows.push(cells.map(str::to_string).to_vec());
                broken.push(of_election(election.as_str(), &error.into()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if !context.output.json {
        if let Some((pause, info)) = everything_paused(context).await {
            let but = if led.is_empty() { String::new() } else { format!(", but not {}", named(&led)) };
            context.output.talk(&since(&pause, &info, &but));
        }
        if rows.is_empty() {
            context.output.talk(&context.no_elections().await);
        } else {
            context.output.line(&table(&show::HEAD, &rows))?;
        }
    }
    all_failures(context, broken)
}

/// The last of them ends the command; the others are told of before it.
pub(super) fn all_failures(context: &Context, mut broken: Vec<Failure>) -> Result<Screen, Failure> {
    let Some(last) = broken.pop() else { return Ok(Screen::ended(Exit::Done)) };
    broken.iter().for_each(|failure| context.output.fail(failure));
    Err(last)
}

/// The pause of everything, if there is one and this caller may see it.
async fn everything_paused(context: &Context) -> Option<(Pause, Arc<StoreInfo>)> {
    let info = context.coordinator.info().await.ok()?;
    Some((*info.paused.clone()?, info))
}

/// Since when everything is paused, but for what is named, and why.
fn since(pause: &Pause, info: &StoreInfo, but: &str) -> String {
    let reason = if pause.reason.is_empty() { String::new() } else { format!(": {}", clean(&pause.reason)) };
    format!("everything is paused by {} since {}{but}{reason}", person(Some(info), pause.by), pause.at)
}

/// Whether somebody leads there, also while everything is paused. The servers do, so that somebody can end the pause.
fn goes_on(view: &View, election: &ElectionName) -> bool {
    election.as_str() != baton::SERVERS && view.leader().is_some()
}

/// The last slot of `baton run --once-per`, if there was one. Whatever ails its record, the election is shown.
async fn last_slot(context: &Context, election: &ElectionName) -> Option<SlotRun> {
    context.coordinator.toolbox(election).last_slot().await.ok().flatten()
}

/// How many tasks are read at most to say how many of them wait: where more stand on a board, `baton task board` counts them.
const COUNTED: usize = 5_000;

/// That nobody leads what somebody led, and what waits for the next leader.
struct Degraded {
    /// Its leader waits for an operator.
    awaits: bool,
    since: Option<WallTime>,
    /// How the board stands, where that can be said.
    board: Option<Counts>,
}

impl Degraded {
    /// None if somebody leads, or nobody ever has.
    async fn of(context: &Context, view: &View) -> Option<Degraded> {
        let document = view.document.as_ref().filter(|_| !view.native)?;
        let since = view.leaderless()?.since;
        let toolbox = context.coordinator.toolbox(&document.election);
        // Whatever ails the board, the election is shown.
        let board = toolbox.counts_within(COUNTED).await.ok().flatten();
        Some(Degraded { awaits: document.state == State::AwaitingApproval, since, board })
    }

    fn line(&self) -> String {
        let since = self.since.map_or(String::new(), |since| format!(" since {since}"));
        let board = self.board.as_ref().map_or(String::new(), |board| {
            let under_way = board.assigned + board.working;
            let (tasks, are) = if under_way == 1 { ("task", "is") } else { ("tasks", "are") };
            let (new, most) = (board.unled, board.most_unled);
            let wait = if new == 1 { "waits" } else { "wait" };
            format!("; {under_way} {tasks} {are} under way, {new} of at most {most} new ones {wait}")
        });
        let why = if self.awaits { "no token is accepted before an approval" } else { "nobody leads" };
        format!("  degraded    {why}{since}{board}")
    }
}

/// An election that was looked at.
struct ElectionStatus {
    view: View,
    line: Vec<RankedCandidate>,
    /// Those who wait in line, where nobody is compared.
    waiting: Vec<WaitingCandidate>,
    /// Those in the store's own line, where it has one.
    native: Vec<QueuedCandidate>,
}

impl ElectionStatus {
    /// None if there is no such election.
    async fn of(context: &Context, election: &ElectionName) -> Result<Option<ElectionStatus>, Error> {
        let view = context.coordinator.view(election).await?;
        let Some(document) = &view.document else { return Ok(None) };
        let line = candidate_queue::of(&context.coordinator, document).await?;
        let native = context.coordinator.candidates().line(election, candidate_queue::MAX_NATIVE).await?;
        // Whatever ails the notes of those who wait, the election is shown.
        let waiting = context.coordinator.candidates().waiting(election).await.unwrap_or_default();
        Ok(Some(ElectionStatus { view, line, waiting, native }))
    }

    fn data(&self) -> Value {
        let mut data = show::data(&self.view);
        let native = self.view.native;
        if !native {
            data["waiting"] = json!(self.waiting);
        }
        data["candidates"] = if native {
            candidate_queue::native_data(&self.native)
        } else {
            candidate_queue::data(&self.line)
        };
        data
    }
}

/// A failure that concerns one election among others.
pub(super) fn of_election(election: &str, error: &Error) -> Failure {
    let mut failure = Failure::from_error(error, Speaker::Guard);
    failure.message = format!("`{election}`: {}", failure.message);
    failure.facts.insert("election".to_string(), json!(election));
    failure
}
