//! `baton watch`: see every change as it happens.

use std::time::Duration;

use baton::election::time::Span;
use baton::election::{ElectionName, Epoch};
use baton::store::{Access, BoxStream, Change, Key, StoreError, boot};
use baton::{Error, View};
use clap::Args;
use futures_util::StreamExt;
use serde_json::json;

use super::show;
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

/// How often to look even if nothing is told: a lease that runs out makes no sound.
const LOOK_AGAIN: Span = Span::secs(5);
/// A store that takes longer to answer is taken for one that does not.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton watch refactor-auth                      a line for every change of leader or state
  baton watch refactor-auth --changes 1          wait for the next change, then end
  baton watch refactor-auth --json | while read -r change; do …; done

While the store cannot be reached, what was known last stands, marked stale. That is told, but is no change.")]
pub(crate) struct Watch {
    /// Which one
    election: ElectionName,
    /// End after so many changes
    #[arg(long, value_name = "N")]
    changes: Option<u64>,
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
    stale: bool,
}

impl Watch {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let mut changes = None;
        let mut known: Option<Known> = None;
        let mut told = 0;
        loop {
            if changes.is_none() {
                changes = self.changes(&context).await;
            }
            let mut until = LOOK_AGAIN;
            match (self.view(&context).await, &mut known) {
                (Ok(view), _) => {
                    let look = look(&view);
                    let changed = known.as_ref().is_some_and(|known| known.look != look);
                    if changed || known.as_ref().is_none_or(|known| known.stale) {
                        self.tell(&context, &view, None)?;
                    }
                    // The first line shows how things stand, and one after an outage that they can be seen: no changes.
                    told += u64::from(changed);
                    until = until.min(lease_end(&view));
                    known = Some(Known { view, look, stale: false });
                    if self.changes.is_some_and(|limit| told >= limit) {
                        return Ok(Exit::Done);
                    }
                }
                (Err(error), None) => return Err(Failure::from_error(&error, Speaker::Guard)),
                (Err(error), Some(known)) => {
                    if !known.stale {
                        self.tell(&context, &known.view, Some(&error))?;
                    }
                    known.stale = true;
                }
            }
            tokio::select! {
                () = told_of(&mut changes) => {}
                slept = boot::sleep(until) => slept?,
            }
        }
    }

    async fn view(&self, context: &Context) -> Result<View, Error> {
        let view = tokio::time::timeout(PATIENCE, context.coordinator.view(&self.election)).await;
        view.unwrap_or_else(|_| {
            let location = context.coordinator.store().location();
            let (why, hint) = ("it does not answer".to_string(), "try again later".to_string());
            Err(StoreError::Unavailable { location, why, hint }.into())
        })
    }

    async fn changes(&self, context: &Context) -> Option<BoxStream<Change>> {
        let key = Key::Election(self.election.clone());
        tokio::time::timeout(PATIENCE, context.coordinator.store().watch(&key)).await.ok()?.ok()
    }

    /// Tells how things stand, or how they stood before they could not be seen.
    fn tell(&self, context: &Context, view: &View, unseen: Option<&Error>) -> Result<(), Failure> {
        let at = boot::wall();
        let (mut data, text) = match &view.document {
            None => (
                json!({"election": self.election, "state": "absent", "epoch": 0, "leader": null}),
                format!("{}: there is no such election yet", self.election),
            ),
            Some(document) => (show::data(document, view.age), show::text(view)),
        };
        data["at"] = json!(at);
        data["stale"] = json!(unseen.is_some());
        let line = text.lines().next().unwrap_or_default();
        let stale = unseen.map_or(String::new(), |error| format!(" (stale: {error})"));
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
