//! The watchers of each record.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use baton_store::{BoxStream, Change, Key};
use tokio::sync::watch;

#[derive(Default)]
pub(crate) struct Watchers {
    waiting: Mutex<HashMap<Key, watch::Sender<()>>>,
}

impl Watchers {
    /// Tells of changes from the call on.
    pub(crate) fn watch(&self, key: &Key) -> BoxStream<Change> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = waiting.entry(key.clone()).or_insert_with(|| watch::channel(()).0).subscribe();
        Box::pin(futures_util::stream::unfold(changes, |mut changes| async move {
            match changes.changed().await {
                Ok(()) => Some((Change::Changed, changes)),
                // The store is gone; a watch does not end by itself.
                Err(_) => std::future::pending().await,
            }
        }))
    }

    /// Notifies the watchers of these records, and drops watchers that are gone.
    pub(crate) fn changed<'a>(&self, keys: impl Iterator<Item = &'a Key>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            if waiting.get(key).is_some_and(|changes| changes.send(()).is_err()) {
                waiting.remove(key);
            }
        }
    }
}
