//! `baton watch`: see every change as it happens.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use baton::election::time::{Moment, Span, WallTime};
use baton::election::{ElectionName, Epoch};
use baton::store::{Access, BoxStream, Change, Key, StoreError, boot};
use baton::{Error, Follower, View};
use clap::Args;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::show;
use crate::context::{AgentOption, Context, Global};
use crate::description::DescriptionSource;
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

/// The time between two looks, even if nothing is told: a lease that runs out makes no sound.
const LOOK_AGAIN: Span = Span::secs(5);
/// How often it is looked which elections there are.
const NAMES_EVERY: Duration = Duration::from_secs(5);
/// The most elections that are watched at once.
const MOST: usize = 1_000;
/// A store that takes longer to answer is taken for one that does not.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton watch                                    a line for every change of any election
  baton watch refactor-auth                      a line for every change of leader or state, and why
  baton watch refactor-auth --changes 1          wait for the next change, then end
  baton watch refactor-auth --acknowledge --as agent-b   acknowledge each change (release --notify-timeout)
  baton watch refactor-auth --json | while read -r change; do …; done

While the store is unreachable, watch shows the last known state, marked stale, and its lease runs down. Such a line does \
not count as a change. If the store refuses access, such as after the token was revoked, watch ends (exit 7).")]
pub(crate) struct Watch {
    /// The election [default: all, also those that begin later]
    #[arg(required_if_eq("acknowledge", "true"))]
    election: Option<ElectionName>,
    /// End after so many changes
    #[arg(long, value_name = "N")]
    changes: Option<u64>,
    /// Acknowledge each change, so that `release --notify-timeout` can wait for it; needs a server and --as
    #[arg(long)]
    acknowledge: bool,
    /// A JSON file in which the agent describes itself, read every second; needs --acknowledge
    #[arg(long, value_name = "FILE", requires = "acknowledge")]
    describe: Option<PathBuf>,
    #[command(flatten)]
    who: AgentOption,
}

/// What makes a change worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Headline {
    word: String,
    epoch: Epoch,
    leader: Option<String>,
    checkpoint: Option<u64>,
    phase: Option<String>,
}

/// What was told last.
struct LastView {
    view: View,
    look: Option<Headline>,
    /// When it was seen.
    seen_at: Moment,
    seen: WallTime,
    /// It cannot be seen since then.
    stale: bool,
    /// Its lease has run out since then, for all that is known.
    ran_out: bool,
}

impl LastView {
    fn now(view: View) -> LastView {
        let (seen_at, seen) = (boot::now(), boot::wall());
        LastView { look: look(&view), view, seen_at, seen, stale: false, ran_out: false }
    }

    /// What was seen, as old as it is.
    fn aged(&self) -> View {
        let age = self.view.age.plus(boot::now().since(self.seen_at));
        View { age, ..self.view.clone() }
    }
}

/// A session that follows, and what ends it.
struct FollowerSession {
    follower: Follower,
    done: oneshot::Sender<()>,
    ends: JoinHandle<()>,
}

impl FollowerSession {
    async fn end(self) {
        drop((self.follower, self.done));
        let _ = self.ends.await;
    }
}

