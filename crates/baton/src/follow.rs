//! The leader, for agents that do not lead: cached, pushed, and still known while nobody leads.
//!
//! Assumes nothing of the store. Guarantees that what was known last is served at any time without IO, and that it is
//! marked stale within ten seconds if the store fails or does not answer. Does not guarantee that whoever is served
//! still leads: a follower that must be sure shows a token to a fence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_election::document::State;
use baton_election::{AgentName, ElectionName, Epoch, Moment, Span};
use baton_store::{BoxStream, Change, Key, boot};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::coordinator::{Coordinator, View};

/// How often a follower looks even if nobody tells it of a change.
const LOOK_AGAIN: Span = Span::secs(5);
/// A store that takes longer to answer is taken for one that does not.
const PATIENCE: Duration = Duration::from_secs(5);

/// The leader as a follower knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderView {
    /// The leader, or the last one.
    pub agent: Option<AgentName>,
    /// Its token.
    pub token: Epoch,
    /// Where it is reached, if it leads and said so.
    pub contact: Option<Arc<str>>,
    /// Nobody leads at the moment: this is who led last. Reads may go on; nothing new is to be begun.
    pub vacant: bool,
    /// An operator stopped the election, or must approve.
    pub stopped: bool,
    /// The store failed or did not answer: this is what was known before.
    pub stale: bool,
}

/// Follows an election in the background until it is dropped.
pub struct Follower {
    view: watch::Receiver<Arc<LeaderView>>,
    seen: Arc<SeenAt>,
    _keeper: Box<dyn Send + Sync>,
}

/// When something was last seen to be as it is known.
#[derive(Default)]
pub(crate) struct SeenAt(AtomicU64);

impl SeenAt {
    pub(crate) fn now(&self) {
        self.0.fetch_max(boot::now().as_nanos(), Ordering::AcqRel);
    }

    pub(crate) fn since(&self) -> Span {
        boot::now().since(Moment::from_nanos(self.0.load(Ordering::Acquire)))
    }
}

/// A task that ends with this value.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Follower {
    /// One that follows as long as its keeper is kept.
    pub(crate) fn kept_by(
        view: watch::Receiver<Arc<LeaderView>>,
        seen: Arc<SeenAt>,
        keeper: impl Send + Sync + 'static,
    ) -> Follower {
        Follower { view, seen, _keeper: Box::new(keeper) }
    }

    /// How long ago the store last showed what is known. Local: no IO. Whoever may not serve what is older than a bound asks this.
    pub fn unconfirmed_for(&self) -> Span {
        self.seen.since()
    }

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
        let seen = Arc::new(SeenAt::default());
        let first = answered(self.view(election)).await;
        if first.is_some() {
            seen.now();
        }
        let (sender, view) = watch::channel(Arc::new(refreshed(&LeaderView::default(), first)));
        let looking = keep_looking(self.clone(), election.clone(), sender, Arc::clone(&seen));
        Follower::kept_by(view, seen, Task(tokio::spawn(looking)))
    }
}

async fn keep_looking(
    coordinator: Coordinator,
    election: ElectionName,
    sender: watch::Sender<Arc<LeaderView>>,
    seen: Arc<SeenAt>,
) {
    let key = Key::Election(election.clone());
    let mut changes = None;
    loop {
        if changes.is_none() {
            changes = answered(coordinator.backend.watch(&key)).await;
        }
        let known = sender.borrow().clone();
        let view = answered(coordinator.view(&election)).await;
        if view.is_some() {
            seen.now();
        }
        let until = view.as_ref().map_or(LOOK_AGAIN, lease_end);
        let next = refreshed(&known, view);
        if next != *known {
            sender.send_replace(Arc::new(next));
        }
        tokio::select! {
            () = told(&mut changes) => {}
            slept = boot::sleep(until.min(LOOK_AGAIN)) => if slept.is_err() {
                tokio::time::sleep(PATIENCE).await;
            },
        }
    }
}

/// What the store answers, if it does.
pub(crate) async fn answered<T, E>(asked: impl Future<Output = Result<T, E>>) -> Option<T> {
    tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()
}

/// Waits to be told of a change; for ever if nobody tells. A stream that ends is asked for anew at the next look.
async fn told(changes: &mut Option<BoxStream<Change>>) {
    if let Some(stream) = changes
        && stream.next().await.is_some()
    {
        return;
    }
    *changes = None;
    std::future::pending().await
}

/// How long the running lease lasts: when it ends without a word, nobody tells.
pub(crate) fn lease_end(view: &View) -> Span {
    match &view.document {
        Some(document) if document.current_leader(view.age).is_some() => document.lease_remaining(view.age),
        // It has run out, and what comes next is told.
        Some(_) | None => LOOK_AGAIN,
    }
}

