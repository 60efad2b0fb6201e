//! What is heard: one subscription of this process, from which all its watches are fed.
//!
//! The subscription is made for the first watch, before that returns, so that nothing published from then on is missed;
//! it is deleted when no watch has been left for a while, and another is made when its stream breaks. A process that
//! just ends leaves it to Pub/Sub, which removes it after a day.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use baton_store::{BoxStream, Change, StoreError, boot};
use futures_util::stream;
use tokio::sync::{Mutex, Notify, broadcast, mpsc};
use tokio::time::Instant;

use crate::fault::Failure;
use crate::jitter::Backoff;
use crate::topic::Topic;

/// The notes that a slow watch may be behind before it is told of a gap.
const MAX_BEHIND: usize = 256;
/// How long the subscription is kept when nobody watches: whoever looks again soon need not wait for a new one.
const LINGER: Duration = Duration::from_secs(3);
/// How long the first watch waits for the subscription before it goes on without.
const FIRST_LIMIT: Duration = Duration::from_secs(3);
/// A stream that lasted this long was a good one.
const GOOD: Duration = Duration::from_secs(10);
/// The acknowledgements that may wait to be sent.
const MAX_ACKNOWLEDGED: usize = 64;
/// The waits before taking up a broken stream.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// What the watches are told.
#[derive(Clone, Debug)]
enum Note {
    Changed(Arc<str>),
    Gap,
}

/// The subscription of this process, while there is one.
#[derive(Clone)]
pub(crate) struct Hub {
    topic: Arc<Topic>,
    /// Where watches are taken on; none while there is no subscription.
    notes: Arc<Mutex<Option<broadcast::Sender<Note>>>>,
    /// Told when no watch can be taken on any more.
    closing: Arc<Notify>,
}

/// The task that takes messages.
struct Pull {
    hub: Hub,
    notes: broadcast::Sender<Note>,
    subscription: String,
    /// Whether the subscription is known to be there.
    made: bool,
    /// Whether something may have been missed by the time that it is.
    gap: bool,
    backoff: Backoff,
}

impl Hub {
    pub(crate) fn new(topic: Arc<Topic>) -> Hub {
        Hub { topic, notes: Arc::default(), closing: Arc::default() }
    }

    /// Says that no watch will be taken on any more.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Tells of changes of a key, from now on.
    ///
    /// Fails if the topic cannot be used; while it only cannot be reached, it is tried again and again.
    pub(crate) async fn watch(&self, key: &str) -> Result<BoxStream<Change>, StoreError> {
        let notes = self.listen().await?;
        let key: Arc<str> = key.into();
        Ok(Box::pin(stream::unfold((notes, key), |(mut notes, key)| async move {
            loop {
                match notes.recv().await {
                    Ok(Note::Changed(of)) if of == key => return Some((Change::Changed, (notes, key))),
                    Ok(Note::Changed(_)) => {}
                    Ok(Note::Gap) | Err(broadcast::error::RecvError::Lagged(_)) => {
                        return Some((Change::Gap, (notes, key)));
                    }
                    // The task ends only when nobody listens.
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        })))
    }

    async fn listen(&self) -> Result<broadcast::Receiver<Note>, StoreError> {
        let mut notes = self.notes.lock().await;
        if let Some(notes) = &*notes {
            return Ok(notes.subscribe());
        }
        let subscription = fresh(&self.topic);
        let made = match tokio::time::timeout(FIRST_LIMIT, self.topic.subscribe(&subscription)).await {
            Ok(Ok(())) => true,
            Err(_) => false,
            Ok(Err(failure)) => match failure.told(&self.topic.name) {
                StoreError::Unavailable { .. } => false,
                refused => return Err(refused),
            },
        };
        let (sender, receiver) = broadcast::channel(MAX_BEHIND);
        *notes = Some(sender.clone());
        let backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        let pull = Pull { hub: self.clone(), notes: sender, subscription, made, gap: !made, backoff };
        tokio::spawn(pull.run());
        Ok(receiver)
    }
}

impl Pull {
    /// Takes messages until nobody has watched for a while.
    async fn run(mut self) {
        let (notes, closing) = (self.notes.clone(), Arc::clone(&self.hub.closing));
        loop {
            tokio::select! {
                never = self.take() => match never {},
                () = unwatched(&notes, &closing) => {}
            }
            let mut open = self.hub.notes.lock().await;
            if notes.receiver_count() == 0 {
                *open = None;
                drop(open);
                // As well as it can be done.
                let _ = self.hub.topic.unsubscribe(&self.subscription).await;
                return;
            }
        }
    }

    /// Takes messages, over as many streams as it takes.
    async fn take(&mut self) -> Infallible {
        loop {
            // A stream says nothing until there is a message; this is what shows that Pub/Sub is there.
            self.made = self.made || self.hub.topic.subscribe(&self.subscription).await.is_ok();
            if self.made {
                if std::mem::replace(&mut self.gap, true) {
                    self.tell(Note::Gap);
                }
                let began = Instant::now();
                // However it ended, it is begun again.
                let _ = self.stream().await;
                self.leave();
                if began.elapsed() > GOOD {
                    self.backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
                }
            }
            tokio::time::sleep(self.backoff.wait()).await;
        }
    }

    /// Goes on with another subscription: of this one, Pub/Sub may go on sending messages down the broken stream.
    fn leave(&mut self) {
        let old = std::mem::replace(&mut self.subscription, fresh(&self.hub.topic));
        self.made = false;
        let topic = Arc::clone(&self.hub.topic);
        // As well as it can be done.
        tokio::spawn(async move { topic.unsubscribe(&old).await });
    }

    /// Takes messages from one stream until it breaks.
    async fn stream(&mut self) -> Result<(), Failure> {
        let (acknowledge, acknowledged) = mpsc::channel(MAX_ACKNOWLEDGED);
        let acknowledged = stream::unfold(acknowledged, |mut ids| async move {
            let next = ids.recv().await?;
            Some((next, ids))
        });
        let topic = Arc::clone(&self.hub.topic);
        let mut messages = topic.pull(&self.subscription, acknowledged).await?;
        while let Some(answer) = messages.message().await.map_err(Failure::Status)? {
            self.backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
            let mut ids = Vec::new();
            for received in answer.received_messages {
                if let Some(key) = received.message.as_ref().and_then(|message| topic.told(message)) {
                    self.tell(Note::Changed(key.into()));
                }
                ids.push(received.ack_id);
            }
            // What is not acknowledged comes again, which does no harm.
            if !ids.is_empty() && acknowledge.send(ids).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    fn tell(&self, note: Note) {
        // An error says that nobody listens at this moment.
        let _ = self.notes.send(note);
    }
}

/// Waits until nobody has listened for a while.
async fn unwatched(notes: &broadcast::Sender<Note>, closing: &Notify) {
    loop {
        notes.closed().await;
        let _ = tokio::time::timeout(LINGER, closing.notified()).await;
        if notes.receiver_count() == 0 {
            return;
        }
    }
}

/// The name of a subscription that nobody has.
fn fresh(topic: &Topic) -> String {
    let unique = getrandom::u64().unwrap_or_else(|_| boot::now().as_nanos());
    topic.subscription(&format!("baton-{unique:016x}"))
}
