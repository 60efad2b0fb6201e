//! What is said: that a record may have changed, after every swap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_store::StoreError;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinHandle;

use crate::topic::Topic;

/// How long a swap waits for its message to be taken: a command that ends right after it has told of it by then.
const WAIT: Duration = Duration::from_millis(300);
/// How long the first swap waits to hear whether there is a topic.
const LOOK_WAIT: Duration = Duration::from_secs(1);
/// The messages that may be on their way; those above it are not sent, for nothing gets through.
const MAX_ON_THE_WAY: usize = 64;

/// Tells of changes.
pub(crate) struct Teller {
    topic: Arc<Topic>,
    /// The answer to whether there is a topic, asked for once; again while there is none.
    looked: Mutex<Option<JoinHandle<Option<StoreError>>>>,
    /// Whether the topic is known to be there, or it was tried to find out.
    found: AtomicBool,
    /// Whether the last message got through in time: swaps do not wait for a topic that does not answer.
    healthy: Arc<AtomicBool>,
    on_the_way: Arc<Semaphore>,
}

impl Teller {
    pub(crate) fn new(topic: Arc<Topic>) -> Teller {
        Teller {
            topic,
            looked: Mutex::default(),
            found: AtomicBool::new(false),
            healthy: Arc::new(AtomicBool::new(true)),
            on_the_way: Arc::new(Semaphore::new(MAX_ON_THE_WAY)),
        }
    }

    /// Begins to look whether there is a topic, so that the answer, and the connection, are there when they are needed.
    pub(crate) async fn look_ahead(&self) {
        if self.found.load(Ordering::Relaxed) {
            return;
        }
        let mut looked = self.looked.lock().await;
        if looked.is_none() {
            *looked = Some(tokio::spawn(missing(Arc::clone(&self.topic))));
        }
    }

    /// Refuses if there is no topic: nobody would be told. Whatever else keeps from finding out does not matter.
    ///
    /// Asked before the first swap only: a topic that goes away later takes no lease with it.
    pub(crate) async fn insist(&self) -> Result<(), StoreError> {
        if self.found.load(Ordering::Relaxed) {
            return Ok(());
        }
        let ahead = self.looked.lock().await.take();
        let look = async {
            // It may have been made since somebody looked ahead: only a fresh look refuses.
            if let Some(ahead) = ahead
                && !matches!(ahead.await, Ok(Some(_)))
            {
                return None;
            }
            missing(Arc::clone(&self.topic)).await
        };
        match tokio::time::timeout(LOOK_WAIT, look).await {
            Ok(Some(missing)) => Err(missing),
            Ok(None) | Err(_) => {
                self.found.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Tells that a record may have changed, and waits a little for the message to be taken. Never fails.
    pub(crate) async fn tell(&self, key: String) {
        let Ok(permit) = Arc::clone(&self.on_the_way).try_acquire_owned() else { return };
        let (topic, healthy) = (Arc::clone(&self.topic), Arc::clone(&self.healthy));
        // In a task of its own, so that it goes on when the swap's answer does not wait for it.
        let telling = tokio::spawn(async move {
            let told = topic.publish(&key).await.is_ok();
            healthy.store(told, Ordering::Relaxed);
            drop(permit);
        });
        if self.healthy.load(Ordering::Relaxed) && tokio::time::timeout(WAIT, telling).await.is_err() {
            self.healthy.store(false, Ordering::Relaxed);
        }
    }
}

/// That there is no topic. Whoever may publish may yet not be allowed to look.
async fn missing(topic: Arc<Topic>) -> Option<StoreError> {
    let failure = topic.look().await.err()?;
    failure.is_missing().then(|| failure.told(&topic.name))
}