/// What is known after a look. The last leader stays known while nobody leads.
pub(crate) fn refreshed(known: &LeaderView, view: Option<View>) -> LeaderView {
    let Some(view) = view else { return LeaderView { stale: true, ..known.clone() } };
    let Some(document) = &view.document else {
        return LeaderView { vacant: true, stale: false, stopped: false, contact: None, ..known.clone() };
    };
    let stopped = matches!(document.state, State::Paused | State::AwaitingApproval);
    match document.current_leader(view.age) {
        Some(leader) => LeaderView {
            agent: Some(leader.agent.clone()),
            token: leader.epoch,
            contact: leader.contact.clone(),
            vacant: false,
            stopped,
            stale: false,
        },
        None => {
            let last = document.last_transition.as_ref();
            LeaderView {
                agent: last.map(|last| last.to.clone()).or_else(|| known.agent.clone()),
                token: last.map_or(known.token, |last| last.epoch),
                contact: None,
                vacant: true,
                stopped,
                stale: false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Follower, LeaderView};
    use crate::coordinator::{Bid, Coordinator};
    use crate::{Campaign, Leadership};
    use baton_api::Memory;
    use baton_election::{AgentName, ElectionName, Span};
    use baton_store::conformance::Wrapped;
    use baton_store::{BoxFuture, BoxStream, Change, Key, MemoryStore, Reading, Store, StoreError};
    use std::sync::Arc;
    use tokio::sync::watch;

    /// A store that does not answer, nor tell of changes, while it is mute.
    struct Muted {
        inner: MemoryStore,
        mute: watch::Sender<bool>,
    }

    impl Muted {
        async fn spoken(&self) {
            let _ = self.mute.subscribe().wait_for(|mute| !mute).await;
        }
    }

    impl Wrapped for Muted {
        fn inner(&self) -> Arc<dyn Store> {
            Arc::new(self.inner.clone())
        }

        fn reads<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
            Box::pin(async move {
                self.spoken().await;
                self.inner.read(key).await
            })
        }

        fn watches<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
            Box::pin(async move {
                self.spoken().await;
                // One change is told, and then the connection is gone.
                let changes = self.inner.watch(key).await?;
                Ok(Box::pin(futures_util::StreamExt::take(changes, 1)) as BoxStream<Change>)
            })
        }
    }

    async fn lead(store: &MemoryStore, agent: &str) -> Leadership {
        let coordinator = Coordinator::with_store(Arc::new(store.clone()), Memory::new());
        let bid = Bid { ttl: Some(Span::secs(600)), ..Bid::new(AgentName::new(agent).unwrap()) };
        coordinator.campaign(&ElectionName::new("e").unwrap(), Campaign::new(bid)).await.unwrap()
    }

    async fn comes_to_know(follower: &mut Follower, holds: impl Fn(&LeaderView) -> bool) -> Arc<LeaderView> {
        let known = async {
            while !holds(&follower.leader()) {
                follower.changed().await;
            }
            follower.leader()
        };
        tokio::time::timeout(std::time::Duration::from_secs(120), known).await.expect("this hangs")
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_followed_as_stale_and_found_again() {
        let (inner, mute) = (MemoryStore::default(), watch::Sender::new(false));
        let first = lead(&inner, "a").await;
        let store = Arc::new(Muted { inner: inner.clone(), mute: mute.clone() });
        let coordinator = Coordinator::with_store(store, Memory::new());
        let mut follower = coordinator.follow(&ElectionName::new("e").unwrap()).await;
        let known = follower.leader();
        assert_eq!((known.agent.as_ref(), known.stale), (Some(first.agent()), false));
        mute.send_replace(true);
        let known = comes_to_know(&mut follower, |known| known.stale).await;
        assert_eq!((known.agent.as_ref(), known.token), (Some(first.agent()), first.token()));
        assert!(!known.vacant, "what was known is served");
        first.release("").await.unwrap();
        let second = lead(&inner, "b").await;
        assert!(follower.leader().stale);
        mute.send_replace(false);
        let known = comes_to_know(&mut follower, |known| !known.stale).await;
        assert_eq!((known.agent.as_ref(), known.vacant), (Some(second.agent()), false));
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_from_the_beginning_does_not_hold_up_who_follows() {
        let (inner, mute) = (MemoryStore::default(), watch::Sender::new(true));
        let store = Arc::new(Muted { inner: inner.clone(), mute: mute.clone() });
        let coordinator = Coordinator::with_store(store, Memory::new());
        let mut follower = coordinator.follow(&ElectionName::new("e").unwrap()).await;
        assert_eq!(*follower.leader(), LeaderView { stale: true, ..LeaderView::default() });
        let leader = lead(&inner, "a").await;
        mute.send_replace(false);
        let known = comes_to_know(&mut follower, |known| !known.stale).await;
        assert_eq!(known.agent.as_ref(), Some(leader.agent()));
    }
}
