//! What waits to be delivered to one receiver. Whoever puts something in never waits; when it is full, the oldest goes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::Message;
use crate::metrics::Counter;

/// The most that waits.
pub(super) const LONGEST: usize = 1_024;

pub(super) struct Queue {
    state: Mutex<State>,
    /// How many have not been dealt with: those that wait, and the one in hand.
    outstanding: watch::Sender<usize>,
    /// Counts what is never delivered.
    pub(super) lost: Arc<Counter>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Message>,
    /// How many went undelivered right before the first that waits.
    missed: u64,
}

impl Queue {
    pub(super) fn new(lost: Arc<Counter>) -> Arc<Queue> {
        Arc::new(Queue { state: Mutex::default(), outstanding: watch::Sender::new(0), lost })
    }

    pub(super) fn put(&self, message: Message) {
        let full = {
            let mut state = self.state();
            let full = state.waiting.len() == LONGEST;
            if full {
                state.waiting.pop_front();
                state.missed += 1;
                self.lost.one();
            }
            state.waiting.push_back(message);
            full
        };
        if !full {
            self.outstanding.send_modify(|count| *count += 1);
        }
    }

    /// The first that waits, and how many went undelivered right before it.
    pub(super) async fn take(&self) -> (Message, u64) {
        let mut outstanding = self.outstanding.subscribe();
        loop {
            {
                let mut state = self.state();
                if let Some(message) = state.waiting.pop_front() {
                    return (message, std::mem::take(&mut state.missed));
                }
            }
            if outstanding.wait_for(|count| *count > 0).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The one in hand has been dealt with; so many went undelivered, it among them if it was given up.
    pub(super) fn done(&self, undelivered: u64) {
        self.state().missed += undelivered;
        self.outstanding.send_modify(|count| *count -= 1);
    }

    /// Waits until all has been dealt with.
    pub(super) async fn empty(&self) {
        let _ = self.outstanding.subscribe().wait_for(|count| *count == 0).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Event;

    fn number(message: &Message) -> u64 {
        match message {
            Message::Transition(event) => event.number,
            Message::Alert(number, _) => *number,
        }
    }

    #[tokio::test]
    async fn the_oldest_go_and_the_next_says_how_many() {
        let queue = Queue::new(Arc::default());
        let longest = LONGEST as u64;
        for number in 1..=longest + 3 {
            queue.put(Message::Transition(Event::numbered(number)));
        }
        let (first, missed) = queue.take().await;
        assert_eq!((number(&first), missed), (4, 3));
        assert_eq!(queue.lost.value(), 3);
        queue.done(missed + 1);
        let (second, missed) = queue.take().await;
        assert_eq!((number(&second), missed), (5, 4), "what was given up is missed, too");
        queue.done(0);
        let (third, missed) = queue.take().await;
        assert_eq!((number(&third), missed), (6, 0));
    }

    #[tokio::test]
    async fn it_is_empty_when_the_last_has_been_dealt_with() {
        let queue = Queue::new(Arc::default());
        queue.put(Message::Transition(Event::numbered(1)));
        queue.take().await;
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.empty().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        queue.done(0);
        waiting.await.unwrap();
    }
}
