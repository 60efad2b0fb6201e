//! Tells other programs of changes of leader, and of alerts that begin and end, by a signed POST to each.
//!
//! Assumes that a receiver knows a change by its election and epoch: it may be told twice. Guarantees that while the server lives each of them
//! is delivered to each receiver at least once, those of one election in their order, unless a receiver fails for an hour
//! or falls more than 1,024 behind: then the oldest are dropped, and the next delivery of the same type says how many (`missed`). An election waits for no
//! receiver, no receiver for another, and changes of leader do not wait for alerts. Does not guarantee anything over a restart: what was not delivered then is lost without
//! a word, except that `server` changes. A receiver that must know asks for the history.

mod pauses;
mod queue;
mod receiver;
mod sign;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::alerts::{AlertChange, Alerts};
use crate::engine::{Engine, Event};
use crate::metrics::Counter;
pub use pauses::Pauses;
use queue::Queue;
pub use receiver::Receiver;
pub use sign::Secret;

/// How long a delivery is tried.
const GIVE_UP: Duration = Duration::from_secs(3_600);

/// Says to people how the deliveries go.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// What is told.
#[derive(Clone)]
enum Message {
    /// A change of leader.
    Transition(Arc<Event>),
    /// An alert that begins or ends, with a number that rises with each.
    Alert(u64, Arc<AlertChange>),
}

/// What waits for one receiver. Alerts may come by the thousand when something is wrong, and must not push out who leads.
#[derive(Clone)]
struct Lines {
    transitions: Arc<Queue>,
    alerts: Arc<Queue>,
}

impl Lines {
    fn new(lost: &Arc<Counter>) -> Lines {
        let line = || Queue::new(Arc::clone(lost));
        Lines { transitions: line(), alerts: line() }
    }

    fn put(&self, message: Message) {
        match message {
            Message::Transition(_) => self.transitions.put(message),
            Message::Alert(..) => self.alerts.put(message),
        }
    }
}

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
    pub(crate) fn start(
        engine: &Engine,
        alerts: &Alerts,
        run: &str,
        receivers: Vec<Receiver>,
        tell: &Tell,
    ) -> Deliveries {
        let mut deliveries = Deliveries { queues: Vec::new(), tasks: Vec::new() };
        for receiver in receivers {
            let lines = Lines::new(&engine.meters().webhooks_lost);
            let into = lines.clone();
            engine.tell_of_leaders(Box::new(move |event| into.put(Message::Transition(Arc::clone(event)))));
            let (into, numbers) = (lines.clone(), AtomicU64::new(0));
            alerts.tell(Box::new(move |turned| {
                let number = numbers.fetch_add(1, Ordering::Relaxed) + 1;
                into.put(Message::Alert(number, Arc::clone(turned)));
            }));
            for queue in [lines.transitions, lines.alerts] {
                let (receiver, run, tell) = (receiver.clone(), run.to_string(), Arc::clone(tell));
                let courier = Courier { receiver, queue: Arc::clone(&queue), run, tell };
                deliveries.tasks.push(tokio::spawn(courier.deliver_all()));
                deliveries.queues.push(queue);
            }
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

/// Delivers what waits in one line to one receiver, one after the other.
struct Courier {
    receiver: Receiver,
    queue: Arc<Queue>,
    run: String,
    tell: Tell,
}

impl Courier {
    async fn deliver_all(self) {
        loop {
            let (message, missed) = self.queue.take().await;
            let delivered = self.deliver(&message, missed).await;
            self.queue.done(if delivered { 0 } else { missed + 1 });
        }
    }

    /// Delivers, however often it has to be tried. False if it was given up.
    async fn deliver(&self, message: &Message, missed: u64) -> bool {
        let body = match message {
            Message::Transition(event) => self.transition(event, missed),
            Message::Alert(number, turned) => self.alert(*number, turned, missed),
        };
        let Some(body) = body else { return true };
        let id = match message {
            Message::Transition(event) => format!("{}-{}", self.run, event.number),
            Message::Alert(number, _) => format!("{}-alert-{number}", self.run),
        };
        let begun = Instant::now();
        let mut pauses = Pauses::default();
        loop {
            let failed = self.receiver.post(&id, body.clone()).await.err();
            let tried = pauses.any();
            match failed {
                None if tried => (self.tell)(&format!("webhook {}: delivers again", self.receiver)),
                None => {}
                Some(why) if begun.elapsed() > GIVE_UP => {
                    (self.tell)(&format!("webhook {}: gave up event {id}: {why}", self.receiver));
                    self.queue.lost.one();
                    return false;
                }
                Some(why) => {
                    if !tried {
                        (self.tell)(&format!("webhook {}: {why}; it is tried again", self.receiver));
                    }
                    tokio::time::sleep(pauses.another()).await;
                    continue;
                }
            }
            return true;
        }
    }

    fn alert(&self, number: u64, turned: &AlertChange, missed: u64) -> Option<Bytes> {
        let AlertChange { firing, alert } = turned;
        let body = json!({
            "type": "alert",
            "server": self.run,
            "number": number,
            "missed": missed,
            "state": if *firing { "firing" } else { "resolved" },
            "alert": alert.alert,
            "severity": alert.severity,
            "election": alert.election,
            "token": alert.token,
            "since": alert.since,
            "what": alert.what,
            "hint": alert.hint,
            "runbook": alert.runbook,
        });
        serde_json::to_vec(&body).ok().map(Bytes::from)
    }

    fn transition(&self, event: &Event, missed: u64) -> Option<Bytes> {
        let transition = event.document().last_transition?;
        let body = json!({
            "type": "transition",
            "server": self.run,
            "number": event.number,
            "missed": missed,
            "election": event.election,
            "token": transition.epoch,
            "cause": transition.cause,
            "kind": transition.cause.handover(),
            "from": transition.from,
            "leader": transition.to,
            "reason": transition.reason,
            "at": transition.at,
        });
        serde_json::to_vec(&body).ok().map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use baton_api::alerts::{Alert, AlertKind};
    use baton_election::{ElectionName, WallTime};

    use super::*;

    fn turned() -> AlertChange {
        let alert = AlertKind::NoLeader;
        AlertChange {
            firing: true,
            alert: Alert {
                alert,
                severity: alert.severity(),
                election: Some(ElectionName::new("e").unwrap()),
                token: None,
                since: WallTime::default(),
                age_ms: 0,
                what: String::new(),
                hint: String::new(),
                runbook: String::new(),
            },
        }
    }

    #[tokio::test]
    async fn alerts_push_out_no_change_of_leader() {
        let lines = Lines::new(&Arc::default());
        lines.put(Message::Transition(Event::numbered(1)));
        for number in 1..=2 * queue::LONGEST as u64 {
            lines.put(Message::Alert(number, Arc::new(turned())));
        }
        let (first, missed) = lines.transitions.take().await;
        assert!(matches!(&first, Message::Transition(event) if event.number == 1));
        assert_eq!(missed, 0);
        let (alert, missed) = lines.alerts.take().await;
        assert!(matches!(alert, Message::Alert(..)));
        assert_eq!(missed, queue::LONGEST as u64);
    }
}
