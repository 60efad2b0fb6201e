//! Tells other programs of changes of leader, by a signed POST to each.
//!
//! Assumes that a receiver knows a change by its election and epoch: it may be told twice. Guarantees that while the server lives each change of leader
//! is delivered to each receiver at least once, those of one election in their order, unless a receiver fails for an hour
//! or falls more than 1,024 behind: then the oldest are dropped, and the next delivery says how many (`missed`). An election waits for no
//! receiver, and no receiver for another. Does not guarantee anything over a restart: what was not delivered then is lost without
//! a word, except that `server` changes. A receiver that must know asks for the history.

mod queue;
mod receiver;
mod sign;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::engine::{Engine, Event};
use queue::Queue;
pub use receiver::Receiver;
pub use sign::Secret;

/// The first delay before another try is at most this, each later one at most twice the one before.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// No delay is longer.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// How long a delivery is tried.
const GIVE_UP: Duration = Duration::from_secs(3_600);

/// Says to people how the deliveries go.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Deliveries that go on in the background until this is dropped.
pub struct Deliveries {
    queues: Vec<Arc<Queue>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Deliveries {
    pub(crate) fn start(engine: &Engine, run: &str, receivers: Vec<Receiver>, tell: &Tell) -> Deliveries {
        let mut deliveries = Deliveries { queues: Vec::new(), tasks: Vec::new() };
        for receiver in receivers {
            let queue = Queue::new();
            let courier =
                Courier { receiver, queue: Arc::clone(&queue), run: run.to_string(), tell: Arc::clone(tell) };
            let into = Arc::clone(&queue);
            engine.tell_of_leaders(Box::new(move |event| into.put(Arc::clone(event))));
            deliveries.tasks.push(tokio::spawn(courier.deliver_all()));
            deliveries.queues.push(queue);
        }
        deliveries
    }

    /// Waits until all is delivered, for at most so long, and stops.
    pub async fn finish(self, within: Duration) {
        let all = async {
            for queue in &self.queues {
                queue.empty().await;
            }
        };
        let _ = tokio::time::timeout(within, all).await;
    }
}

/// Delivers to one receiver, one after the other.
struct Courier {
    receiver: Receiver,
    queue: Arc<Queue>,
    run: String,
    tell: Tell,
}

impl Courier {
    async fn deliver_all(self) {
        loop {
            let (event, missed) = self.queue.take().await;
            let delivered = self.deliver(&event, missed).await;
            self.queue.done(if delivered { 0 } else { missed + 1 });
        }
    }

    /// Delivers, however often it has to be tried. False if it was given up.
    async fn deliver(&self, event: &Event, missed: u64) -> bool {
        let Some(body) = self.body(event, missed) else { return true };
        let id = format!("{}-{}", self.run, event.number);
        let begun = Instant::now();
        let mut delay = FIRST_DELAY;
        loop {
            let seconds = baton_store::boot::wall().as_unix_millis() / 1_000;
            let failed = self.receiver.post(&id, seconds, body.clone()).await.err();
            let tried = delay > FIRST_DELAY;
            match failed {
                None if tried => (self.tell)(&format!("webhook {}: delivers again", self.receiver)),
                None => {}
                Some(why) if begun.elapsed() > GIVE_UP => {
                    (self.tell)(&format!("webhook {}: gave up event {id}: {why}", self.receiver));
                    return false;
                }
                Some(why) => {
                    if !tried {
                        (self.tell)(&format!("webhook {}: {why}; it is tried again", self.receiver));
                    }
                    tokio::time::sleep(jittered(delay)).await;
                    delay = (delay * 2).min(LONGEST_DELAY);
                    continue;
                }
            }
            return true;
        }
    }

    fn body(&self, event: &Event, missed: u64) -> Option<Bytes> {
        let transition = event.document().last_transition?;
        let body = json!({
            "type": "transition",
            "server": self.run,
            "number": event.number,
            "missed": missed,
            "election": event.election,
            "epoch": transition.epoch,
            "cause": transition.cause,
            "from": transition.from,
            "leader": transition.to,
            "reason": transition.reason,
            "at": transition.at,
        });
        serde_json::to_vec(&body).ok().map(Bytes::from)
    }
}

/// From half of it to all of it: receivers that came back together are not hit together.
fn jittered(delay: Duration) -> Duration {
    let part = getrandom::u32().unwrap_or(u32::MAX / 2);
    delay / 2 + (delay / 2).mul_f64(f64::from(part) / f64::from(u32::MAX))
}
