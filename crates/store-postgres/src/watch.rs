//! Watching one key: told by the server, and looking for oneself, rarely if it tells and often if it cannot.

use std::sync::Arc;
use std::time::Duration;

use baton_store::{BoxStream, Change, StoreError, jittered};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

use crate::fault::Act;
use crate::listen::{ListenEvent, pause};
use crate::store::Inner;

/// How often a watcher looks even if the server tells: from this to twice this.
const SAFETY_NET: Duration = Duration::from_secs(20);

/// How often in an hour a watcher looks, on average.
pub(crate) fn looks_per_hour(polled: bool, poll: Duration) -> u32 {
    let every = if polled { poll } else { SAFETY_NET }.mul_f64(1.5);
    u32::try_from(Duration::from_secs(3_600).as_millis() / every.as_millis().max(1)).unwrap_or(u32::MAX)
}

/// One watcher of one key.
struct Watcher {
    inner: Arc<Inner>,
    key: String,
    /// The version that was seen or told of last; empty if there was no row.
    last: String,
    words: Option<broadcast::Receiver<ListenEvent>>,
    next_look: Instant,
    failures: u32,
}

/// Tells of changes under a key from now on.
pub(crate) async fn watch(inner: Arc<Inner>, key: String) -> Result<BoxStream<Change>, StoreError> {
    let limit = inner.pool.limits.request;
    let begun = tokio::time::timeout(limit, async {
        let words = inner.listener.subscribe().await?;
        Ok((words, inner.version(&key).await?.unwrap_or_default()))
    });
    let (words, last) = begun.await.unwrap_or_else(|_| Err(inner.pool.faults.silence(Act::Read, limit)))?;
    let mut watcher = Watcher { inner, key, last, words, next_look: Instant::now(), failures: 0 };
    watcher.plan();
    let changes = futures_util::stream::unfold(watcher, |mut watcher| async move {
        let change = watcher.change().await;
        Some((change, watcher))
    });
    Ok(Box::pin(changes))
}

impl Watcher {
    async fn change(&mut self) -> Change {
        loop {
            let told = tokio::select! {
                word = heard(&mut self.words) => self.told(word),
                () = tokio::time::sleep_until(self.next_look) => self.look().await,
            };
            if let Some(change) = told {
                return change;
            }
        }
    }

    fn told(&mut self, word: Result<ListenEvent, RecvError>) -> Option<Change> {
        match word {
            Ok(ListenEvent::Changed { key, version }) if key == self.key && version != self.last => {
                self.last = version;
                Some(Change::Changed)
            }
            Ok(ListenEvent::Changed { .. } | ListenEvent::Echo(_)) => None,
            Ok(ListenEvent::Gap) | Err(RecvError::Lagged(_)) => Some(Change::Gap),
            // The sender lives as long as the store that this watcher holds.
            Err(RecvError::Closed) => {
                self.words = None;
                Some(Change::Gap)
            }
        }
    }

    async fn look(&mut self) -> Option<Change> {
        let seen = self.inner.version(&self.key).await;
        let failed = self.failures;
        self.failures = if seen.is_ok() { 0 } else { failed.saturating_add(1) };
        self.plan();
        let seen = seen.ok()?.unwrap_or_default();
        let changed = seen != self.last;
        self.last = seen;
        match (failed, changed) {
            (0, false) => None,
            (0, true) => Some(Change::Changed),
            (1.., _) => Some(Change::Gap),
        }
    }

    fn plan(&mut self) {
        let usual = if self.words.is_some() { SAFETY_NET } else { self.inner.options.poll };
        let pause =
            if self.failures == 0 { jittered(usual) } else { jittered(usual).max(pause(self.failures)) };
        self.next_look = Instant::now() + pause;
    }
}

/// The next word; never, if there are none.
async fn heard(words: &mut Option<broadcast::Receiver<ListenEvent>>) -> Result<ListenEvent, RecvError> {
    match words {
        Some(words) => words.recv().await,
        None => std::future::pending().await,
    }
}