impl Watch {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let told = Cell::new(0);
        let watcher = |election| Watcher { election, context: &context, limit: self.changes, told: &told };
        let Some(election) = &self.election else { return all(&context, watcher).await };
        if !self.acknowledge {
            return watcher(election.clone()).watch(false).await;
        }
        let session = self.follow(&context, election).await?;
        let outcome = watcher(election.clone()).watch(false).await;
        session.end().await;
        outcome
    }

    /// Follows with a session until this ends, or is asked to.
    async fn follow(&self, context: &Context, election: &ElectionName) -> Result<FollowerSession, Failure> {
        let fail = |error: Error| Failure::from_error(&error, Speaker::Candidate);
        let session = context.coordinator.announce(&self.who.agent()?).await.map_err(fail)?;
        let follower = session.follow(election).await.map_err(fail)?;
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let (done, is_done) = oneshot::channel::<()>();
        let source = DescriptionSource {
            file: self.describe.clone(),
            measures: false,
            capabilities: BTreeSet::new(),
            output: context.output,
        };
        let ends = tokio::spawn(async move {
            let code = tokio::select! {
                // It was checked.
                never = source.keep_looking(|description| drop(session.describe(description))) => match never {},
                _ = terminate.recv() => Some(143),
                _ = interrupt.recv() => Some(130),
                _ = is_done => None,
            };
            // Who says that it has gone is not waited for.
            let _ = tokio::time::timeout(PATIENCE, session.end(false)).await;
            if let Some(code) = code {
                std::process::exit(code);
            }
        });
        Ok(FollowerSession { follower, done, ends })
    }
}

/// Watches one election.
struct Watcher<'a> {
    context: &'a Context,
    election: ElectionName,
    /// After how many changes to end.
    limit: Option<u64>,
    /// How many were told, of all elections.
    told: &'a Cell<u64>,
}

/// Watches all elections, also those that begin later.
async fn all<'a>(context: &Context, watcher: impl Fn(ElectionName) -> Watcher<'a>) -> Outcome {
    let (mut names, mut watching) = (BTreeSet::new(), FuturesUnordered::new());
    let mut is_first = true;
    loop {
        match tokio::time::timeout(PATIENCE, context.coordinator.elections()).await {
            Ok(Ok(all)) => {
                let new: Vec<ElectionName> = all.into_iter().filter(|name| !names.contains(name)).collect();
                names.extend(new.iter().cloned());
                if names.len() > MOST {
                    return Err(Failure::usage(
                        format!("{} elections are too many to watch at once", names.len()),
                        "name one: baton watch ELECTION",
                    ));
                }
                watching.extend(new.into_iter().map(|name| {
                    let watcher = watcher(name);
                    async move { watcher.watch(!is_first).await }
                }));
                if is_first && names.is_empty() {
                    context.output.talk(&context.no_elections().await);
                }
                is_first = false;
            }
            Ok(Err(error)) if is_first => return Err(Failure::from_error(&error, Speaker::Guard)),
            // Those that are known say that the store cannot be reached.
            Ok(Err(_)) | Err(_) => {}
        }
        let look_again = tokio::time::sleep(NAMES_EVERY);
        tokio::pin!(look_again);
        tokio::select! {
            Some(ended) = watching.next() => match ended {
                // What is wrong with one record says nothing of the others.
                Err(failure) if failure.code != "refused" => context.output.fail(&failure),
                ended => return ended,
            },
            () = look_again => {}
        }
    }
}

