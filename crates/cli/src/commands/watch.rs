//! `baton watch`: see every change as it happens.

use baton::View;
use baton::election::time::Span;
use baton::election::{ElectionName, Epoch};
use baton::store::{Access, Key, boot};
use clap::Args;
use futures_util::StreamExt;
use serde_json::json;

use super::show;
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

/// How often to look even if nothing is told: a lease that runs out makes no sound.
const LOOK_AGAIN: Span = Span::secs(5);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton watch refactor-auth                      a line for every change of leader or state
  baton watch refactor-auth --changes 1          wait for the next change, then end
  baton watch refactor-auth --json | while read -r change; do …; done")]
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

impl Watch {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Guard);
        let key = Key::Election(self.election.clone());
        let mut changes =
            context.coordinator.store().watch(&key).await.map_err(|error| fail(error.into()))?;
        let mut known: Option<Option<Look>> = None;
        let mut told = 0;
        loop {
            let view = context.coordinator.view(&self.election).await.map_err(fail)?;
            let look = look(&view);
            if known.as_ref() != Some(&look) {
                self.tell(&context, &view)?;
                // The first line shows how things stand; it is not a change.
                told += u64::from(known.is_some());
                known = Some(look);
                if self.changes.is_some_and(|limit| told >= limit) {
                    return Ok(Exit::Done);
                }
            }
            let remaining = view.document.as_ref().map(|document| document.lease_remaining(view.age));
            let until = remaining.filter(|left| *left > Span::ZERO).unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN);
            tokio::select! {
                change = changes.next() => if change.is_none() { return Ok(Exit::Done) },
                slept = boot::sleep(until) => slept?,
            }
        }
    }

    fn tell(&self, context: &Context, view: &View) -> Result<(), Failure> {
        let at = boot::wall();
        match &view.document {
            None => context.output.say(
                &json!({"election": self.election, "state": "absent", "epoch": 0, "leader": null, "at": at}),
                &format!("{at}  {}: there is no such election yet", self.election),
            ),
            Some(document) => {
                let mut data = show::data(document, view.age);
                data["at"] = json!(at);
                let text = show::text(view);
                context.output.say(&data, &format!("{at}  {}", text.lines().next().unwrap_or_default()))
            }
        }
    }
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
