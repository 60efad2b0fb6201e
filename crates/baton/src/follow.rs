//! Who leads, for those who do not: cached, pushed, and still there while there is nobody.

use std::sync::Arc;

use baton_election::document::State;
use baton_election::{AgentName, ElectionName, Epoch, Span};
use baton_store::{Key, boot};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::coordinator::{Coordinator, View};

/// How often a follower looks even if nobody tells it of a change.
const LOOK_AGAIN: Span = Span::secs(5);

/// The leader as a follower knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderView {
    /// Who leads, or led last.
    pub agent: Option<AgentName>,
    /// Its token.
    pub token: Epoch,
    /// Nobody leads at the moment: this is who led last. Reads may go on; nothing new is to be begun.
    pub vacant: bool,
    /// An operator stopped the election, or must approve.
    pub stopped: bool,
    /// The store could not be asked: this is what was known before.
    pub stale: bool,
}

/// Follows an election in the background until it is dropped.
pub struct Follower {
    view: watch::Receiver<Arc<LeaderView>>,
    task: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    /// The leader as last known. Local: no IO.
    pub fn leader(&self) -> Arc<LeaderView> {
        self.view.borrow().clone()
    }

    /// Waits for the next change of what is known.
    pub async fn changed(&mut self) -> Arc<LeaderView> {
        if self.view.changed().await.is_err() {
            // The task ends only with this value.
            std::future::pending::<()>().await;
        }
        self.view.borrow_and_update().clone()
    }
}

impl Coordinator {
    /// Follows an election. The first look is made before this returns; a store out of reach is followed as stale.
    pub async fn follow(&self, election: &ElectionName) -> Follower {
        let first = refreshed(&LeaderView::default(), self.view(election).await.ok());
        let (sender, view) = watch::channel(Arc::new(first));
        let (coordinator, election) = (self.clone(), election.clone());
        let task = tokio::spawn(async move { keep_looking(coordinator, election, sender).await });
        Follower { view, task }
    }
}

async fn keep_looking(
    coordinator: Coordinator,
    election: ElectionName,
    sender: watch::Sender<Arc<LeaderView>>,
) {
    let key = Key::Election(election.clone());
    loop {
        let Ok(mut changes) = coordinator.store().watch(&key).await else {
            let _ = boot::sleep(LOOK_AGAIN).await;
            continue;
        };
        loop {
            let known = sender.borrow().clone();
            let (next, until) = match coordinator.view(&election).await {
                Ok(view) => (refreshed(&known, Some(view.clone())), lease_end(&view)),
                Err(_) => (refreshed(&known, None), LOOK_AGAIN),
            };
            if next != *known {
                sender.send_replace(Arc::new(next));
            }
            tokio::select! {
                change = changes.next() => if change.is_none() { break },
                slept = boot::sleep(until.min(LOOK_AGAIN)) => if slept.is_err() { break },
            }
        }
    }
}

/// How long the running lease lasts: when it ends without a word, nobody tells.
fn lease_end(view: &View) -> Span {
    match &view.document {
        Some(document) if document.current_leader(view.age).is_some() => document.lease_remaining(view.age),
        // It has run out, and what comes next is told.
        Some(_) | None => LOOK_AGAIN,
    }
}

/// What is known after a look. Who led last stays known while nobody does.
fn refreshed(known: &LeaderView, view: Option<View>) -> LeaderView {
    let Some(view) = view else { return LeaderView { stale: true, ..known.clone() } };
    let Some(document) = &view.document else {
        return LeaderView { vacant: true, stale: false, stopped: false, ..known.clone() };
    };
    let stopped = matches!(document.state, State::Paused | State::AwaitingApproval);
    match document.current_leader(view.age) {
        Some(leader) => LeaderView {
            agent: Some(leader.agent.clone()),
            token: leader.epoch,
            vacant: false,
            stopped,
            stale: false,
        },
        None => {
            let last = document.last_transition.as_ref();
            LeaderView {
                agent: last.map(|last| last.to.clone()).or_else(|| known.agent.clone()),
                token: last.map_or(known.token, |last| last.epoch),
                vacant: true,
                stopped,
                stale: false,
            }
        }
    }
}
