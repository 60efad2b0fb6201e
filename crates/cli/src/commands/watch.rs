//! `baton watch`: see every change as it happens.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use baton::election::time::{Moment, Span, WallTime};
use baton::election::{ElectionName, Epoch};
use baton::store::{Access, BoxStream, Change, Key, StoreError, boot};
use baton::{Error, Follower, View};
use clap::Args;
use futures_util::StreamExt;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::describe::Source;
use super::show;
use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

/// The time between two looks, even if nothing is told: a lease that runs out makes no sound.
const LOOK_AGAIN: Span = Span::secs(5);
/// A store that takes longer to answer is taken for one that does not.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton watch refactor-auth                      a line for every change of leader or state
  baton watch refactor-auth --changes 1          wait for the next change, then end
  baton watch refactor-auth --acknowledge --as agent-b   acknowledge each change (release --notify-timeout)
  baton watch refactor-auth --json | while read -r change; do …; done

While the store is unreachable, watch shows the last known state, marked stale, and its lease runs down. Such a line does \
not count as a change. If the store refuses access, such as after the token was revoked, watch ends (exit 7).")]
pub(crate) struct Watch {
    /// The election
    election: ElectionName,
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
    who: Who,
}

/// What makes a change worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    word: String,
    epoch: Epoch,
    leader: Option<String>,
    checkpoint: Option<u64>,
    phase: Option<String>,
}

/// What was told last.
struct Known {
    view: View,
    look: Option<Look>,
    /// When it was seen.
    seen_at: Moment,
    seen: WallTime,
    /// It cannot be seen since then.
    stale: bool,
    /// Its lease has run out since then, for all that is known.
    ran_out: bool,
}

impl Known {
    fn now(view: View) -> Known {
        let (seen_at, seen) = (boot::now(), boot::wall());
        Known { look: look(&view), view, seen_at, seen, stale: false, ran_out: false }
    }

    /// What was seen, as old as it is.
    fn aged(&self) -> View {
        let age = self.view.age.plus(boot::now().since(self.seen_at));
        View { age, ..self.view.clone() }
    }
}

/// A session that follows, and what ends it.
struct Following {
    follower: Follower,
    done: oneshot::Sender<()>,
    ends: JoinHandle<()>,
}

impl Following {
    async fn end(self) {
        drop((self.follower, self.done));
        let _ = self.ends.await;
    }
}

impl Watch {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        if !self.acknowledge {
            return self.watch(&context).await;
        }
        let following = self.follow(&context).await?;
        let outcome = self.watch(&context).await;
        following.end().await;
        outcome
    }

    async fn watch(&self, context: &Context) -> Outcome {
        let (mut changes, mut untold) = (None, false);
        let mut known: Option<Known> = None;
        let mut told = 0;
        loop {
            if changes.is_none() {
                changes = self.changes(context, &mut untold).await;
            }
            let mut until = LOOK_AGAIN;
            match (self.view(context).await, &mut known) {
                (Ok(view), _) => {
                    let seen = Known::now(view);
                    let changed = known.as_ref().is_some_and(|known| known.look != seen.look);
                    if changed || known.as_ref().is_none_or(|known| known.stale) {
                        self.tell(context, &seen.view, None)?;
                    }
                    // The first line shows how things stand, and one after an outage that they can be seen: no changes.
                    told += u64::from(changed);
                    until = until.min(lease_end(&seen.view));
                    known = Some(seen);
                    if self.changes.is_some_and(|limit| told >= limit) {
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
                        self.tell(context, &aged, Some((known.seen, &error)))?;
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

    /// Follows with a session until this ends, or is asked to.
    async fn follow(&self, context: &Context) -> Result<Following, Failure> {
        let fail = |error: Error| Failure::from_error(&error, Speaker::Candidate);
        let session = context.coordinator.announce(&self.who.agent()?).await.map_err(fail)?;
        let follower = session.follow(&self.election).await.map_err(fail)?;
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let (done, is_done) = oneshot::channel::<()>();
        let source = Source {
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
        Ok(Following { follower, done, ends })
    }

    async fn view(&self, context: &Context) -> Result<View, Error> {
        let view = tokio::time::timeout(PATIENCE, context.coordinator.view(&self.election)).await;
        view.unwrap_or_else(|_| {
            let location = context.coordinator.backend().location();
            let (why, hint) = ("it does not answer".to_string(), "try again later".to_string());
            Err(StoreError::Unavailable { location, why, hint }.into())
        })
    }

    /// Being told of changes. A store that refuses is looked at all the same, which is said once.
    async fn changes(&self, context: &Context, untold: &mut bool) -> Option<BoxStream<Change>> {
        let key = Key::Election(self.election.clone());
        let watch = tokio::time::timeout(PATIENCE, context.coordinator.backend().watch(&key)).await.ok()?;
        let error = match watch {
            Ok(changes) => return Some(changes),
            Err(error) => error,
        };
        if !error.is_passing() && !std::mem::replace(untold, true) {
            let text =
                format!("nobody is told of changes, so that they are looked for every {LOOK_AGAIN}: {error}");
            context.output.talk(&format!("baton: {text}\nhint: {}", error.hint()));
            if context.output.json {
                context.output.event(&json!({"event": "untold", "message": text, "hint": error.hint()}));
            }
        }
        None
    }

    /// Tells how things stand, or how they stood when they were last seen, and why they cannot be.
    fn tell(
        &self,
        context: &Context,
        view: &View,
        unseen: Option<(WallTime, &Error)>,
    ) -> Result<(), Failure> {
        let at = boot::wall();
        let (mut data, text) = match &view.document {
            None => (
                json!({"election": self.election, "state": "absent", "epoch": 0, "leader": null}),
                format!("{}: there is no such election yet", self.election),
            ),
            Some(_) => (show::data(view), show::text(view)),
        };
        data["at"] = json!(at);
        data["stale"] = json!(unseen.is_some());
        data["stale_since"] = json!(unseen.map(|(seen, _)| seen));
        let line = text.lines().next().unwrap_or_default();
        let stale = unseen.map_or(String::new(), |(seen, error)| format!(" (stale since {seen}: {error})"));
        context.output.say(&data, &format!("{at}  {line}{stale}"))
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

fn look(view: &View) -> Option<Look> {
    let document = view.document.as_ref()?;
    let live = view.leader().is_some();
    Some(Look {
        word: format!("{} {live}", document.state),
        epoch: document.epoch,
        leader: document.leader.as_ref().map(|leader| leader.agent.to_string()),
        checkpoint: document.checkpoint.as_ref().map(|checkpoint| checkpoint.seq),
        phase: document.leader.as_ref().map(|leader| leader.phase.to_string()),
    })
}