impl Watcher<'_> {
    /// Until as many changes were told as were asked for. That it is there at all is a change of a new one.
    async fn watch(&self, is_new: bool) -> Outcome {
        let (mut changes, mut untold) = (None, false);
        let mut known: Option<LastView> = None;
        loop {
            if changes.is_none() {
                changes = self.changes(&mut untold).await;
            }
            let mut until = LOOK_AGAIN;
            match (self.view().await, &mut known) {
                (Ok(view), _) => {
                    let seen = LastView::now(view);
                    let changed = known.as_ref().map_or(is_new, |known| known.look != seen.look);
                    if changed || known.as_ref().is_none_or(|known| known.stale) {
                        self.tell(&seen.view, None)?;
                    }
                    // The first line shows how things stand, and one after an outage that they can be seen: no changes.
                    self.told.set(self.told.get() + u64::from(changed));
                    until = until.min(lease_end(&seen.view));
                    known = Some(seen);
                    if self.limit.is_some_and(|limit| self.told.get() >= limit) {
                        return Ok(Exit::Done);
                    }
                }
                // A refusal stays one, however long this waits: the token was revoked, or the user may not read.
                (Err(error @ Error::Store(StoreError::Refused { .. })), _) | (Err(error), None) => {
                    return Err(Failure::from_error(&error, Speaker::Guard));
                }
                (Err(error), Some(known)) => {
                    let aged = known.aged();
                    let ran_out = look(&aged) != known.look;
                    if !known.stale || ran_out && !known.ran_out {
                        self.tell(&aged, Some((known.seen, &error)))?;
                    }
                    (known.stale, known.ran_out) = (true, ran_out);
                    until = until.min(lease_end(&aged));
                }
            }
            tokio::select! {
                () = told_of(&mut changes) => {}
                slept = boot::sleep(until) => slept?,
            }
        }
    }

    async fn view(&self) -> Result<View, Error> {
        let view = tokio::time::timeout(PATIENCE, self.context.coordinator.view(&self.election)).await;
        view.unwrap_or_else(|_| {
            let location = self.context.coordinator.backend().location();
            let (why, hint) = ("it does not answer".to_string(), "try again later".to_string());
            Err(StoreError::Unavailable { location, why, hint }.into())
        })
    }

    /// Being told of changes. A store that refuses is looked at all the same, which is said once.
    async fn changes(&self, untold: &mut bool) -> Option<BoxStream<Change>> {
        let key = Key::Election(self.election.clone());
        let watch =
            tokio::time::timeout(PATIENCE, self.context.coordinator.backend().watch(&key)).await.ok()?;
        let error = match watch {
            Ok(changes) => return Some(changes),
            Err(error) => error,
        };
        if !error.is_passing() && !std::mem::replace(untold, true) {
            let text =
                format!("nobody is told of changes, so that they are looked for every {LOOK_AGAIN}: {error}");
            let output = self.context.output;
            output.talk(&format!("baton: {text}\nhint: {}", error.hint()));
            if output.json {
                output.event(&json!({"event": "untold", "message": text, "hint": error.hint()}));
            }
        }
        None
    }

    /// Tells how things stand, or how they stood when they were last seen, and why they cannot be.
    fn tell(&self, view: &View, unseen: Option<(WallTime, &Error)>) -> Result<(), Failure> {
        let at = boot::wall();
        let (mut data, text) = match &view.document {
            None => (
                json!({"election": self.election, "state": "absent", "token": 0, "leader": null}),
                format!("{}: there is no such election yet", self.election),
            ),
            Some(_) => (show::data(view), show::text(view)),
        };
        data["at"] = json!(at);
        data["stale"] = json!(unseen.is_some());
        data["stale_since"] = json!(unseen.map(|(seen, _)| seen));
        let line = text.lines().next().unwrap_or_default();
        let why =
            view.document.as_ref().and_then(show::reason).map_or(String::new(), |why| format!("; {why}"));
        let stale = unseen.map_or(String::new(), |(seen, error)| format!(" (stale since {seen}: {error})"));
        self.context.output.say(&data, &format!("{at}  {line}{why}{stale}"))
    }
}

/// Waits to be told of a change; for ever if nobody tells. A stream that ends is asked for anew at the next look.
async fn told_of(changes: &mut Option<BoxStream<Change>>) {
    if let Some(stream) = changes
        && stream.next().await.is_some()
    {
        return;
    }
    *changes = None;
    std::future::pending().await
}

/// How long the running lease lasts: when it ends without a word, nobody tells.
fn lease_end(view: &View) -> Span {
    let remaining = view.document.as_ref().map(|document| document.lease_remaining(view.age));
    remaining.filter(|left| *left > Span::ZERO).unwrap_or(LOOK_AGAIN)
}

fn look(view: &View) -> Option<Headline> {
    let document = view.document.as_ref()?;
    let live = view.leader().is_some();
    Some(Headline {
        word: format!("{} {live}", document.state),
        epoch: document.epoch,
        leader: document.leader.as_ref().map(|leader| leader.agent.to_string()),
        checkpoint: document.checkpoint.as_ref().map(|checkpoint| checkpoint.seq),
        phase: document.leader.as_ref().map(|leader| leader.phase.to_string()),
    })
}
